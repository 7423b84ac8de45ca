"""Times that people and models write: as instants for ``since`` and ``before``, and as days named in a question.

ISO 8601 with or without a zone (without one it is in the configured time zone), a date or a month alone, ``now``,
``30m``, ``2h``, ``7d``, ``3w``, ``yesterday``, ``last tuesday``, ``this week``, ``last month``, ``March``,
``March 2026``, ``Nov 17``, ``17 November 2026``, ``3 months ago``. Instants are milliseconds since the epoch; a span
such as a day or a month stands for its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo

from lcm_plugin.errors import InputError

# The first instant of a span of time, and the first after it.
Period: TypeAlias = tuple[datetime, datetime]

# A date without a year is looked for in so many years back.
YEARS_BACK = 5
_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_SHORT = re.compile(r"(\d{1,6})\s*(s|m|h|d|w)")
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            ("january", "jan"),
            ("february", "feb"),
            ("march", "mar"),
            ("april", "apr"),
            ("may",),
            ("june", "jun"),
            ("july", "jul"),
            ("august", "aug"),
            ("september", "sept", "sep"),
            ("october", "oct"),
            ("november", "nov"),
            ("december", "dec"),
        ),
        start=1,
    )
    for name in names
}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


_COUNTS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
}
_FEW, _COUPLE = 3, 2


def _month(group: str) -> str:
    return rf"(?P<{group}>{'|'.join(_MONTHS)})\.?"


def _day(group: str) -> str:
    return rf"(?P<{group}>\d{{1,2}})(?:st|nd|rd|th)?"


def _year(group: str) -> str:
    return rf"(?P<{group}>(?:19|20)\d\d)"


def _counted(group: str) -> str:
    return rf"(?P<{group}>\d{{1,5}}|an?|a\ few|a\ couple\ of|{'|'.join(_COUNTS)})"


_UNIT_NAMES = "second|minute|hour|day|week|month|year"
_PERIODS = re.compile(
    rf"""\b(?:
      (?P<iso>{_year("iso_year")}-(?P<iso_month>\d\d)(?:-(?P<iso_day>\d\d))?)(?![-\d:T])
    | (?P<near>the\ day\ before\ yesterday|yesterday|last\ night|today|tonight|this\ (?:morning|afternoon|evening))
    | {_counted("count")}\ (?P<ago>{_UNIT_NAMES})s?\ ago
    | (?:the\ )?(?:last|past|previous)\ {_counted("count_back")}\ (?P<back>{_UNIT_NAMES})s?
    | (?P<which>last|this|past|previous)\ (?P<span>weekend|week|month|year|{"|".join(_DAYS)})
    | (?:on\ )?(?P<weekday>{"|".join(_DAYS)})
    | {_month("month")}\ {_day("day")}(?:,?\ {_year("year")})?(?![\d:])
    | {_day("day_first")}(?:\ of)?\ {_month("month_second")}(?:,?\ {_year("year_third")})?
    | {_month("month_of_year")},?\ (?:of\ )?{_year("year_of_month")}
    | (?P<before_month>in\ |since\ |during\ |of\ |last\ |by\ |for\ )?{_month("month_alone")}(?!,?\ (?:of\ )?\d)
    )\b""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"\d+(?:st|nd|rd|th)?", re.IGNORECASE)
