"""Times that people write."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lcm_plugin.errors import InputError
from lcm_plugin.recall.times import AskedTimes, format_instant, named_periods, parse_time

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
        ("2 months ago", at(2026, 3, 3, 14, 30)),
        ("last tuesday", at(2026, 4, 28)),
        ("Sunday", at(2026, 4, 26)),
        ("this week", at(2026, 4, 27)),
        ("last week", at(2026, 4, 20)),
        ("last month", at(2026, 4, 1)),
        ("this year", at(2026, 1, 1)),
        ("March", at(2026, 3, 1)),
        ("March 2025", at(2025, 3, 1)),
        ("2026-03", at(2026, 3, 1)),
        ("Nov 17", at(2025, 11, 17)),
        ("17 November 2024", at(2024, 11, 17)),
        ("today", at(2026, 5, 3)),
        ("yesterday", at(2026, 5, 2)),
        ("last night", at(2026, 5, 2)),
        ("this morning", at(2026, 5, 3)),
        ("the last 3 days", at(2026, 4, 30, 14, 30)),
        ("past two weeks", at(2026, 4, 19, 14, 30)),
        ("last 2 months", at(2026, 3, 3, 14, 30)),
        ("a few days ago", at(2026, 4, 30, 14, 30)),
        ("last weekend", at(2026, 4, 25)),
        ("this weekend", at(2026, 5, 2)),
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


DAY = 86_400_000


@pytest.mark.parametrize(
    ("question", "first", "days"),
    [
        ("How did it go last Tuesday?", at(2026, 4, 28), 1),
        ("what was said 4 days ago", at(2026, 4, 29), 1),
        ("what did we decide in March?", at(2026, 3, 1), 31),
        ("the plan of March 2024", at(2024, 3, 1), 31),
        ("what happened on 7 May 2023?", at(2023, 5, 7), 1),
        ("what happened on May 7th, 2023?", at(2023, 5, 7), 1),
        ("the log of 2026-02-28, please", at(2026, 2, 28), 1),
        ("what did I ask yesterday?", at(2026, 5, 2), 1),
        ("who was ill last week?", at(2026, 4, 20), 7),
        ("about two weeks ago", at(2026, 4, 16), 7),
        ("where were we last weekend?", at(2026, 4, 25), 2),
        ("what did Ann cook last night?", at(2026, 5, 2), 1),
    ],
)
def test_a_question_names_a_time(question: str, first: int, days: int) -> None:
    start, end = named_periods(question, NOW, "UTC")[0][0]
    assert start == first
    assert end - start == days * DAY


@pytest.mark.parametrize(
    ("text", "said", "told"),
    [
        ("we went there", at(2026, 4, 28, 9), True),
        ("we went there yesterday", at(2026, 4, 29, 9), True),
        ("we went there last Tuesday", at(2026, 5, 2, 9), True),
        ("we went there 4 days ago", at(2026, 5, 2, 9), True),
        ("we went there on Tuesday", at(2026, 5, 6, 9), False),
        ("we went there", at(2026, 4, 29, 9), False),
        ("we went there in April", at(2026, 5, 2, 9), False),
        ("we went there last Tuesday", at(2026, 7, 2, 9), False),
    ],
)
def test_a_text_is_of_a_day_when_it_was_said_then_or_names_it_soon_after(
    text: str, said: int, told: bool
) -> None:
    tuesday = AskedTimes(((at(2026, 4, 28), at(2026, 4, 29)),))
    assert tuesday.are_of(text, said, said) is told


@pytest.mark.parametrize(
    "question",
    [
        "may I go?",
        "march on",
        "what costs 30?",
        "it failed 2026-02-30",
        "at 2026-02-03T10:00:00Z",
        "the second one",
    ],
)
def test_other_words_and_impossible_days_name_no_time(question: str) -> None:
    assert named_periods(question, NOW, "UTC") == ([], question)


def test_a_day_without_a_year_is_looked_for_in_the_last_years_and_never_ahead() -> None:
    starts = [start for start, _ in named_periods("on November 17", NOW, "UTC")[0]]
    assert starts[:2] == [at(2025, 11, 17), at(2024, 11, 17)]
