"""What `explore` promises for every payload: bounded, deterministic, never an exception."""

from __future__ import annotations

import base64
import gzip
import json
import time
import tracemalloc

import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lcm_plugin.files.explore import SUMMARY_CHARS, UNEXPLORED, Exploration
from lcm_plugin.files.explore import explore as guarded


def explore(data: bytes, name: str = "", mime: str = "") -> Exploration:
    """Explores, and fails where an explorer raised and only the guard around it answered."""
    explored = guarded(data, name, mime)
    assert explored.kind != UNEXPLORED
    return explored


NAMES = [
    "",
    "a.json",
    "a.csv",
    "a.yaml",
    "a.py",
    "a.sql",
    "a.md",
    "a.log",
    "a.js",
    "a.xml",
    "a.tsv",
    "a.patch",
]
_SNIPPETS = st.sampled_from(
    ["{", "[", '"a":', "<a>", "<!--", "- x: 1\n", "a,b\n", "\t", "# h\n", "```", "def f():\n", "ERROR ", "CREATE TABLE t (",
     "2024-01-01 10:00:00", "&a ", "*a ", "\x00", "PK\x03\x04", "\n", "é漢", "[truncated]", "--- a\n+++ b\n"]
)  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(
    data=st.binary(max_size=600)
    | st.lists(_SNIPPETS, max_size=40).map(lambda parts: "".join(parts).encode()),
    name=st.sampled_from(NAMES) | st.text(max_size=10),
    mime=st.sampled_from(["", "text/csv", "x/y", "text/x-python"]),
)
@example(data=b"\xff\xd8\xff", name="", mime="")
@example(data=b"PK\x05\x06" + b"\xff" * 18, name="", mime="")
def test_any_bytes_give_a_bounded_summary_and_always_the_same(data: bytes, name: str, mime: str) -> None:
    explored = explore(data, name, mime)
    assert explored == explore(data, name, mime)
    assert 0 < len(explored.summary) <= SUMMARY_CHARS
    assert explored.kind
    assert "/" in explored.mime
    assert all(sign == "\n" or sign.isprintable() for sign in explored.summary)


_MAGIC = st.sampled_from(
    [b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff", b"RIFF0000WEBPVP8X", b"RIFF0000WAVEfmt ", b"BM", b"II*\0", b"MM\0*",
     b"\0\0\1\0\1\0", b"\0\0\0\x18ftypavif", b"SQLite format 3\0", b"PK\x03\x04", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\0",
     b"7z\xbc\xaf\x27\x1c", b"\x7fELF", b"x" * 257 + b"ustar\x0000"]
)  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(magic=_MAGIC, rest=st.binary(max_size=3) | st.binary(max_size=700))
def test_a_crafted_header_raises_nothing(magic: bytes, rest: bytes) -> None:
    explored = explore(magic + rest)
    assert 0 < len(explored.summary) <= SUMMARY_CHARS


