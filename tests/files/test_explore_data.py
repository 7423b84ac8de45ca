"""Structured data: shape, keys, columns, counts and samples."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

from lcm_plugin.files.explore import Exploration, explore

PEOPLE = [
    {
        "id": i,
        "name": f"Name {i}",
        "email": None if i % 2 else f"{i}@x.org",
        "tags": ["a", "b"],
        "home": {"city": "Berlin"},
    }
    for i in range(300)
]


def told(text: str, *, name: str = "", kind: str) -> str:
    explored = explore(text.encode(), name)
    assert explored.kind == kind
    return explored.summary


def test_a_json_array_tells_its_length_keys_types_and_ranges() -> None:
    summary = told(json.dumps(PEOPLE), kind="json")
    for part in (
        "array of 300",
        "id: integer, 0 to 299",
        "email: null or string",
        "city: string",
        "Berlin",
        "tags: array of 2",
    ):
        assert part in summary


def test_a_json_object_tells_nested_keys() -> None:
    summary = told(json.dumps({"result": {"people": PEOPLE, "total": 300}, "next": None}), kind="json")
    assert "object of 2 keys" in summary
    assert "people: array of 300" in summary
    assert "next: null" in summary


def test_keys_that_only_some_records_have_are_counted() -> None:
    summary = told(json.dumps([{"a": 1}, {"a": 2, "b": 3}, {"a": 4}]), kind="json")
    assert "b: integer, 3, in 1 of 3" in summary


def test_json_cut_off_is_read_as_far_as_it_goes() -> None:
    explored = explore(json.dumps({"people": 1, "list": [1, 2], "more": "x" * 500}).encode()[:-100])
    assert (explored.kind, explored.truncated) == ("json", True)
    assert "people" in explored.summary
    assert "cut off before its end" in explored.summary


def test_json_larger_than_the_part_read_says_so() -> None:
    data = json.dumps([{"id": i, "text": "x" * 1_000} for i in range(6_000)]).encode()
    explored = explore(data)
    assert (explored.kind, explored.truncated) == ("json", False)
    assert "larger than the part read" in explored.summary
    assert "- id: integer" in explored.summary


def test_json_with_an_error_in_the_middle_is_not_called_json() -> None:
    assert explore(b'{"a": 1, b: 2, "c": [1, 2, 3], "d": 4}').kind != "json"


def test_json_lines_tell_how_many_and_what_they_share() -> None:
    lines = [json.dumps(person) for person in PEOPLE] + ["not json"]
    summary = told("\n".join(lines), kind="jsonl")
    for part in ("JSON lines: 301 records", "1 line of those read", "name: string", "id: integer, 0 to 299"):
        assert part in summary


def test_a_chat_transcript_in_json_lines_shows_its_last_record() -> None:
    lines = [json.dumps({"role": "user", "content": f"message {i}"}) for i in range(5_000)]
    summary = told("\n".join(lines), kind="jsonl")
    assert "5,000 records" in summary
    assert "message 4999" in summary


def table(delimiter: str, rows: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows(rows)
    return out.getvalue()


ROWS = [["id", "name", "score", "day", "grade"]] + [
    [str(i), f'N "{i}", x', f"{i * 1.5}", f"2024-01-{i % 28 + 1:02d}", "ABC"[i % 3]] for i in range(500)
]


@pytest.mark.parametrize(("delimiter", "kind"), [(",", "csv"), (";", "csv"), ("|", "csv"), ("\t", "tsv")])
def test_a_table_tells_rows_columns_types_and_ranges(delimiter: str, kind: str) -> None:
    summary = told(table(delimiter, ROWS), kind=kind)
    for part in (
        "500 rows, 5 columns",
        "Columns: id, name, score, day, grade",
        "id: integer, 0 to 499",
        "score: number, 0 to 748.5",
        "day: date, 2024-01-01 to 2024-01-28",
        "A (167)",
        "500 distinct",
    ):
        assert part in summary


def test_a_table_without_a_header_says_so() -> None:
    summary = told(table(",", [[str(i), str(i * 2)] for i in range(50)]), kind="csv")
    assert "50 rows, 2 columns, no header line" in summary


def test_empty_cells_and_odd_rows_are_counted() -> None:
    summary = told("a,b\n1,\n2,x\n3,y\n" + "4,z\n" * 40 + "5,z,extra\n", name="t.csv", kind="csv")
    assert "1 empty" in summary
    assert "1 row with another number of columns" in summary


def test_prose_with_commas_is_no_table() -> None:
    text = "First, we look. Then, after a while, we go.\nNo comma here\nOne, two, three, four, five.\nEnd.\n"
    assert explore(text.encode()).kind == "text"


YAML = """\
# compose
version: 3.5
services:
  web:
    image: nginx
    ports: [80, 443]
  db: &base
    image: postgres
  copy: *base
