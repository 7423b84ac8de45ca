"""Identifiers that a summary states, and whether its sources hold them.

What counts: URLs, paths, hashes, UUIDs, ids with a number in them, dotted versions and addresses, numbers
with a unit, long numbers. Dates and clock times do not, since a summary may state them from a message's own
time. The comparison forgives what a careful writer changes: case, hyphens and blanks, a path shortened or
joined, a number rounded or brought to another unit. It is meant to miss rather than to accuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

_UNITS = (
    "ms|us|µs|ns|s|sec|secs|seconds?|min|mins|minutes?|h|hours?|days?|weeks?|%|percent|bytes?|kb|mb|gb|tb|kib|mib|"
    "gib|tib|khz|mhz|ghz|hz|px|km|kg|cm|mm|tokens?|qps|rps|requests?|eur|usd|dollars?|euros?"
)
_PATTERNS = (
    ("url", re.compile(r"\bhttps?://[^\s<>\"'`)\]}|]+", re.I)),
    ("uuid", re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.I)),
    ("path", re.compile(r"(?<![\w/.@:~-])(?:~|\.{1,2})?(?:/[\w.@+-]+){2,}")),
    ("path", re.compile(r"(?<![\w/.@:~-])(?:[\w.@+-]+/)+[\w@+-]+\.[a-z][a-z0-9]{0,7}\b", re.I)),
    ("hash", re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b", re.I)),
    ("id", re.compile(r"\b[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*[-_]\d[\w-]*\b")),
    ("dotted", re.compile(r"\bv?\d+(?:\.\d+){2,}\b", re.I)),
    ("quantity", re.compile(rf"(?<![\w.,:/-])\d[\d,]*(?:\.\d+)?\s?(?:{_UNITS})(?![\w])", re.I)),
    ("number", re.compile(r"(?<![\w.,:/-])\d{5,}(?![\w:/-]|[.,]\d)")),
)
_OWN_REFS = re.compile(r"(?:msg_\d+|sum_[0-9a-f]+|file_[0-9a-f]+)(?:-.*)?", re.I)
_TIMES = re.compile(
    r"\b\d{4}-\d\d?-\d\d?(?:[T ]\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?Z?)?|\b\d{1,2}:\d\d(?::\d\d)?\b"
)
_IN_A_CLAIM = re.compile(r"[\d/]").search
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SEPARATORS = ",'_ "
_THOUSANDS = re.compile(rf"(?<=\d)[{_SEPARATORS}](?=\d{{3}}(?!\d))")
_JOINTS = re.compile(r"[-_\s]+")
_SCALES = (1.0, 1e3, 1e6, 1e9, 1024.0, 1024.0**2, 1024.0**3, 60.0, 3600.0, 86400.0, 0.01, 1e-3, 100.0)


@dataclass(frozen=True, slots=True)
class Claim:
    """One identifier of a summary. ``kind`` names its pattern."""

    kind: str
    text: str


def claims(text: str) -> list[Claim]:
    """The identifiers of a text, each once, in order."""
    rest = _TIMES.sub(" ", _where_claims_are(text))
    found: dict[str, tuple[int, Claim]] = {}
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(rest):
            said = match.group().rstrip(".,;:!?'\"")
            if not _OWN_REFS.fullmatch(said):
                found.setdefault(said, (match.start(), Claim(kind, said)))
        rest = pattern.sub(lambda match: " " * len(match.group()), rest)
    return [claim for _, claim in sorted(found.values(), key=lambda one: one[0])]


def _where_claims_are(text: str) -> str:
    """The words of a text that a claim may stand in: each has a digit or a slash, or follows a number as its unit.

    Blanks stand for the others, so that nothing comes together that did not stand together.
    """
    words = text.split(" ")
    found = list(map(_IN_A_CLAIM, words))
    return " ".join(
        [
            word if here or before else ""
            for word, here, before in zip(words, found, [None, *found], strict=False)
        ]
    )


def unsupported(said: Iterable[Claim], sources: Iterable[Callable[[], Iterator[str]]]) -> list[Claim]:
    """The claims that no source holds. Later ``sources`` are read only for claims that earlier ones do not hold."""
    open_claims = list(said)
    for read in sources:
        for text in read():
            if not open_claims:
                return []
            evidence = Evidence(text)
            open_claims = [claim for claim in open_claims if not evidence.supports(claim)]
    return open_claims


class Evidence:
    """A source text, prepared lazily: most claims are found by the first look."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded = text.casefold()
        self._joined: str | None = None
        self._plain: str | None = None
        self._numbers: list[float] | None = None

    def supports(self, claim: Claim) -> bool:
        """Whether the text holds the claim, in this or a forgivable form."""
        said = claim.text.casefold()
        if claim.kind in ("quantity", "number"):
            return self._holds_number(said)
        if said in self._folded or self._unjoined(said) in self._without_joints():
            return True
        if claim.kind in ("path", "url"):
            last = said.rstrip("/").rpartition("/")[2].partition("?")[0].partition("#")[0]
            return bool(last) and (last in self._folded or self._unjoined(last) in self._without_joints())
        return claim.kind == "dotted" and said.lstrip("v") in self._folded

    def _holds_number(self, said: str) -> bool:
        number = _NUMBER.match(_THOUSANDS.sub("", said).replace(",", ""))
        if number is None:
            return True
        digits = number.group()
        if _stands(digits, self._text, apart_from_thousands=True):
            return True
        if self._plain is None:
            self._plain = _THOUSANDS.sub("", self._text)
        if _stands(digits, self._plain):
            return True
        if self._numbers is None:
            self._numbers = [float(one) for one in set(_NUMBER.findall(self._plain)) if len(one) < 18]
        value = float(digits)
        # Half of the last digit written: what rounding may have changed.
        slack = 0.5 * 10.0 ** -len(digits.partition(".")[2]) if value >= 10 or "." in digits else 0.05
        return any(
            abs(known * scale - value) <= slack or abs(known / scale - value) <= slack
            for known in self._numbers
            for scale in _SCALES
        )

    def _without_joints(self) -> str:
        if self._joined is None:
            self._joined = self._unjoined(self._folded)
        return self._joined

    @staticmethod
    def _unjoined(text: str) -> str:
        return _JOINTS.sub("", text)


def _stands(digits: str, text: str, *, apart_from_thousands: bool = False) -> bool:
    """Whether a number stands in a text and is no part of a longer one.

    ``apart_from_thousands``: nor next to a sign that may separate its digits from others, so that these need not be
    taken out of the text first.
    """
    place = text.find(digits)
    while place >= 0:
        end = place + len(digits)
        one, other = text[max(0, place - 2) : place][::-1], text[end : end + 2]
        longer = one[:1] == "." or one[:1].isdecimal() or other[:1].isdecimal()
        longer = longer or (other[:1] == "." and other[1:].isdecimal())
        if apart_from_thousands:
            longer = longer or any(side[:1] in _SEPARATORS and side[1:].isdecimal() for side in (one, other))
        if not longer:
            return True
        place = text.find(digits, place + 1)
    return False
