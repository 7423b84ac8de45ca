"""How texts become items."""

from __future__ import annotations

import io
import json

import pytest

from lcm_plugin.errors import InputError
from lcm_plugin.maps.splitting import Split, pieces, split_of


def split(text: str, how: Split, name: str = "a.txt") -> list[tuple[str, str]]:
    return list(pieces(io.StringIO(text, newline=""), how, name))


def test_lines_leave_out_empty_ones_and_keep_their_numbers() -> None:
    assert split("one\r\n\n  \nfour", "lines") == [("line 1", "one"), ("line 4", "four")]


def test_rows_of_a_csv_are_objects_by_the_names_of_the_first() -> None:
    rows = split('id,text\n1,"a, b\nc"\n2,d,e\n', "csv", "a.csv")
    assert [place for place, _ in rows] == ["row 1", "row 2"]
    assert json.loads(rows[0][1]) == {"id": "1", "text": "a, b\nc"}
    assert json.loads(rows[1][1]) == {"id": "2", "text": "d", "…": ["e"]}


def test_rows_of_a_tsv_are_split_at_tabs() -> None:
    assert json.loads(split("a\tb\n1,5\t2\n", "csv", "a.tsv")[0][1]) == {"a": "1,5", "b": "2"}


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('["a", {"b": 1}]', [("item 1", "a"), ("item 2", '{"b": 1}')]),
        ('{"rows": [1, 2], "n": 2}', [("item 1", "1"), ("item 2", "2")]),
        ('{"a": 1}', [("item 1", '{"a": 1}')]),
        ('{"a": 1}\n\n{"a": 2}\n', [("line 1", '{"a": 1}'), ("line 3", '{"a": 2}')]),
    ],
)
def test_json_is_split_into_its_elements(text: str, items: list[tuple[str, str]]) -> None:
    assert split(text, "json") == items


def test_what_is_no_json_names_file_and_line() -> None:
    with pytest.raises(InputError, match=r"b\.json, line 2"):
        split('{"a": 1}\nnothing\n', "json", "b.json")


def test_markdown_is_split_at_headings_outside_of_fences() -> None:
    text = "intro\n# One\n```\n# no heading\n```\n## Two\nx\n"
    assert split(text, "markdown") == [
        ("line 1", "intro"),
        ("line 2", "# One\n```\n# no heading\n```"),
        ("line 6", "## Two\nx"),
    ]


def test_the_name_says_how_a_file_is_split() -> None:
    names = ("a.CSV", "b.tsv", "c.json", "d.md", "e.jsonl", "f")
    assert [split_of(name) for name in names] == ["csv", "csv", "json", "markdown", "lines", "lines"]
