"""Counts what a conversation of a source holds, before anything is stored."""

from __future__ import annotations

from collections.abc import Callable, Set

from lcm_plugin.engine import Engine
from lcm_plugin.interchange.importers.forks import ancestors
from lcm_plugin.interchange.importers.kin import Kin, kin_of
from lcm_plugin.interchange.importers.records import (
    Entry,
    ImportedCompaction,
    Record,
    SourceConversation,
    SummaryNode,
)
from lcm_plugin.interchange.importers.report import Contents, ConversationReport
from lcm_plugin.types import Message, Session

_BATCH = 500
_RECORD = Contents(blank=True)


class Survey:
    """Counts one conversation's rows, and which of them are stored already.

    ``imported_before`` are the keys of the sessions that are imported in the same run before this one: a fork's copies
    of theirs are stored by then.
    """

    def __init__(
        self,
        report: ConversationReport,
        source: SourceConversation,
        format_name: str,
        engine: Engine | None,
        count: Callable[[Message], int] | None,
        imported_before: Set[str],
    ) -> None:
        self._report = report
        self._engine = engine
        self._count = count
        self._taken: list[Entry | ImportedCompaction] = []
        self._own: set[int] = set()
        self._members: list[int] = []
        self._kin = Kin(None, (), {})
        self._ancestors: list[int] = []
        self._inherited = not imported_before.isdisjoint(report.forked_from)
        report.seen_at(source.started_at)
        if engine is not None:
            with engine.store.read() as reader:
                self._kin = kin_of(reader, format_name, source, report)
                # The conversation that a branch left is the one that is active.
                left = reader.find_conversation(Session(report.key)) if source.branch else None
                self._members = [*self._kin.held, *([left.conversation_id] if left else [])]
                self._ancestors = ancestors(reader, report.forked_from, report.key)

    def take(self, record: Record) -> None:
        """Counts a record."""
        if isinstance(record, (ImportedCompaction, SummaryNode)):
            self._report.summaries += 1
        if isinstance(record, (Entry, ImportedCompaction)):
            self._taken.append(record)
        if len(self._taken) >= _BATCH:
            self.close()

    def close(self) -> None:
        """Looks up which of the records since the last time are stored already, and counts all of them."""
        entries = [one.entry if isinstance(one, ImportedCompaction) else one for one in self._taken]
        names = [name for entry in entries for name in entry.host_ids]
        known = self._known(names, self._members) | self._recorded(names)
        self._own |= {hash(one) for one in known}
        copies = [name for entry in entries if entry.inherited for name in entry.host_ids]
        known |= set(copies) if self._inherited else self._known(copies, self._ancestors)
        for record, entry in zip(self._taken, entries, strict=True):
            contents = _RECORD if entry.hidden else Contents.of(entry.message)
            message, hidden = entry.message, contents.blank or self._is_replaced(record)
            self._report.seen_at(entry.at)
            if entry.is_in(known):
                self._report.add_known(hidden=hidden)
                continue
            self._own.add(hash(entry.host_id))
            self._report.add(contents, hidden=hidden)
            if self._count is not None and not hidden and message["role"] != "system":
                self._report.tokens += self._count(message)
        self._taken = []

    def _is_replaced(self, record: Entry | ImportedCompaction) -> bool:
        """Whether a summary takes the place of messages of this conversation; its record is not shown then."""
        return isinstance(record, ImportedCompaction) and hash(record.through) in self._own

    def _known(self, ids: list[str], conversations: list[int]) -> set[str]:
        if self._engine is None or not conversations or not ids:
            return set()
        with self._engine.store.read() as reader:
            return reader.known_host_ids(conversations, ids)

    def _recorded(self, ids: list[str]) -> set[str]:
        if self._engine is None or not ids:
            return set()
        with self._engine.store.read() as reader:
            return set(self._kin.recorded(reader, ids))
