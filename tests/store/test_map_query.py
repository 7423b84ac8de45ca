"""The SELECT over answers: what it can read, and that it can do nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lcm_plugin.errors import InputError
from lcm_plugin.store.maps.query import LONGEST_VALUE, AnswerTables


@pytest.fixture
def tables() -> Iterator[AnswerTables]:
    rows = [
        (
            (number, f"msg_{number}", f"text {number}", "done", ""),
            {"kind": "ab"[number % 2], "more": [number]},
        )
        for number in range(1, 101)
    ]
    with AnswerTables() as made:
        made.add("answers_1", ("kind", "more"), rows)
        made.alias("answers", "answers_1")
        yield made


def rows(tables: AnswerTables, sql: str) -> list[tuple[Any, ...]]:
    return list(tables.select(sql, 1_000, 5.0).rows)


def test_answers_are_counted_grouped_and_sorted(tables: AnswerTables) -> None:
    assert rows(tables, "SELECT kind, count(*) FROM answers GROUP BY 1 ORDER BY 1") == [("a", 50), ("b", 50)]
    assert rows(tables, "SELECT sum(json_extract(more, '$[0]')) FROM answers") == [(5050,)]


def test_the_first_rows_are_given_and_that_there_are_more(tables: AnswerTables) -> None:
    result = tables.select("SELECT place FROM answers ORDER BY 1", 3, 5.0)
    assert (result.columns, result.rows, result.more) == (("place",), ((1,), (2,), (3,)), True)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM answers_1",
        "DROP TABLE answers_1",
        "UPDATE answers_1 SET kind = 'x'",
        "INSERT INTO answers_1 VALUES (1, 1, 1, 1, 1, 1, 1)",
        "CREATE TABLE x (a)",
        "ATTACH 'other.db' AS other",
        "PRAGMA journal_mode",
        "SELECT load_extension('x')",
        "SELECT * FROM pragma_database_list",
        "SELECT 1; SELECT 2",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "VACUUM INTO 'copy.db'",
        "",
        "nonsense",
    ],
)
def test_anything_but_one_select_is_refused(tables: AnswerTables, sql: str) -> None:
    with pytest.raises(InputError, match="sql"):
        tables.select(sql, 10, 5.0)
    assert rows(tables, "SELECT count(*) FROM answers") == [(100,)]


@pytest.mark.parametrize("sql", ["SELECT zeroblob(900000000)", "SELECT hex(randomblob(900000000))"])
def test_a_value_longer_than_allowed_is_refused(tables: AnswerTables, sql: str) -> None:
    with pytest.raises(InputError):
        tables.select(sql, 10, 5.0)


def test_no_padding_makes_a_longer_value(tables: AnswerTables) -> None:
    assert len(str(rows(tables, "SELECT printf('%900000000d', 1)")[0][0])) <= LONGEST_VALUE


def test_a_select_without_end_is_stopped(tables: AnswerTables) -> None:
    endless = "SELECT count(*) FROM answers a, answers b, answers c, answers d, answers e, answers f"
    with pytest.raises(InputError, match=r"more than 0\.2 s"):
        tables.select(endless, 10, 0.2)
