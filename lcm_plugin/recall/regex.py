"""Regular expressions that cannot run away, and what an index can know about them.

RE2 matches in time linear in the text. `required_condition` reads from a pattern which texts of three
or more characters every match must hold, so that an index of three-character runs can rule rows out; it
is careful in one direction only: what it does not understand it does not require.
Method: Russ Cox, "Regular Expression Matching with a Trigram Index" (2012), reduced to exact strings.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.recall.match import Matches, Span
from lcm_plugin.recall.rank import Ranked
from lcm_plugin.recall.scope import LeftOut
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.search import (
    AllOf,
    AnyOf,
    Condition,
    Filter,
    IndexUnusable,
    RowKind,
    SearchRow,
    Substring,
)

SECONDS = 2.0
MAX_CHARS, MAX_SPANS = 1_000, 50
_MIN_LITERAL = 3
_MAX_ALTERNATIVES = 16

_UNSUPPORTED = (
    (re.compile(r"\(\?<?[=!]"), "look-around such as (?=…) or (?<!…)"),
    (re.compile(r"\\[1-9]|\(\?P=\w+\)|\\k<"), "back-references such as \\1"),
    (re.compile(r"\(\?>"), "atomic groups (?>…)"),
    (re.compile(r"[*+?}]\+"), "possessive quantifiers such as a++"),
    (re.compile(r"\(\?\("), "conditionals (?(…)…)"),
    (re.compile(r"\\G"), "\\G"),
)


def compile_regex(pattern: str) -> Any:
    """The pattern compiled by RE2.

    Raises `InputError` that names the construct which RE2 does not have, or what is wrong.
    """
    import re2

    if not pattern:
        raise InputError("pattern is empty")
    if len(pattern) > MAX_CHARS:
        raise InputError(f"pattern has {len(pattern)} characters; at most {MAX_CHARS} are allowed")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern.encode("utf-8", "replace").decode(), options)
    except re2.error as error:
        detail = error.args[0] if error.args else error
        detail = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        named = next((name for sign, name in _UNSUPPORTED if sign.search(pattern)), None)
        if named:
            raise InputError(
                f"regex mode is RE2, which runs in linear time and has no {named} ({detail})"
            ) from error
        raise InputError(f"pattern is not a valid RE2 regular expression: {detail}") from error


def required_condition(pattern: str) -> Condition | None:
    """What every match of a valid pattern must hold; None when nothing is known."""
    try:
        return _Reader(pattern).read()
    except _Unclear:
        return None


class _Unclear(Exception):
    """The pattern holds something this reader does not know."""


@dataclass(slots=True)
class _Sequence:
    """What a concatenation requires so far: closed conditions and the exact text being collected."""

    run: str = ""
    terms: list[Condition] = field(default_factory=list)

    def break_run(self) -> None:
        if len(self.run) >= _MIN_LITERAL:
            self.terms.append(Substring(self.run))
        self.run = ""

    def close(self) -> Condition | None:
        self.break_run()
        if not self.terms:
            return None
        return self.terms[0] if len(self.terms) == 1 else AllOf(tuple(self.terms))


@dataclass(frozen=True, slots=True)
class _Atom:
    """One element: an exact text, or a condition (None: nothing is known about it)."""

    text: str | None = None
    condition: Condition | None = None


class _Reader:
    """A reader of the common part of RE2's syntax."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def read(self) -> Condition | None:
        condition, _ = self._alternation()
        if self._at != len(self._pattern):
            raise _Unclear
        return condition

    def _alternation(self) -> tuple[Condition | None, str | None]:
        """A condition, and the exact text when the whole is one plain text."""
        branches, texts = [], []
        while True:
            condition, text = self._concatenation()
            branches.append(condition)
            texts.append(text)
            if not self._take("|"):
                break
        if len(branches) == 1:
            return branches[0], texts[0]
        known = [branch for branch in branches if branch is not None]
        if len(known) < len(branches) or len(known) > _MAX_ALTERNATIVES:
            return None, None
        return AnyOf(tuple(known)), None

    def _concatenation(self) -> tuple[Condition | None, str | None]:
        sequence, plain = _Sequence(), True
        text = ""
        while self._at < len(self._pattern) and self._peek() not in "|)":
            atom = self._atom()
            least, most = self._quantifier()
            if atom.text is not None and least == most == 1:
                sequence.run += atom.text
                text += atom.text
                continue
            plain = False
            if least == 0:
                sequence.break_run()
            elif atom.text is not None:
                # Repeated: its first copy ends what stood before, its last one begins what follows.
                sequence.run += atom.text
                sequence.break_run()
                sequence.run = atom.text
            else:
                sequence.break_run()
                if atom.condition is not None:
                    sequence.terms.append(atom.condition)
        return sequence.close(), text if plain else None

    def _atom(self) -> _Atom:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            self._skip_class()
            return _Atom()
        if character == "\\":
            return self._escape()
        if character == ".":
            return _Atom()
        if character in "^$":
            return _Atom(text="")
        if character in "*+?":
            raise _Unclear
        return _Atom(text=character)

    def _group(self) -> _Atom:
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                self._skip_to(">")
            elif not self._take(":"):
                self._skip_to_any(":)")
                if self._pattern[self._at - 1] == ")":
                    return _Atom(text="")
        condition, text = self._alternation()
        if not self._take(")"):
            raise _Unclear
        return _Atom(text=text, condition=condition)

    def _escape(self) -> _Atom:
        if self._at >= len(self._pattern):
            raise _Unclear
        character = self._next()
        if character in "bBAz":
            return _Atom(text="")
        if character in "dDwWsSC":
            return _Atom()
        if character in "pP":
            if self._take("{"):
                self._skip_to("}")
            else:
                self._next()
            return _Atom()
        if character in _CONTROL:
            return _Atom(text=_CONTROL[character])
        if character.isalnum():
            raise _Unclear
        return _Atom(text=character)

    def _quantifier(self) -> tuple[int, int | None]:
        least, most = 1, 1  # type: int, int | None
        while self._at < len(self._pattern):
            if self._take("*"):
                least, most = 0, None
            elif self._take("+"):
                most = None
            elif self._take("?"):
                if (least, most) == (1, 1):
                    least, most = 0, 1
            elif counted := _COUNTED.match(self._pattern, self._at):
                self._at = counted.end()
                least = min(least, int(counted[1]))
                most = int(counted[1]) if counted[2] is None else None
            else:
                break
        return least, most

    def _skip_class(self) -> None:
        self._take("^")
        self._take("]")
        while (character := self._next()) != "]":
            if character == "[" and self._take(":"):
                self._skip_to(":]")
            elif character == "\\":
                self._next()

    def _skip_to(self, end: str) -> None:
        found = self._pattern.find(end, self._at)
        if found < 0:
            raise _Unclear
        self._at = found + len(end)

    def _skip_to_any(self, ends: str) -> None:
        while self._next() not in ends:
            pass

    def _next(self) -> str:
        if self._at >= len(self._pattern):
            raise _Unclear
        self._at += 1
        return self._pattern[self._at - 1]

    def _peek(self) -> str:
        return self._pattern[self._at]

    def _take(self, text: str) -> bool:
        if self._pattern.startswith(text, self._at):
            self._at += len(text)
            return True
        return False


