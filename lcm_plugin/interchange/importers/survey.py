"""Counts what a conversation of a source holds, before anything is stored."""

from __future__ import annotations

from collections.abc import Callable

from lcm_plugin.engine import Engine
from lcm_plugin.interchange.importers.entry_rows import head_entry
from lcm_plugin.interchange.importers.records import (
    Entry,
    ImportedCompaction,
    Record,
    SourceConversation,
    SummaryNode,
)
from lcm_plugin.interchange.importers.report import ConversationReport
from lcm_plugin.store.protocol import Reader
from lcm_plugin.types import Message

_BATCH = 500


class Survey:
    """Counts one conversation's rows, and which of them are stored already."""

    def __init__(
        self,
        report: ConversationReport,
        source: SourceConversation,
        format_name: str,
        engine: Engine | None,
        count: Callable[[Message], int] | None,
    ) -> None:
        self._report = report
        self._engine = engine
        self._count = count
        self._ids: list[str] = []
        self._members: list[int] = []
        report.seen_at(source.started_at)
        if engine is not None:
            head = head_entry(format_name, source, report.parent).host_id
            with engine.store.read() as reader:
                self._members = _members(reader, report, head, source)

    def take(self, record: Record) -> None:
        """Counts a record."""
        entry = record.entry if isinstance(record, ImportedCompaction) else record
        if isinstance(record, (ImportedCompaction, SummaryNode)):
            self._report.summaries += 1
        if not isinstance(entry, Entry):
            return
        self._report.seen_at(entry.at)
        self._report.hidden += entry.hidden
        if self._count is not None and not entry.hidden and entry.message["role"] != "system":
            self._report.tokens += self._count(entry.message)
        self._report.new += 1
        self._ids.append(entry.host_id)
        if len(self._ids) >= _BATCH:
            self.close()

    def close(self) -> None:
        """Looks up which of the counted rows are stored already."""
        if self._engine is not None and self._members and self._ids:
            with self._engine.store.read() as reader:
                known = len(reader.known_host_ids(self._members, self._ids))
            self._report.new -= known
            self._report.known += known
        self._ids = []


def _members(reader: Reader, report: ConversationReport, head: str, source: SourceConversation) -> list[int]:
    own = reader.conversation_holding(report.key, head)
    found = [own.conversation_id] if own else []
    if source.branch:
        found += [row.conversation_id for row in reader.lane(report.key) if row.active]
    return found
