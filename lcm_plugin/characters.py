"""Texts without the characters that databases and HTTP clients refuse."""

from __future__ import annotations

from collections.abc import Iterator

PIECE = 1 << 20


def encode(text: str) -> bytes:
    """Any Python text as bytes, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def encoded_pieces(text: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """A slice of a text as `encode` gives it, in pieces: a large text is not copied as a whole."""
    end = len(text) if end is None else end
    for at in range(start, end, PIECE):
        yield encode(text[at : min(at + PIECE, end)])


def sent_pieces(text: str, start: int, end: int) -> Iterator[bytes]:
    """A slice of a text as it is sent, in pieces: UTF-8 with U+FFFD for each lone surrogate."""
    for at in range(start, end, PIECE):
        yield encodable(text[at : min(at + PIECE, end)]).encode()


def encodable(text: str) -> str:
    """The text with U+FFFD for each lone surrogate; the same object when it has none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def storable(text: str) -> str:
    """The text without what a database refuses: NUL and lone surrogates become U+FFFD."""
    return encodable(text.replace("\x00", "\ufffd") if "\x00" in text else text)
