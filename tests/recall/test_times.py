"""Times that people write."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lcm_plugin.errors import InputError
from lcm_plugin.recall.times import format_instant, parse_time

NOW = int(datetime(2026, 5, 3, 14, 30, tzinfo=UTC).timestamp() * 1000)


def at(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-01", at(2026, 5, 1)),
        ("2026-05-01T10:00:00", at(2026, 5, 1, 10)),
        ("2026-05-01 10:00", at(2026, 5, 1, 10)),
        ("2026-05-01T10:00:00Z", at(2026, 5, 1, 10)),
        ("2026-05-01T10:00:00+02:00", at(2026, 5, 1, 8)),
        ("2026-05-01T10:00:00.250Z", at(2026, 5, 1, 10) + 250),
        ("now", NOW),
        ("2h", at(2026, 5, 3, 12, 30)),
        ("30m", at(2026, 5, 3, 14)),
        ("7d", at(2026, 4, 26, 14, 30)),
        ("1w", at(2026, 4, 26, 14, 30)),
        ("3 days ago", at(2026, 4, 30, 14, 30)),
        ("today", at(2026, 5, 3)),
        ("yesterday", at(2026, 5, 2)),
        ("", None),
        (None, None),
    ],
)
def test_a_time_is_an_instant(text: str | None, expected: int | None) -> None:
    assert parse_time(text, NOW, "UTC", "since") == expected


def test_a_time_without_a_zone_is_in_the_configured_one() -> None:
    assert parse_time("2026-05-01T10:00", NOW, "Europe/Berlin", "since") == at(2026, 5, 1, 8)
    assert parse_time("today", NOW, "America/New_York", "since") == at(2026, 5, 3, 4)


@pytest.mark.parametrize(
    "text", ["soon", "2026-13-01", "7x", "99999999d", "-2h", "12", "0001-01-01T00:00+14:00"]
)
def test_what_is_no_time_is_named(text: str) -> None:
    with pytest.raises(InputError, match="since = "):
        parse_time(text, NOW, "UTC", "since")


def test_an_instant_is_written_with_its_zone() -> None:
    assert format_instant(at(2026, 5, 1, 8), "Europe/Berlin") == "2026-05-01T10:00:00+02:00"
