"""Times that people and models write, as instants.

ISO 8601 with or without a zone (without one it is in the configured time zone), a date alone (its
midnight), or relative to now: ``30m``, ``2h``, ``7d``, ``3w`` ago, ``now``, ``today``, ``yesterday``
and ``N days ago`` (or minutes, hours, weeks). All become milliseconds since the epoch.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from lcm_plugin.errors import InputError

_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_RELATIVE = re.compile(r"(\d{1,6})\s*(s|m|h|d|w)", re.IGNORECASE)
_AGO = re.compile(r"(\d{1,6})\s+(second|minute|hour|day|week)s?\s+ago", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
        return _milliseconds(_relative(text, now, ZoneInfo(zone)) or _absolute(text, ZoneInfo(zone)))
    except (ValueError, OverflowError) as error:
        raise InputError(f"{name} = {value!r}: {_ALLOWED}") from error


_ALLOWED = "must be an ISO 8601 time such as 2026-05-03T14:00:00Z, or relative such as 2h, 7d, yesterday"


def _relative(text: str, now: datetime, zone: ZoneInfo) -> datetime | None:
    word = text.lower()
    if word == "now":
        return now
    if word in ("today", "yesterday"):
        midnight = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight - timedelta(days=word == "yesterday")
    found = _RELATIVE.fullmatch(word) or _AGO.fullmatch(word)
    return now - int(found[1]) * _UNITS[found[2][0]] if found else None


def _absolute(text: str, zone: ZoneInfo) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def _milliseconds(moment: datetime) -> int:
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def format_instant(at_ms: int, zone: str) -> str:
    """An instant as ISO 8601 with its zone, to the second."""
    return (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(ZoneInfo(zone)).isoformat(timespec="seconds")
