"""The marks of a hit, told apart from asterisks that stand in the text itself."""

from __future__ import annotations

from collections.abc import Iterator

from lcm_plugin.recall.match import ELLIPSIS, OPEN

Piece = tuple[str, bool]
_MARK = OPEN


def pieces(snippet: str, text: str | None = None) -> list[Piece]:
    """A snippet as `make_snippet` writes it, in pieces: each a text and whether it matches.

    With the whole ``text`` that it was cut from, ``**`` of the text's own is told apart from marks.
    """
    if text is not None:
        told = " ".join(text.split())
        body = snippet.removeprefix(ELLIPSIS)
        for start in _starts(body, told):
            found = _walk(body, told, start)
            if found is not None:
                return _joined([(ELLIPSIS, False)] * (len(snippet) - len(body)) + found)
    return _joined([(part, at % 2 == 1) for at, part in enumerate(snippet.split(_MARK))])


def _starts(body: str, told: str) -> Iterator[int]:
    """Where in the text a snippet may begin: where its words up to the first asterisk stand."""
    behind_mark = body.removeprefix(_MARK)
    first = behind_mark.partition("*")[0].removesuffix(ELLIPSIS)
    at = told.find(first)
    while at >= 0:
        if behind_mark != body and told.endswith(_MARK, 0, at):
            yield at - len(_MARK)
        yield at
        at = told.find(first, at + 1) if first else -1


def _walk(body: str, told: str, start: int) -> list[Piece] | None:
    """The pieces when the snippet is the text from a place on with marks in it, else None."""
    found: list[Piece] = []
    at, place, marked, begin = 0, start, False, 0
    while at < len(body):
        if body.startswith(_MARK, at):
            at += len(_MARK)
            if not marked and told.startswith(_MARK, place):
                place += len(_MARK)
            else:
                found.append((body[begin : at - len(_MARK)], marked))
                begin, marked = at, not marked
        elif place < len(told) and body[at] == told[place]:
            at, place = at + 1, place + 1
        elif body[at:] == ELLIPSIS:
            break
        else:
            return None
    return None if marked else [*found, (body[begin:], False)]


def _joined(found: list[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for text, marked in found:
        if not text:
            continue
        if joined and joined[-1][1] == marked:
            joined[-1] = (joined[-1][0] + text, marked)
        else:
            joined.append((text, marked))
    return joined
