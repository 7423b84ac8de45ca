"""The embedded summariser: picks sentences, calls no model, gives the same bytes everywhere.

First come what was asked at the beginning and how it stood at the end. One round spends part of the room on the talk
itself, units that ask, decide, fail or conclude, an equal share of it on each earlier summary; the next covers as many
facts as it can; the last line names what was left out that one could search for. Lines are in time order.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.cues import REQUEST
from lcm_plugin.summarize.extraction.naming import NOTHING_DROPPED, ExpandLine
from lcm_plugin.summarize.extraction.reading import read, read_names
from lcm_plugin.summarize.extraction.selection import UNIT_COST, Choice, Scored
from lcm_plugin.summarize.facts import Vocabulary
from lcm_plugin.summarize.focus import Focus
from lcm_plugin.summarize.units import EXPAND_PREFIX, Unit

_ATTEMPTS = 5
_FILLED = 0.95
_TALK_SHARE, _EXPAND_SHARE, _EDGES_SHARE = 0.28, 0.3, 0.08
_SUMMARIES_SHARE = 0.35
_LINE_MINUTES = 5
_END_BLOCKS = 2
NO_FOCUS = Focus("")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ExtractiveSummarizer:
    """Deterministic summaries by selection. Thread-safe."""

    def __init__(
        self, counter: TokenCounter, timezone: str = "UTC", vocabulary: Vocabulary | None = None
    ) -> None:
        self._counter = counter
        self._zone = ZoneInfo(timezone)
        self._vocabulary = Vocabulary() if vocabulary is None else vocabulary

    def summarize(
        self, blocks: tuple[SourceBlock, ...], limit: int, focus: Focus = NO_FOCUS
    ) -> tuple[str, int] | None:
        """A summary of at most ``limit`` tokens with its tokens, or None when nothing useful fits.

        What has words of the ``focus`` comes before all else.
        """
        reading, scored = read(blocks, self._vocabulary, focus)
        choice, ending = Choice(scored, reading.holders), ExpandLine(reading)
        room = int(limit * (1 - _EXPAND_SHARE))
        condensing = bool(blocks) and blocks[0].role == "summary"
        talk = int(limit * (_SUMMARIES_SHARE if condensing else _TALK_SHARE))
        if condensing:
            for index in range(len(blocks)):
                choice.fill(talk * (index + 1) // len(blocks), talk_only=True, block=index)
        else:
            choice.keep(_first_and_last(scored), int(limit * _EDGES_SHARE))
        choice.fill(talk, talk_only=True)
        choice.fill(room)
        if not choice.picked:
            return self._one_cut(blocks, choice.first(), limit)
        best: tuple[str, int] | None = None
        for _ in range(_ATTEMPTS):
            picked = choice.picked
            lines = self._lines(blocks, [scored[index].unit for index in picked])
            text = "\n".join([*lines, ending.write(choice.covered, int(limit * _EXPAND_SHARE))])
            tokens = self._counter.text(text)
            if tokens <= limit:
                if best is None or tokens > best[1]:
                    best = text, tokens
                if choice.exhausted or tokens >= limit * _FILLED:
                    return best
                room = choice.spent + limit - tokens
                choice.fill(room)
            elif len(picked) > 1:
                choice.shrink(tokens - limit + UNIT_COST)
            else:
                break
        return best or self._one_cut(blocks, choice.first(), limit)

    def _one_cut(
        self, blocks: tuple[SourceBlock, ...], unit: Unit | None, limit: int
    ) -> tuple[str, int] | None:
        """The start of the one unit worth most, for a limit that not even one whole unit fits."""
        if unit is None:
            return None
        stamp = self._when(unit, blocks).stamp(_Moment("", -1))
        words = unit.text[: limit * 4].split(" ")
        for head in (f"[{stamp}] {unit.who}: ", f"{unit.who}: "):
            for keep in range(len(words), 0, -max(1, len(words) // 8)):
                start = " ".join(words[:keep])[: limit * 3 * keep // len(words)]
                text = f"{head}{start} …\n{EXPAND_PREFIX} {NOTHING_DROPPED}"
                tokens = self._counter.text(text)
                if tokens <= limit:
                    return text, tokens
        return None

    def expand_line(self, blocks: tuple[SourceBlock, ...], text: str, room: int) -> str:
        """The "Expand for details about" line appended to a model's summary: facts of the blocks that it leaves out."""
        covered, _ = self._vocabulary.facts(text.split())
        return ExpandLine(read_names(blocks, self._vocabulary)).write(covered, room)

    def _lines(self, blocks: tuple[SourceBlock, ...], kept: Sequence[Unit]) -> list[str]:
        """One line a speaker and stretch of time; its head has the time when it moved on."""
        lines: list[str] = []
        shown = began = _Moment("", -1)
        before: Unit | None = None
        for unit in kept:
            now = self._when(unit, blocks)
            if before is not None and before.who == unit.who and now.continues(began):
                together = before.block == unit.block and before.order == unit.order - 1
                lines[-1] += (" " if together else " … ") + unit.text
            else:
                head = "" if now == shown else f"[{now.stamp(shown)}] "
                lines.append(f"{head}{unit.who}: {unit.text}")
                shown = began = now
            before = unit
        return lines

    def _when(self, unit: Unit, blocks: tuple[SourceBlock, ...]) -> _Moment:
        if unit.date:
            hours, _, minutes = unit.time.partition(":")
            return _Moment(unit.date, int(hours) * 60 + int(minutes) if minutes else 0)
        moment = (_EPOCH + timedelta(milliseconds=blocks[unit.block].at)).astimezone(self._zone)
        return _Moment(f"{moment:%Y-%m-%d}", moment.hour * 60 + moment.minute)


def _first_and_last(scored: list[Scored]) -> list[int]:
    """What a user asked first, and how it stood at the end: what failed, came out or was decided in the newest blocks."""
    asked = [
        n for n, item in enumerate(scored) if item.unit.role == "user" and item.facts and item.cues & REQUEST
    ]
    first = [n for n in asked if scored[n].unit.block == scored[asked[0]].unit.block]
    newest = scored[-1].unit.block - _END_BLOCKS if scored else 0
    ends = [n for n, item in enumerate(scored) if item.unit.block > newest and item.cues & ~REQUEST]
    found = [max(some, key=lambda n: (scored[n].worth, n)) for some in (first, ends) if some]
    return list(dict.fromkeys(found))


class _Moment(NamedTuple):
    """A day and the minutes since its midnight."""

    day: str
    minute: int

    def continues(self, began: _Moment) -> bool:
        """Whether a line that began then may go on now."""
        return self.day == began.day and 0 <= self.minute - began.minute < _LINE_MINUTES

    def stamp(self, shown: _Moment) -> str:
        """The time, with the day when it is another than the one shown last."""
        clock = f"{self.minute // 60:02d}:{self.minute % 60:02d}"
        return clock if self.day == shown.day else f"{self.day} {clock}"