volumes: {}
"""


def test_yaml_tells_keys_and_names_aliases_without_expanding() -> None:
    for name in ("docker-compose.yml", ""):
        summary = told(YAML, name=name, kind="yaml")
        for part in (
            "YAML: 1 document",
            "version: number, 3.5",
            "image: string",
            "ports: array of 2 integer",
            "*base",
            "1 alias",
        ):
            assert part in summary


def test_several_yaml_documents_are_counted() -> None:
    summary = told("---\nkind: Pod\nname: a\n---\nkind: Service\nname: b\n", name="k8s.yaml", kind="yaml")
    assert "2 documents" in summary
    assert '"Pod", "Service"' in summary


def test_broken_yaml_tells_where_it_breaks() -> None:
    assert "Not valid YAML from line 4" in told("a: 1\nb: 2\nc: [1, 2\nd: }\n", name="x.yaml", kind="yaml")


def test_yaml_without_its_parser_tells_the_outermost_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    for name in ("docker-compose.yml", ""):
        assert told(YAML, name=name, kind="yaml") == "YAML: 10 lines.\nKeys: version, services, volumes"
    assert explore(b"Dear Ann,\nthank you.\nBob\n", "letter.yaml").kind == "text"


SQL = """\
-- dump of 2024
CREATE TABLE IF NOT EXISTS users (
  id INTEGER PRIMARY KEY, name VARCHAR(80) NOT NULL, price DECIMAL(10, 2),
  FOREIGN KEY (id) REFERENCES other (id)
);
CREATE INDEX users_name ON users (name);
INSERT INTO users VALUES (1, 'a');
insert into users values (2, 'b');
UPDATE users SET name = 'c';
"""


def test_sql_tells_statements_tables_columns_and_inserts() -> None:
    for name in ("dump.sql", ""):
        summary = told(SQL, name=name, kind="sql")
        for part in ("5 statements", "INSERT INTO 2", "users 2", "table users: id, name, price"):
            assert part in summary
        assert "FOREIGN" not in summary


def test_xml_tells_root_elements_attributes_and_samples() -> None:
    items = "".join(f'<item id="{i}" lang="en"><title>Title {i}</title></item>' for i in range(40))
    summary = told(f'<?xml version="1.0" encoding="UTF-16"?><feed>{items}</feed>', kind="xml")
    for part in ("root feed", "81 elements", "depth 3", "item x40 [id, lang]", "title x40: Title 0"):
        assert part in summary


def test_xml_with_entities_is_not_expanded() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "BOOM"><!ENTITY c "&b;&b;">]><a>&c;&c;</a>'
    assert "declares entities; not expanded" in told(bomb, kind="xml")


def test_xml_with_an_error_tells_its_line() -> None:
    assert "not well-formed from line 2" in told("<a>\n<b></c>\n</a>", kind="xml")


def test_svg_is_an_image_of_elements() -> None:
    explored = explore(b'<svg xmlns="http://www.w3.org/2000/svg" width="10"><path d="M0 0"/></svg>')
    assert (explored.kind, explored.mime) == ("svg", "image/svg+xml")


def test_every_kind_counts_its_lines() -> None:
    samples: list[Exploration] = [
        explore(text.encode()) for text in (YAML, SQL, table(",", ROWS), json.dumps(PEOPLE, indent=1))
    ]
    assert [sample.line_count for sample in samples] == [10, 9, 501, 3602]
