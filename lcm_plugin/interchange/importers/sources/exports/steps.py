"""Cuts an answer that holds its tools' results into what models take: words and calls, the results, then the next words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from lcm_plugin.interchange.importers.records import Entry

Extras: TypeAlias = tuple[tuple[str, Mapping[str, Any]], ...]
"""A block of an answer, and the result of the call in it, if there is one."""
Piece: TypeAlias = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]


def steps(
    own: str, pieces: Iterable[Piece], at: int | None, sender: str | None = None, extras: Extras = ()
) -> Iterator[Entry]:
    """The rows of an answer. A piece is a block, a result (a message of the role ``tool``), or a call with its result."""
    blocks: list[Mapping[str, Any]] = []
    answers: list[Mapping[str, Any]] = []
    number = 0
    for block, answer in pieces:
        if block is not None and answers and answer is None:
            yield from _step(own, number, blocks, answers, at, sender, extras)
            number, blocks, answers = number + 1, [], []
        if block is not None:
            blocks.append(block)
        if answer is not None:
            answers.append(answer)
    if blocks or answers or not number:
        yield from _step(own, number, blocks, answers, at, sender, extras)


def _step(
    own: str,
    number: int,
    blocks: list[Mapping[str, Any]],
    answers: list[Mapping[str, Any]],
    at: int | None,
    sender: str | None,
    extras: Extras,
) -> Iterator[Entry]:
    source_id = f"{own}/{number}" if number else own
    shown = {"role": "assistant", "content": blocks}
    yield Entry(source_id, shown, at, False, sender, () if number else extras)
    for answer in answers:
        yield Entry(f"{own}/result/{answer['tool_call_id']}", dict(answer), at)