# Words of other meanings, which name a month only where something says so.
_AMBIGUOUS = frozenset({"may", "march", "mar", "sep", "dec", "jan"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000
# How long after something people still say "yesterday" or "last Friday" of it; and how much wider than what is asked
# about the span that they name may be.
_TOLD_MS, _AS_PRECISE_MS = 31 * DAY_MS, 2 * DAY_MS
_ALLOWED = (
    "must be an ISO 8601 time such as 2026-05-03T14:00:00Z, or a time such as 2h, 7d, yesterday, last tuesday, "
    "this week, March 2026, Nov 17, 3 months ago"
)


def parse_time(value: object, now_ms: int, zone: str, name: str) -> int | None:
    """The instant in milliseconds, or None for None and an empty text.

    Raises `InputError` naming the argument when the value is no time.
    """
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str):
        raise InputError(f"{name} = {value!r}: {_ALLOWED}")
    text = value.strip()
    now = _EPOCH + timedelta(milliseconds=now_ms)
    try:
        return _milliseconds(_written(text.lower(), now, ZoneInfo(zone)) or _absolute(text, ZoneInfo(zone)))
    except (ValueError, OverflowError) as error:
        raise InputError(f"{name} = {value!r}: {_ALLOWED}") from error


def named_periods(text: str, now_ms: int, zone: str) -> tuple[list[tuple[int, int]], str]:
    """The spans of time that a question names, newest first, and the question without the numbers of its dates.

    A span is in milliseconds, the end exclusive. A date without a year stands for each of the last years.
    """
    now = (_EPOCH + timedelta(milliseconds=now_ms)).astimezone(ZoneInfo(zone))
    found: dict[tuple[int, int], None] = {}
    rest = text
    for match in _PERIODS.finditer(text.lower()):
        if match["month_alone"] in _AMBIGUOUS and not match["before_month"]:
            continue
        with suppress(ValueError, OverflowError):  # no such day
            periods = [(_milliseconds(a), _milliseconds(b)) for a, b in _periods_of(match, now, loosely=True)]
            found |= dict.fromkeys(periods)
            start, end = match.span()
            if periods and len(text.lower()) == len(text):
                rest = (
                    rest[:start]
                    + _NUMBER.sub(lambda number: " " * len(number[0]), rest[start:end])
                    + rest[end:]
                )
    return sorted(found, reverse=True), rest


@dataclass(frozen=True, slots=True)
class AskedTimes:
    """The spans of time that a question names, in milliseconds, and the time zone of what is said without one."""

    spans: tuple[tuple[int, int], ...] = ()
    zone: str = "UTC"

    def are_of(self, text: str, at: int, until: int) -> bool:
        """Whether a text is of one of the spans: said then, or soon after with words for that time (``last Friday``)."""
        if any(start <= until and at < end for start, end in self.spans):
            return True
        soon = [(start, end) for start, end in self.spans if end <= at < end + _TOLD_MS]
        if not soon:
            return False
        told, _ = named_periods(text, at, self.zone)
        return any(
            first < end and start < last and last - first <= max(end - start, _AS_PRECISE_MS)
            for start, end in soon
            for first, last in told
        )


NO_TIMES = AskedTimes()


def _written(text: str, now: datetime, zone: ZoneInfo) -> datetime | None:
    if text == "now":
        return now
    if short := _SHORT.fullmatch(text):
        return now - int(short[1]) * _UNITS[short[2]]
    match = _PERIODS.fullmatch(text)
    if match is None:
        return None
    for count, unit in ((match["count"], match["ago"]), (match["count_back"], match["back"])):
        if unit in ("second", "minute", "hour", "day", "week"):
            return now - _count(count) * _UNITS[unit[0]]
    return next((start for start, _ in _periods_of(match, now.astimezone(zone), loosely=False)), None)


def _periods_of(match: re.Match[str], now: datetime, *, loosely: bool) -> Iterator[Period]:
    """The spans that a match stands for, newest first; of what has an imprecise distance with room on both sides."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if match["iso"]:
        yield from _of_date(int(match["iso_year"]), int(match["iso_month"]), match["iso_day"], now)
    elif match["near"]:
        back = {"the day before yesterday": 2, "yesterday": 1, "last night": 1}.get(match["near"], 0)
        yield _days(today - timedelta(days=back), 1)
    elif match["ago"]:
        yield _distance(_count(match["count"]), match["ago"], now, loosely)
    elif match["back"]:
        start, _ = _distance(_count(match["count_back"]), match["back"], now, loosely=False)
        yield start, now
    elif match["which"] or match["weekday"]:
        yield _span(match["which"] or "last", match["span"] or match["weekday"], today)
    else:
        groups = ("month", "month_second", "month_of_year", "month_alone")
        month = _MONTHS[next(match[name] for name in groups if match[name])]
        year = match["year"] or match["year_third"] or match["year_of_month"]
        yield from _of_date(int(year) if year else None, month, match["day"] or match["day_first"], now)


def _of_date(year: int | None, month: int, day: str | None, now: datetime) -> Iterator[Period]:
    """A day or a month; without a year those of the last years, none of which lies ahead."""
    years = [year] if year else range(now.year, now.year - YEARS_BACK, -1)
    for one in years:
        try:
            start = datetime(one, month, int(day or 1), tzinfo=now.tzinfo)
        except ValueError:
            if year:
                raise
            continue  # the 29th of February
        if year or start <= now:
            yield _days(start, 1) if day else (start, _next_month(start))


def _distance(count: int, unit: str, now: datetime, loosely: bool) -> Period:
    if unit in ("second", "minute", "hour"):
        at = now - count * _UNITS[unit[0]]
        return at - timedelta(hours=1), at + timedelta(hours=1)
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[unit]
    if unit in ("month", "year") and not loosely:
        months = now.year * 12 + now.month - 1 - count * (12 if unit == "year" else 1)
        last_day = (_next_month(datetime(months // 12, months % 12 + 1, 1)) - timedelta(days=1)).day
        at = now.replace(year=months // 12, month=months % 12 + 1, day=min(now.day, last_day))
        return _days(at, 1)
    day = (now - timedelta(days=count * days)).replace(hour=0, minute=0, second=0, microsecond=0)
    around = days // 2 if loosely else 0
    return day - timedelta(days=around), _days(day, 1 + around)[1]


def _span(which: str, span: str, today: datetime) -> Period:
    if span in _DAYS:
        back = (today.weekday() - _DAYS.index(span)) % 7
        return _days(today - timedelta(days=back if which == "this" else back or 7), 1)
    if span == "weekend":
        saturday = today - timedelta(days=(today.weekday() - 5) % 7)
        return _days(
            saturday if which == "this" else saturday - timedelta(days=7 if today.weekday() > 4 else 0), 2
        )
    if span == "week":
        monday = today - timedelta(days=today.weekday())
        return _days(monday if which == "this" else monday - timedelta(days=7), 7)
    if span == "month":
        first = today.replace(day=1)
        return (
            (first, _next_month(first))
            if which == "this"
            else ((first - timedelta(days=1)).replace(day=1), first)
        )
    first = today.replace(month=1, day=1, year=today.year - (which != "this"))
    return first, first.replace(year=first.year + 1)


def _count(text: str) -> int:
    if text.isdigit():
        return int(text)
    return _COUNTS.get(text, {"a few": _FEW, "a couple of": _COUPLE}.get(text, 1))


def _days(start: datetime, count: int) -> Period:
    end = start + timedelta(days=count)
    return start, end


def _next_month(start: datetime) -> datetime:
    return (start.replace(day=1) + timedelta(days=32)).replace(day=1)


def _absolute(text: str, zone: ZoneInfo) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def _milliseconds(moment: datetime) -> int:
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def format_instant(at_ms: int, zone: str) -> str:
    """An instant as ISO 8601 with its zone, to the second."""
    return (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(ZoneInfo(zone)).isoformat(timespec="seconds")
