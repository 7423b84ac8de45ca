"""What an import put into a database, as tests look at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lcm_plugin import Engine, Session
from lcm_plugin.interchange.importers.importing import SourceFile, find_sources, load, survey_all
from lcm_plugin.interchange.importers.report import FileReport
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.store.protocol import iterate_messages
from lcm_plugin.store.records import Conversation, StoredMessage
from lcm_plugin.types import Severity


class Imported:
    """An engine and what an import put into it. Every import must leave the database whole."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def bring(
        self, path: Path, template: str = "", format_name: str = "auto", *, keep_records: bool = False
    ) -> FileReport:
        """Imports one file, checks the database, and assembles a context of each session."""
        (source,), _ = find_sources([str(path)], format_name)
        return self.bring_source(source, template, keep_records=keep_records)

    def bring_all(self, *paths: Path) -> list[FileReport]:
        """Imports files and folders in one run; the dry run before it must count the same."""
        sources, _ = find_sources([str(path) for path in paths])
        surveyed = survey_all(sources, "", self.engine)
        done = [self.bring_source(source) for source, _ in surveyed]
        for (_, told), report in zip(surveyed, done, strict=True):
            assert counts(told) == counts(report)
        return done

    def bring_source(
        self, source: SourceFile, template: str = "", *, keep_records: bool = False
    ) -> FileReport:
        report = load(self.engine, source, template, keep_records=keep_records)
        found = self.engine.check()
        assert found.ok, found.findings
        for lane in report.conversations:
            # Assembly checks itself against the rules of all providers.
            assert not self.engine.assemble(Session(lane.key), 100_000).over_budget
        return report

    def troubles(self) -> list[str]:
        """What the checker says, but for mere remarks."""
        found = self.engine.check().findings
        return [finding.code for finding in found if finding.severity is not Severity.INFO]

    def lane(self, key: str) -> list[Conversation]:
        with self.engine.store.read() as reader:
            return reader.lane(key)

    def rows(self, conversation_id: int) -> list[StoredMessage]:
        with self.engine.store.read() as reader:
            return list(iterate_messages(reader, conversation_id))

    def active(self, key: str) -> list[StoredMessage]:
        (conversation,) = [row for row in self.lane(key) if row.active]
        return self.rows(conversation.conversation_id)

    def archived(self, key: str) -> list[list[str]]:
        """The words of each archived conversation of a key."""
        return [words(self.rows(row.conversation_id)) for row in self.lane(key) if not row.active]

    def context(self, key: str) -> list[str]:
        """What the context holds: ids of summaries and words of messages that a model is shown."""
        stored = {row.head.ref: row for row in self.active(key)}
        shown = []
        for item in self.engine.context_items(Session(key)):
            if item.kind == "summary":
                shown.append(item.id)
            elif not stored[item.id].head.hidden:
                shown.append(said(stored[item.id]))
        return shown


def counts(report: FileReport) -> dict[str, int]:
    """What a report counts of rows, dry run or not."""
    return {
        name: report.total(name) for name in ("new", "known", "hidden", "said", "calls", "results", "images")
    }


def said(row: StoredMessage) -> str:
    """The words of a row."""
    content = rebuild(row).get("content")
    if isinstance(content, list):
        return " ".join(str(block.get("text", "")) for block in content if isinstance(block, dict)).strip()
    return str(content or "")


def words(rows: list[StoredMessage]) -> list[str]:
    """The words of all rows that a model was ever shown."""
    return [said(row) for row in rows if not row.head.hidden or row.head.withdrawn_at is not None]


def asides(rows: list[StoredMessage]) -> list[tuple[str, Any]]:
    """The hidden rows: type of their part, and what it holds."""
    found = []
    for row in rows:
        content = rebuild(row).get("content")
        if row.head.hidden and isinstance(content, list) and len(row.parts) >= 1:
            found.append((row.parts[0].type, content[0]))
    return found
