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
from lcm_plugin.summarize.extraction.naming import NOTHING_DROPPED, ExpandLine, words_of_facts
from lcm_plugin.summarize.extraction.reading import UNIT_COST, Scored, read
from lcm_plugin.summarize.extraction.selection import Choice
from lcm_plugin.summarize.facts import Vocabulary
from lcm_plugin.summarize.focus import Focus
from lcm_plugin.summarize.units import EXPAND_PREFIX, Passage

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
        scored = read(blocks, self._vocabulary, focus)
        choice, ending = Choice(scored), ExpandLine.of_units(scored)
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
            return self._one_cut(blocks, scored, choice.first(), limit)
        best: tuple[str, int] | None = None
        for _ in range(_ATTEMPTS):
            picked = choice.picked
            lines = self._lines(blocks, scored, picked)
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
        return best or self._one_cut(blocks, scored, choice.first(), limit)

    def _one_cut(
        self, blocks: tuple[SourceBlock, ...], scored: Scored, index: int | None, limit: int
    ) -> tuple[str, int] | None:
        """The start of the one unit worth most, for a limit that not even one whole unit fits."""
        if index is None:
            return None
        passage = scored.passages[index]
        stamp = self._when(passage, blocks).stamp(_Moment("", -1))
        words = scored.texts[index][: limit * 4].split(" ")
        for head in (f"[{stamp}] {passage.who}: ", f"{passage.who}: "):
            for keep in range(len(words), 0, -max(1, len(words) // 8)):
                start = " ".join(words[:keep])[: limit * 3 * keep // len(words)]
                text = f"{head}{start} …\n{EXPAND_PREFIX} {NOTHING_DROPPED}"
                tokens = self._counter.text(text)
                if tokens <= limit:
                    return text, tokens
        return None

    def expand_line(self, blocks: tuple[SourceBlock, ...], text: str, room: int) -> str:
        """The "Expand for details about" line appended to a model's summary: facts of the blocks that it leaves out."""
        return ExpandLine.of_blocks(blocks, self._vocabulary).write(frozenset(words_of_facts(text)), room)

    def _lines(self, blocks: tuple[SourceBlock, ...], scored: Scored, kept: Sequence[int]) -> list[str]:
        """One line a speaker and stretch of time; its head has the time when it moved on."""
        lines: list[str] = []
        shown = began = now = _Moment("", -1)
        last: Passage | None = None
        before = -1
        for index in kept:
            text, passage = scored.texts[index], scored.passages[index]
            if passage is not last:
                now = self._when(passage, blocks)
            if last is not None and last.who == passage.who and now.continues(began):
                together = last.block == passage.block and before == index - 1
                lines[-1] += (" " if together else " … ") + text
            else:
                head = "" if now == shown else f"[{now.stamp(shown)}] "
                lines.append(f"{head}{passage.who}: {text}")
                shown = began = now
            last, before = passage, index
        return lines

    def _when(self, passage: Passage, blocks: tuple[SourceBlock, ...]) -> _Moment:
        if passage.date:
            hours, _, minutes = passage.time.partition(":")
            return _Moment(passage.date, int(hours) * 60 + int(minutes) if minutes else 0)
        moment = (_EPOCH + timedelta(milliseconds=blocks[passage.block].at)).astimezone(self._zone)
        return _Moment(f"{moment:%Y-%m-%d}", moment.hour * 60 + moment.minute)


def _first_and_last(scored: Scored) -> list[int]:
    """What a user asked first, and how it stood at the end: what failed, came out or was decided in the newest blocks."""
    passages, cues, worths = scored.passages, scored.cues, scored.worths
    asked = [
        n
        for n, found in enumerate(cues)
        if found & REQUEST and passages[n].role == "user" and scored.facts[n]
    ]
    first = [n for n in asked if passages[n].block == passages[asked[0]].block]
    newest = passages[-1].block - _END_BLOCKS if passages else 0
    ends = [n for n, found in enumerate(cues) if found & ~REQUEST and passages[n].block > newest]
    found = [max(some, key=lambda n: (worths[n], n)) for some in (first, ends) if some]
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
