"""Stores one conversation of a source: in batches, each row once, under the source's ids and times.

No progress is written down. A row's id says whether it is stored, so a run that was killed goes on where it stopped
and a file that grew adds what is new. The rows of a conversation whose summaries follow (`SourceConversation.whole`)
are stored in one transaction with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from lcm_plugin.engine import Engine
from lcm_plugin.errors import InputError, StoreConflict
from lcm_plugin.ingest.rows import PreparedRow, append_rows
from lcm_plugin.interchange.importers.branches import abandoned_before, bring_back
from lcm_plugin.interchange.importers.entry_rows import EntryRows, head_entry
from lcm_plugin.interchange.importers.forks import ancestors
from lcm_plugin.interchange.importers.kin import Kin, kin_of
from lcm_plugin.interchange.importers.records import (
    ActiveContext,
    ConversationRecord,
    Entry,
    ImportedCompaction,
    SourceConversation,
    SummaryNode,
)
from lcm_plugin.interchange.importers.report import Contents, ConversationReport
from lcm_plugin.interchange.importers.summaries import SummaryImporter, compactable
from lcm_plugin.sessions.names import give_names
from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.records import ArchiveCause, Conversation, Item, MessageHead
from lcm_plugin.types import Message, Session

_EARLIER: ArchiveCause = "rollover"
_BRANCH: ArchiveCause = "session-end"
_MOST_ENTRIES = 500
_MOST_CHARACTERS = 4_000_000


class ConversationWriter:
    """Writes one conversation. ``main`` is the live conversation that a branch left, ``default_at`` the time of a
    source that names none.

    ``abandoned`` are a branch's messages that an earlier run stored in the live conversation. A session that a
    plugin in the host records itself is gone on with where that has its beginning; what it has is left out.
    """

    def __init__(
        self,
        engine: Engine,
        format_name: str,
        source: SourceConversation,
        report: ConversationReport,
        main: int | None,
        default_at: int,
    ) -> None:
        self._engine = engine
        self._source = source
        self._report = report
        self._main = main if source.branch else None
        self._rows = EntryRows(engine, report.key)
        self._head = head_entry(format_name, source, report)
        self._tool = f"{format_name} {source.version}".strip()
        self._summaries = SummaryImporter(engine, format_name, source.source_id, report, self._rows)
        self._at = default_at if source.started_at is None else source.started_at
        self._timed = source.started_at is not None
        self._batch: list[Entry] = []
        self._characters = 0
        self._nodes: list[SummaryNode] = []
        self._contexts: list[ActiveContext] = []
        self.abandoned: dict[int, MessageHead] = {}
        self._has_abandoned = False
        self._live: list[MessageHead] = []
        self._ancestors: list[int] = []
        self._format = format_name
        self._kin = Kin(None, (), {})
        self._conversation: Conversation | None = None
        # Whether the session's first message is one that a plugin in the host stored.
        self._begins_recorded = False
        self._created = False
        self._stack = ExitStack()
        self._writer: Writer | None = None

    def __enter__(self) -> ConversationWriter:
        if self._source.whole:
            self._writer = self._stack.enter_context(self._engine.store.write())
        with self._reading() as reader:
            self._kin = kin_of(reader, self._format, self._source, self._report)
            if self._kin.own is not None:
                self._write_to(reader, self._kin.own)
            self._ancestors = ancestors(reader, self._report.forked_from, self._report.key)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            try:
                self._finish()
            except BaseException as failure:
                self._stack.__exit__(type(failure), failure, failure.__traceback__)
                raise
        self._stack.__exit__(kind, error, error.__traceback__ if error else None)

    @property
    def conversation_id(self) -> int | None:
        """The conversation that holds the rows; None as long as none is stored."""
        return self._conversation.conversation_id if self._conversation else None

    def add(self, record: ConversationRecord) -> None:
        """Takes a record. Entries are stored with the next batch, nodes when all messages are stored."""
        if isinstance(record, ImportedCompaction):
            self._add_compaction(record)
        elif isinstance(record, SummaryNode):
            self._nodes.append(record)
        elif isinstance(record, ActiveContext):
            self._contexts.append(record)
        else:
            self._batch.append(record)
            self._characters += _size(record.message.get("content"))
            if len(self._batch) >= _MOST_ENTRIES or self._characters >= _MOST_CHARACTERS:
                self._flush()

    def _flush(self) -> None:
        entries = list({entry.host_id: entry for entry in self._batch}.values())
        self._batch, self._characters = [], 0
        if not entries:
            return
        self._begin_at(entries)
        with self._reading() as reader:
            self._go_on_with_recorded(reader, entries)
            fresh = self._unknown(reader, entries)
            beside = self._place_beside_talk(reader, entries, fresh)
        prepared = self._prepare(fresh)
        if not prepared:
            return
        with self._writing() as writer:
            conversation = writer.conversation(beside) if beside is not None else None
            conversation = conversation or self._open(writer)
            # Another import of the same file may have been faster.
            ids = [str(item.row.host_id) for _, item in prepared]
            known = writer.known_host_ids([conversation.conversation_id], ids)
            new = [item for item in prepared if item[1].row.host_id not in known]
            self._append(writer, new, conversation)
            for _, item in prepared:
                if item.row.host_id in known:
                    self._report.add_known(hidden=item.row.hidden)

    def _write_to(self, reader: Reader, conversation: Conversation) -> None:
        self._conversation = conversation
        if not self._source.branch:
            self._has_abandoned = bool(abandoned_before(reader, conversation.conversation_id))

    def _go_on_with_recorded(self, reader: Reader, entries: list[Entry]) -> None:
        """Goes on where the host's plugin recorded the newest of some entries, if it recorded the session's first one.

        What is not the live session does not go into the conversation that is active.
        """
        if self._source.branch or not self._kin.others:
            return
        stored = self._kin.recorded(reader, [name for entry in entries for name in entry.host_ids])
        shown = [entry for entry in entries if not entry.hidden]
        if self._conversation is None and not self._begins_recorded and shown:
            self._begins_recorded = shown[0].is_in(stored.keys())
        places = [at for at, entry in enumerate(shown) if entry.is_in(stored.keys())]
        if not places:
            return
        found = self._kin.others[next(stored[name] for name in shown[places[-1]].host_ids if name in stored)]
        if found.active and not self._source.live:
            return
        if self._begins_recorded or self._went_on_elsewhere(reader, found, shown[: places[-1]], stored):
            self._write_to(reader, found)

    def _went_on_elsewhere(
        self, reader: Reader, found: Conversation, before: list[Entry], stored: Mapping[str, int]
    ) -> bool:
        """Whether what an import wrote has ended, and the plugin's own has all that follows, but for the newest."""
        own = self._kin.own
        if own is None or own.active or own != self._conversation or not found.active:
            return False
        ids = [name for entry in before for name in entry.host_ids]
        known = reader.known_host_ids(self._kin.held, ids) | stored.keys()
        return all(entry.is_in(known) for entry in before)

    def _place_beside_talk(self, reader: Reader, entries: list[Entry], fresh: list[Entry]) -> int | None:
        """Where the talk is stored of which only records beside it are new; they need no conversation of their own."""
        if self._conversation is not None or not all(entry.hidden for entry in fresh):
            return None
        ids = [name for entry in entries if not entry.hidden for name in entry.host_ids]
        imported = [one for one in (self._main, *self._kin.held) if one is not None]
        found = next((one for one in imported if reader.known_host_ids([one], ids)), None)
        return found if found is not None else next(iter(self._kin.recorded(reader, ids).values()), None)

    def _add_compaction(self, compaction: ImportedCompaction) -> None:
        """Puts a compaction's summary in the place of the messages that it replaced and that are raw here."""
        self._flush()
        entry = compaction.entry
        with self._reading() as reader:
            if not self._unknown(reader, [entry]):
                return
            if self.conversation_id in self._kin.others:
                # Its context is made here, and by its own summaries.
                self._batch.append(replace(entry, hidden=True))
                return
            items = self._replaced_items(reader, compaction)
        if items:
            try:
                with self._writing() as writer:
                    self._publish(writer, compaction, items, self._time_of(entry))
                return
            except StoreConflict:
                self._report.note(f"{entry.place}: its messages were compacted here meanwhile")
        # Shown only where it summarises messages that were never in this source.
        self._batch.append(entry if items is None else replace(entry, hidden=True))
        self._flush()

    def _replaced_items(self, reader: Reader, compaction: ImportedCompaction) -> tuple[Item, ...] | None:
        """The raw items that a compaction replaced; None when nothing came before it."""
        if self._conversation is None:
            return None
        conversation_id = self._conversation.conversation_id
        heads = reader.heads_with_host_ids(conversation_id, [compaction.through])
        through = heads.get(compaction.through)
        return compactable(reader, conversation_id, through.seq) if through else None

    def _publish(
        self, writer: Writer, compaction: ImportedCompaction, items: tuple[Item, ...], at: int
    ) -> None:
        entry = compaction.entry
        node = SummaryNode(entry.id, 0, compaction.text, ())
        publication = self._summaries.publication(writer, self._open(writer), node, items, at)
        if (
            publication.summary.content.strip()
            and publication.item_tokens < publication.summary.source_tokens
        ):
            self._summaries.publish(writer, publication)
            reference = {"type": "compaction", "summary_id": publication.summary.summary_id}
            entry = replace(entry, message={"role": entry.message["role"], "content": [reference]})
        else:
            self._report.note(f"{entry.place}: the summary is not smaller than its source, which stays")
        self._append(writer, self._prepare([replace(entry, hidden=True)]))

    def _finish(self) -> None:
        self._flush()
        if self._nodes:
            with self._writing() as writer:
                conversation = self._open(writer)
                left = self._summaries.insert(writer, conversation, self._nodes, self._at)
                if self._created:
                    self._summaries.prune(writer, conversation, self._contexts, self._at)
                self._append(writer, self._prepare(left))
        if self._live and self._conversation is not None:
            with self._writing() as writer:
                bring_back(self._engine, writer, self._conversation.conversation_id, self._live, self._at)
        found = self._conversation
        if found is not None and not self._source.branch:
            self._give_names(found)
        if found is not None and found.active and not self._source.live and not self._source.branch:
            with self._writing() as writer:
                writer.archive(found.conversation_id, _EARLIER, self._at)
        self._report.conversation_id = self.conversation_id

    def _give_names(self, found: Conversation) -> None:
        """Title, project and source, as far as they are new."""
        source = self._source
        names = {"title": source.title, "project": source.project, "source": self._tool}
        with self._reading() as reader:
            row = reader.conversation(found.conversation_id)
        if row is not None and any(value and value != getattr(row, name) for name, value in names.items()):
            with self._writing() as writer:
                give_names(writer, row, {name: self._rows.text(value) for name, value in names.items()})

    def _unknown(self, reader: Reader, entries: list[Entry]) -> list[Entry]:
        """The entries that are not stored yet; remembers which of a branch's are in the live conversation."""
        ids = [name for entry in entries for name in entry.host_ids]
        known = set[str]()
        if self._conversation is not None:
            stored = reader.heads_with_host_ids(self._conversation.conversation_id, ids)
            known = set(stored)
            if self._has_abandoned:
                self._live += [head for head in stored.values() if head.withdrawn_at is not None]
        if self._main is not None:
            in_main = reader.heads_with_host_ids(self._main, ids)
            self.abandoned |= {head.message_id: head for head in in_main.values()}
            known |= in_main.keys()
        if self._ancestors:
            copies = [name for entry in entries if entry.inherited for name in entry.host_ids]
            known |= reader.known_host_ids(self._ancestors, copies)
        known |= reader.known_host_ids(self._kin.held, ids) | self._kin.recorded(reader, ids).keys()
        fresh = []
        for entry in entries:
            if entry.is_in(known):
                self._report.add_known(hidden=entry.hidden or Contents.of(entry.message).blank)
                self._report.seen_at(entry.at)
                self._at = entry.at or self._at
            else:
                fresh.append(entry)
        return fresh

    def _prepare(self, entries: list[Entry]) -> list[tuple[Message, PreparedRow]]:
        prepared = []
        for entry in entries:
            try:
                prepared.append((entry.message, self._rows.make(entry, self._time_of(entry))))
            except InputError as error:
                self._report.note(f"not stored: {error}")
        return prepared

    def _begin_at(self, entries: list[Entry]) -> None:
        """Entries before the first one with a time get its time."""
        first = next((entry.at for entry in entries if entry.at is not None), None)
        if first is not None and not self._timed:
            self._at, self._timed = first, True

    def _time_of(self, entry: Entry) -> int:
        """An entry's time; that of the one before it when the source gives none."""
        self._at = self._at if entry.at is None else entry.at
        self._report.seen_at(self._at)
        return self._at

    def _open(self, writer: Writer) -> Conversation:
        """The conversation as it is now; created with its head when there is none yet."""
        key, head_id = self._report.key, self._head.host_id
        known = self._conversation
        found = (
            writer.conversation(known.conversation_id) if known else writer.conversation_holding(key, head_id)
        )
        if found is None:
            head = self._rows.make(self._head, self._report.earliest or self._at)
            at = head.row.created_at
            created = self._create(writer, Session(key, self._source.name), at)
            append_rows(writer, created, [head], at)
            self._created = True
            found = writer.conversation(created.conversation_id)
        assert found is not None
        self._conversation = found
        return found

    def _create(self, writer: Writer, session: Session, at: int) -> Conversation:
        if self._source.branch:
            return writer.open_archived(session, _BRANCH, at)
        if self._source.live:
            if writer.find_conversation(Session(session.key)) is None:
                return writer.open_conversation(session, at)
            self._report.note(
                f"{session.key} has an active conversation of its own: kept as an earlier one of the same key"
            )
        return writer.open_archived(session, _EARLIER, at)

    def _append(
        self, writer: Writer, prepared: list[tuple[Message, PreparedRow]], to: Conversation | None = None
    ) -> None:
        if not prepared:
            return
        append_rows(writer, to or self._open(writer), [item for _, item in prepared], self._at)
        for message, item in prepared:
            self._report.add(Contents.of(message), hidden=item.row.hidden)
            self._report.tokens += item.row.item_tokens

    @contextmanager
    def _reading(self) -> Iterator[Reader]:
        if self._writer is not None:
            yield self._writer
        else:
            with self._engine.store.read() as reader:
                yield reader

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        if self._writer is not None:
            yield self._writer
        else:
            with self._engine.store.write() as writer:
                yield writer


def _size(content: object) -> int:
    """About how many characters a content takes."""
    if isinstance(content, str):
        return len(content)
    if isinstance(content, dict):
        return sum(map(_size, content.values()))
    return sum(map(_size, content)) if isinstance(content, list) else 8