_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_COUNTED = re.compile(r"\{(\d+)(,\d*)?\}")


@dataclass(slots=True)
class RegexFound:
    """Matching rows, newest first. ``more``: there may be others. ``stopped_at``: where time ran out."""

    rows: list[Ranked] = field(default_factory=list)
    more: bool = False
    index_failed: bool = False
    stopped_at: SearchRow | None = None


class RegexSearch:
    """One pattern over any number of texts."""

    def __init__(self, pattern: str, seconds: float = SECONDS) -> None:
        self._regex: Any = compile_regex(pattern)
        self._condition = required_condition(pattern)
        self._deadline = time.monotonic() + seconds

    def rows(self, reader: Reader, kind: RowKind, rows: Filter, wanted: int, left_out: LeftOut) -> RegexFound:
        """The newest ``wanted`` rows that match and are not left out."""
        found = RegexFound()
        try:
            self._collect(found, reader, kind, rows, wanted, left_out)
        except IndexUnusable:
            self._condition = None
            found = RegexFound(index_failed=True)
            self._collect(found, reader, kind, rows, wanted, left_out)
        return found

    def spans(self, text: str) -> tuple[Span, ...]:
        """Where the pattern matches, leaving out empty matches unless there are no others."""
        spans: list[Span] = []
        try:
            for match in self._regex.finditer(text):
                spans.append(match.span())
                if len(spans) == MAX_SPANS:
                    break
        except UnicodeEncodeError:
            return self.spans(text.encode("utf-8", "replace").decode())
        return tuple(span for span in spans if span[0] < span[1]) or tuple(spans[:1])

    @property
    def out_of_time(self) -> bool:
        """Whether the search's time is over."""
        return time.monotonic() > self._deadline

    def _collect(
        self, found: RegexFound, reader: Reader, kind: RowKind, rows: Filter, wanted: int, left_out: LeftOut
    ) -> None:
        for row in reader.scan(kind, rows, self._condition):
            if row not in left_out and (spans := self.spans(row.text)):
                if len(found.rows) == wanted:
                    found.more = True
                    return
                found.rows.append(Ranked(row, Matches((spans,)), 0.0))
            if self.out_of_time:
                found.more, found.stopped_at = True, row
                return
