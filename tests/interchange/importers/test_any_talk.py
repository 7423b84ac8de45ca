"""Whatever tool a talk was held in, an import holds what is in it: no message, call, result or image more or less."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

import pytest
from any_talk import KINDS, WRITERS, Counted, Kind, counted
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from imported_store import Imported, counts

from lcm_plugin.interchange.importers.formats import FORMATS
from lcm_plugin.interchange.importers.importing import find_sources, look_over
from lcm_plugin.interchange.importers.report import FileReport

_numbers = count()
# Databases of other tools are covered by tests of their own.
PEERS = {"hermes", "lossless-claw", "hermes-lcm"}


def told(report: FileReport) -> Counted:
    return Counted(*(report.total(name) for name in ("messages", "calls", "results", "images")))


def stored(imported: Imported, report: FileReport) -> Counted:
    """Messages, calls and results that are in the database; images as the report counts them."""
    heads = [
        row.head
        for one in report.conversations
        if one.conversation_id is not None
        for row in imported.rows(one.conversation_id)
        if not row.head.hidden
    ]
    calls, answers = (sum(len(getattr(head, name)) for head in heads) for name in ("calls", "answers"))
    return Counted(len(heads), calls, answers, report.total("images"))


def test_every_format_has_a_generator() -> None:
    assert WRITERS.keys() == FORMATS.keys() - PEERS


def test_the_page_of_imports_lists_every_format_and_the_readme_every_tool() -> None:
    root = Path(__file__).parents[3]
    page, readme = ((root / name).read_text("utf-8") for name in ("docs/import.md", "README.md"))
    for name in FORMATS:
        assert f"| `{name}` |" in page
    for tool, version in (
        ("Claude Code", "2.1"),
        ("Codex", "0.171"),
        ("Gemini CLI", "0.61"),
        ("opencode", "1.18"),
        ("OpenClaw", "2026.9"),
    ):
        assert tool in readme
        assert re.search(rf"^\| {tool}[^|]*\| {re.escape(version)}\b", page, re.MULTILINE)


@pytest.mark.parametrize("name", list(WRITERS))
@settings(max_examples=examples(4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(talk=st.lists(st.sampled_from(KINDS), max_size=12))
def test_an_import_holds_what_was_said(
    imported: Imported, tmp_path: Path, name: str, talk: list[Kind]
) -> None:
    write, keeps = WRITERS[name]
    talk = ["user", *talk]
    folder = tmp_path / f"{next(_numbers)}"
    folder.mkdir()
    path = write(folder, f"ses_{folder.name}", talk)
    (source,), _ = find_sources([str(path)])
    assert source.format.name == name
    before = look_over(source, "", imported.engine)
    report = imported.bring_source(source)
    assert [one.kind for one in report.conversations] == ["session"]
    assert counted(talk, **keeps) == told(before) == told(report) == stored(imported, report)
    again = imported.bring_source(source)
    assert again.total("new") == 0
    assert counts(again)["said"] == counts(report)["said"]
