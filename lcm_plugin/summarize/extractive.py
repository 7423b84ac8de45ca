"""The embedded summariser: picks sentences, calls no model, gives the same bytes everywhere.

First come what was asked at the beginning and how it stood at the end. One round spends part of the room on the talk
itself, units that ask, decide, fail or conclude, an equal share of it on each earlier summary; the next covers as many
facts as it can; the last line names what was left out that one could search for. Lines are in time order.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.cues import DECISION, ERROR, OUTCOME, REQUEST
from lcm_plugin.summarize.facts import NAME, TERM, Vocabulary
from lcm_plugin.summarize.focus import Focus
from lcm_plugin.summarize.selection import UNIT_COST, Choice, Scored
from lcm_plugin.summarize.units import EXPAND_PREFIX, Unit, units

_ATTEMPTS = 5
_FILLED = 0.95
_TALK_SHARE, _EXPAND_SHARE, _EDGES_SHARE = 0.28, 0.3, 0.08
_SUMMARIES_SHARE = 0.35
_LINE_MINUTES = 5
_CHEER_CHARS, _TERM_FACTOR, _END_BLOCKS = 40, 2, 2
_ROLE_WORTH = {"user": 12, "assistant": 5, "summary": 5}
NO_FOCUS = Focus("")
_FOCUS_WORTH, _FOCUS_FACT = 120, 6
_EDGE_WORTH, _TOOL_ERROR_WORTH = 5, 12
_CUE_WORTH = [
    10 * bool(cues & REQUEST)
    + 12 * bool(cues & DECISION)
    + 14 * bool(cues & ERROR)
    + 9 * bool(cues & OUTCOME)
    for cues in range(16)
]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING_DROPPED = "the exact wording"


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
        scored = [self._score(unit, focus) for unit in units(blocks)]
        choice = Choice(scored)
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
            text = self._render(blocks, scored, choice, int(limit * _EXPAND_SHARE))
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
                text = f"{head}{start} …\n{EXPAND_PREFIX} {_NOTHING_DROPPED}"
                tokens = self._counter.text(text)
                if tokens <= limit:
                    return text, tokens
        return None

    def expand_line(self, blocks: tuple[SourceBlock, ...], text: str, room: int) -> str:
        """The "Expand for details about" line appended to a model's summary: facts of the blocks that it leaves out."""
        choice = Choice([self._score(unit) for unit in units(blocks)])
        choice.cover(self._facts(text)[0])
        return f"{EXPAND_PREFIX} {_named(choice, room)}"

    def _score(self, unit: Unit, focus: Focus = NO_FOCUS) -> Scored:
        facts, cues = self._facts(unit.text)
        if unit.role == "user" and unit.text[-1] in "?？؟":
            cues |= REQUEST
        if unit.is_personal:
            facts = _of_people(unit.text, facts)
        worth = _CUE_WORTH[cues]
        if facts:
            worth += _ROLE_WORTH.get(unit.role, 0) + (_EDGE_WORTH if unit.edge else 0)
            if cues & ERROR and unit.role not in _ROLE_WORTH:
                worth += _TOOL_ERROR_WORTH
        if focus and (wanted := focus.count(unit.text)):
            worth += _FOCUS_WORTH * wanted
            facts = facts | {f"\x00{unit.order}": _FOCUS_FACT}
        return Scored(unit, facts, worth, estimate(unit.text) + UNIT_COST, cues)

    def _facts(self, text: str) -> tuple[dict[str, int], int]:
        """The weights of the facts in a sentence, and its cues."""
        facts: dict[str, int] = {}
        cues = 0
        words = list(map(self._vocabulary.__getitem__, text.split()))
        if words and words[0] is not None and words[0].plain:
            cues = words[0].cue
            words[0] = None
        for word in filter(None, words):
            cues |= word.cue
            facts.update(word.facts)
        return facts, cues

    def _render(
        self, blocks: tuple[SourceBlock, ...], scored: list[Scored], choice: Choice, expand_room: int
    ) -> str:
        """One line a speaker and stretch of time; its head has the time when it moved on."""
        lines: list[str] = []
        shown = began = _Moment("", -1)
        before: Unit | None = None
        for index in choice.picked:
            unit = scored[index].unit
            now = self._when(unit, blocks)
            if before is not None and before.who == unit.who and now.continues(began):
                together = before.block == unit.block and before.order == unit.order - 1
                lines[-1] += (" " if together else " … ") + unit.text
            else:
                head = "" if now == shown else f"[{now.stamp(shown)}] "
                lines.append(f"{head}{unit.who}: {unit.text}")
                shown = began = now
            before = unit
        lines.append(f"{EXPAND_PREFIX} {_named(choice, expand_room)}")
        return "\n".join(lines)

    def _when(self, unit: Unit, blocks: tuple[SourceBlock, ...]) -> _Moment:
        if unit.date:
            hours, _, minutes = unit.time.partition(":")
            return _Moment(unit.date, int(hours) * 60 + int(minutes) if minutes else 0)
        moment = (_EPOCH + timedelta(milliseconds=blocks[unit.block].at)).astimezone(self._zone)
        return _Moment(f"{moment:%Y-%m-%d}", moment.hour * 60 + moment.minute)


def _of_people(text: str, facts: dict[str, int]) -> dict[str, int]:
    """The facts of what somebody says: plain words count, a cheer with nothing but names in it says nothing."""
    if len(text) <= _CHEER_CHARS and all(weight == NAME for weight in facts.values()):
        return {}
    return {fact: weight * _TERM_FACTOR if weight <= TERM else weight for fact, weight in facts.items()}


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


def _named(choice: Choice, room: int) -> str:
    """The weightiest facts left out, in source order, in about ``room`` tokens; names that stand together are one."""
    left = choice.left_out()
    chosen: set[str] = set()
    for text, _ in sorted(left, key=lambda item: (-item[1], item[0])):
        cost = estimate(text)
        if cost > room:
            break
        chosen.add(text)
        room -= cost
    terms: list[str] = []
    last = ""
    for text, _ in left:
        if text not in chosen:
            continue
        if last and choice.stand_together(last, text):
            terms[-1] += f" {text}"
        else:
            terms.append(text)
        last = text
    return ", ".join(terms) or _NOTHING_DROPPED


def estimate(text: str) -> int:
    """About the tokens of a short text, from a fit over four corpora; the result is counted exactly."""
    digits = sum(map(text.count, "0123456789"))
    hundredths = 20 * len(text) + 68 * digits
    if not text.isascii():
        hundredths += 40 * (len(text.encode("utf-8", "replace")) - len(text))
    return hundredths // 100 + 2