LOG = b"".join(b"2024-05-01 12:00:%02d INFO worker: request %d\n" % (i % 60, i) for i in range(20_000))
ALIASES = b"a: &a [x, x]\n" + b"".join(
    b"%c: &%c [*%c, *%c]\n" % (98 + i, 98 + i, 97 + i, 97 + i) for i in range(20)
)
HOSTILE = {
    "deep arrays": (b"[" * 200_000 + b"]" * 200_000, ""),
    "deep objects": (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, ""),
    "huge integer": (b"[" + b"9" * 100_000 + b"]", ""),
    "wide object": (json.dumps({f"key {i}": i for i in range(100_000)}).encode(), ""),
    "entity bomb": (
        b'<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;&b;&b;">]><a>&c;</a>',
        "",
    ),
    "deep elements": (b"<a>" * 500_000, ""),
    "many attributes": (b"<a " + b" ".join(b'k%d="v"' % i for i in range(50_000)) + b"/>", ""),
    "alias bomb": (ALIASES, "a.yml"),
    "deep yaml": (b"a: " + b"[" * 100_000, "a.yaml"),
    "deep python": (b"(" * 200_000 + b")" * 200_000, "a.py"),
    "python signs": (b"x = " + b"-" * 200_000 + b"1", "a.py"),
    "python sum": (b"x = a" + b" + a" * 100_000, "a.py"),
    "python calls": (b"x = a" + b"()" * 100_000, "a.py"),
    "python lambdas": (b"x = " + b"lambda: " * 20_000 + b"1", "a.py"),
    "python bases": (b"class A(" + b"a." * 50_000 + b"b): pass", "a.py"),
    "unclosed comments": (b"<!DOCTYPE html>" + b"<!--<script><h1 " * 100_000, ""),
    "unclosed links": (b"# a\n## b\n" + b"](" * 1_000_000, ""),
    "fences": (b"```\n" * 500_000, "a.md"),
    "quotes": (b'a,b\n"' * 500_000, "a.csv"),
    "brackets in sql": (b"CREATE TABLE a " + b"(" * 1_000_000 + b";", "a.sql"),
    "comments in sql": (b"/**/ " * 500_000 + b"SELECT 1;", ""),
    "only breaks": (b"\n" * 10_000_000, ""),
    "only spaces": (b" " * 10_000_000, ""),
    "break and space": (b"\n " * 5_000_000, ""),
    "one line": (b"a" * 10_000_000, ""),
    "marks of a cut": (b"... [truncated " * 300_000, ""),
    "brackets": (b"[" * 5_000_000, ""),
    "regex in script": (b"function a(){}\n" + b"/" * 500_000, "a.js"),
    "templates": (b"function a(){}\n" + b"`${" * 100_000, "a.ts"),
    "generics": (b"import a;\nclass b " + b"a<" * 100_000, "a.java"),
    "here documents": (b"#!/bin/sh\n" + b"<<A$((" * 50_000, ""),
    "gzip bomb": (gzip.compress(b"\0" * 200_000_000, 1), ""),
    "gzip in gzip": (gzip.compress(gzip.compress(gzip.compress(LOG))), ""),
    "a large log": (LOG * 60, ""),
    "binary noise": (bytes(range(256)) * 40_000, ""),
    "base64 text": (base64.b64encode(bytes(range(256)) * 20_000), ""),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_input_costs_bounded_time(kind: str) -> None:
    data, name = HOSTILE[kind]
    started = time.process_time()
    explored = explore(data, name)
    assert time.process_time() - started < 10
    assert 0 < len(explored.summary) <= SUMMARY_CHARS


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gzip bomb", "alias bomb", "entity bomb", "a large log"])
def test_hostile_input_costs_bounded_memory(kind: str) -> None:
    data, name = HOSTILE[kind]
    tracemalloc.start()
    try:
        explore(data, name)
        assert tracemalloc.get_traced_memory()[1] < 120 << 20
    finally:
        tracemalloc.stop()


def test_a_fault_in_an_explorer_costs_only_its_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> None:
        raise IndexError(len(data))

    monkeypatch.setattr("lcm_plugin.files.explore._BINARY", (broken,))
    explored = guarded(b"hello", "a.txt", "text/plain")
    assert (explored.kind, explored.mime, explored.summary) == (
        UNEXPLORED,
        "text/plain",
        "5 bytes, not explored.",
    )


def test_nothing_is_told_of_nothing() -> None:
    explored = explore(b"", "a.json", "application/json")
    assert (explored.kind, explored.line_count, explored.mime) == ("empty", 0, "application/json")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32"])
def test_other_encodings_of_unicode_are_text(encoding: str) -> None:
    explored = explore('{"name": "Zoë", "city": "京都"}'.encode(encoding))
    assert explored.kind == "json"
    assert "Zoë" in explored.summary


def test_lines_are_counted_with_and_without_a_last_break() -> None:
    assert explore(b"a\nb\nc").line_count == explore(b"a\nb\nc\n").line_count == 3


def test_the_bytes_decide_and_a_wrong_name_does_not() -> None:
    assert explore(b'{"a": 1}', "a.csv", "text/csv").kind == "json"
    assert explore(b"\x89PNG\r\n\x1a\n" + b"\0" * 20, "a.txt", "text/plain").kind == "png"
    assert explore(b"hello there, this is prose", "a.json", "application/json").kind == "text"


@pytest.mark.parametrize(
    "text",
    [
        "output " * 50 + "\n... [12,345 characters truncated] ...\nmore",
        "output " * 50 + "\n[Output truncated: 100 of 5000 lines shown]",
        "output " * 50 + "...[truncated]",
        "output " * 50 + "… truncated",
        "output\n<truncated lines 95-163>\nmore output",
        "output\n--- 300 lines omitted ---\nmore",
        '{"stdout": "x", "truncated": true}',
        json.dumps([{"a": i} for i in range(100)])[:-40],
        "<a><b>text</b><c",
    ],
)
def test_text_that_the_host_had_cut_is_marked(text: str) -> None:
    explored = explore(text.encode())
    assert explored.truncated
    assert "not the whole" in explored.summary


@pytest.mark.parametrize(
    "text",
    [
        "The output was truncated because the buffer was small. We then omitted 3 lines.\nFine now.",
        'what does "[truncated]" mean in a log?\nand why?',
        "def truncate(text):\n    return text[:10]  # truncated\n",
        '{"note": "[truncated]", "a": 1}',
        '{"truncated": false}',
        "plain text\n[1] a reference\n[2] another",
    ],
)
def test_talk_about_cutting_is_no_mark(text: str) -> None:
    assert not explore(text.encode()).truncated
