"""Texts without the characters that databases and HTTP clients refuse."""

from __future__ import annotations


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
