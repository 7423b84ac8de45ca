"""Reading transcripts: shapes that are understood, faults that are named."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lcm_plugin.cli.transcripts import read_transcripts
from lcm_plugin.errors import InputError

HELLO = {"role": "user", "content": "hello ☂"}
REPLY = {"role": "assistant", "content": "hi", "x_extra": {"b": 1, "a": 2}}


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def read(*paths: str) -> list[dict]:
    return [entry.message for entry in read_transcripts(paths)]


def lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.mark.parametrize(
    "text",
    [
        lines(HELLO, REPLY),
        lines(HELLO, REPLY).replace("\n", "\r\n"),
        "\ufeff" + lines(HELLO, REPLY),
        "\n" + lines(HELLO) + "\n\n" + lines(REPLY),
        lines({"session": "a", "messages": [HELLO]}, {"session": "b", "messages": [REPLY]}),
        lines({"messages": [HELLO, REPLY]}),
        json.dumps([HELLO, REPLY]),
        json.dumps([HELLO, REPLY], indent=2),
        json.dumps({"messages": [HELLO, REPLY]}, indent=2),
        json.dumps([{"messages": [HELLO]}, {"messages": [REPLY]}]),
    ],
)
def test_every_shape_gives_the_same_messages(tmp_path: Path, text: str) -> None:
    assert read(written(tmp_path / "t.jsonl", text)) == [HELLO, REPLY]


def test_key_order_of_a_message_is_kept(tmp_path: Path) -> None:
    raw = '{"x": 1, "role": "user", "content": "a", "b": {"z": 1, "a": 2}}\n'
    [message] = read(written(tmp_path / "t.jsonl", raw))
    assert json.dumps(message) == raw.strip()


def test_a_line_separator_inside_a_text_does_not_end_the_line(tmp_path: Path) -> None:
    message = {"role": "user", "content": "one\u2028two\x85three"}
    raw = json.dumps(message, ensure_ascii=False) + "\n"
    assert read(written(tmp_path / "t.jsonl", raw)) == [message]


def test_files_are_joined_in_the_order_given(tmp_path: Path) -> None:
    first = written(tmp_path / "1.jsonl", lines(HELLO))
    second = written(tmp_path / "2.json", json.dumps([REPLY]))
    assert read(first, second) == [HELLO, REPLY]
    assert read(second, first) == [REPLY, HELLO]


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(lines(HELLO).encode())))
    assert read("-") == [HELLO]


def test_each_message_knows_its_place(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", lines(HELLO) + "\n" + lines({"messages": [REPLY, HELLO]}))
    places = [entry.place for entry in read_transcripts([path])]
    assert places == [f"{path}, line 1", f"{path}, line 3, message 1", f"{path}, line 3, message 2"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (lines(*[HELLO] * 11) + '{"role": "user"\n', "line 12: broken JSON at column"),
        (lines(HELLO) + lines({"content": "x"}), "line 2: a message without role"),
        (lines({"messages": [HELLO, {"content": "x"}]}), "line 1, message 2: a message without role"),
        (lines(HELLO, {"role": "wizard", "content": "x"}), "line 2: unknown role 'wizard'"),
        (lines(HELLO, 42), "line 2: expected an object, found int"),
        (json.dumps([HELLO, "x"]), "item 2: expected an object, found str"),
        (json.dumps([HELLO, REPLY], indent=1)[:-3], "broken JSON on line"),
        ("", "no message in it"),
        ("[]", "no message in it"),
        (lines(HELLO) + "9" * 5_000 + "\n", "line 2: JSON that cannot be read"),
        ("[" * 200_000, "broken JSON on line 1"),
        ("plain text\n", "line 1: broken JSON at column 1"),
    ],
)
def test_a_fault_is_named_with_its_file_and_place(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path / "t.jsonl", text)
    with pytest.raises(InputError) as caught:
        read(path)
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.jsonl: No such file"):
        read(str(tmp_path / "gone.jsonl"))


def test_a_folder_is_not_a_transcript(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Is a directory"):
        read(str(tmp_path))


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines(HELLO).encode() + b'{"role": "user", "content": "\xff"}\n')
    with pytest.raises(InputError, match="line 2: not UTF-8 text at byte"):
        read(str(path))
