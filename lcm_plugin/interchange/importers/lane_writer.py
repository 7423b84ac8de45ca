"""Storing one lane of a source: in batches, each once, under its own ids and times.

Nothing about progress is written down. A row's id tells whether it is stored, so a run that was killed goes on
where it stopped and a file that grew adds what is new. The rows of a lane whose summaries follow (`Lane.whole`) are
stored in one transaction with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from lcm_plugin.engine import Engine
from lcm_plugin.errors import InputError, StoreConflict
from lcm_plugin.ingest.rows import PreparedRow, append_rows
from lcm_plugin.interchange.importers.branches import bring_back, has_turned_away
from lcm_plugin.interchange.importers.dag import Weaver
from lcm_plugin.interchange.importers.folds import (
    foldable,
    imported_summary_id,
    item_cost,
    publish,
    summary_over,
)
from lcm_plugin.interchange.importers.places import EARLIER, find_imported, open_for
from lcm_plugin.interchange.importers.records import Entry, Fold, Lane, Node, Standing
from lcm_plugin.interchange.importers.report import LaneReport
from lcm_plugin.interchange.importers.rows import EntryRows, head_entry
from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.records import Conversation, Item
from lcm_plugin.text import plural

_MOST_ENTRIES = 500
_MOST_CHARACTERS = 4_000_000


class LaneWriter:
    """Writes one lane. ``main`` is the live conversation that a branch left, ``default_at`` the time of a lane
    that tells none.

    ``turned_away`` are the seqs of a branch's messages that an earlier run stored in the live conversation.
    """

    def __init__(
        self,
        engine: Engine,
        format_name: str,
        lane: Lane,
        report: LaneReport,
        main: int | None,
        default_at: int,
    ) -> None:
        self._engine = engine
        self._lane = lane
        self._report = report
        self._format = format_name
        self._main = main if lane.branch else None
        self._rows = EntryRows(engine, report.key)
        self._head = head_entry(format_name, lane, report.parent)
        self._weaver = Weaver(engine, format_name, lane.source_id, report, self._rows)
        self._at = default_at if lane.started_at is None else lane.started_at
        self._timed = lane.started_at is not None
        self._batch: list[Entry] = []
        self._characters = 0
        self._nodes: list[Node] = []
        self._standing: list[Standing] = []
        self.turned_away: set[int] = set()
        self._watched = False
        self._live: list[int] = []
        self._conversation: Conversation | None = None
        self._made = False
        self._stack = ExitStack()
        self._writer: Writer | None = None

    def __enter__(self) -> LaneWriter:
        if self._lane.whole:
            self._writer = self._stack.enter_context(self._engine.store.write())
        with self._reading() as reader:
            self._conversation = find_imported(reader, self._report.key, self._head.host_id)
            if self._conversation is not None and not self._lane.branch:
                self._watched = has_turned_away(reader, self._conversation.conversation_id)
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
        """Where the lane is stored; None as long as nothing of it is."""
        return self._conversation.conversation_id if self._conversation else None

    def add(self, entry: Entry) -> None:
        """Takes an entry; it is stored with the next batch."""
        self._batch.append(entry)
        self._characters += _size(entry.message.get("content"))
        if len(self._batch) >= _MOST_ENTRIES or self._characters >= _MOST_CHARACTERS:
            self.flush()

    def add_node(self, node: Node) -> None:
        """Takes a summary of a DAG; all are placed when the messages are stored."""
        self._nodes.append(node)

    def add_standing(self, standing: Standing) -> None:
        """Takes what the source's context holds."""
        self._standing.append(standing)

    def flush(self) -> None:
        """Stores what has gathered."""
        entries = list({entry.host_id: entry for entry in self._batch}.values())
        self._batch, self._characters = [], 0
        if not entries:
            return
        self._begin_at(entries)
        with self._reading() as reader:
            fresh = self._unknown(reader, entries)
        prepared = self._prepare(fresh)
        if not prepared:
            return
        with self._writing() as writer:
            conversation = self._open(writer)
            # Another import of the same file may have been faster.
            ids = [str(item.row.host_id) for item in prepared]
            known = writer.known_host_ids([conversation.conversation_id], ids)
            new = [item for item in prepared if item.row.host_id not in known]
            self._append(writer, new)
            self._report.known += len(prepared) - len(new)

    def fold(self, fold: Fold) -> None:
        """Puts a compaction's summary in the place of what it replaced, as far as that stands here."""
        self.flush()
        with self._reading() as reader:
            if not self._unknown(reader, [fold.entry]):
                return
            items = self._folded_items(reader, fold)
        if not items:
            # What it replaced lies under a summary already, or was never in this source.
            self.add(fold.entry if items is None else replace(fold.entry, hidden=True))
            self.flush()
            return
        at = self._time_of(fold.entry)
        try:
            with self._writing() as writer:
                self._publish(writer, fold, items, at)
        except StoreConflict:
            self._report.note(f"{fold.entry.place}: its messages were compacted here meanwhile")
            self.add(replace(fold.entry, hidden=True))
            self.flush()

    def _folded_items(self, reader: Reader, fold: Fold) -> tuple[Item, ...] | None:
        """What a compaction replaced, as far as it stands raw; None when nothing came before it."""
        if self._conversation is None:
            return None
        conversation_id = self._conversation.conversation_id
        through = reader.heads_with_host_ids(conversation_id, [fold.through]).get(fold.through)
        return foldable(reader, conversation_id, through.seq) if through else None

    def _publish(self, writer: Writer, fold: Fold, items: tuple[Item, ...], at: int) -> None:
        conversation = self._open(writer)
        text, counter = self._rows.text(fold.text), self._engine.counter
        summary_id = imported_summary_id(self._report.key, self._format, self._lane.source_id, fold.entry.id)
        summary = summary_over(
            writer,
            items,
            summary_id=summary_id,
            conversation_id=conversation.conversation_id,
            depth=0,
            text=text,
            tokens=counter.text(text),
            at=at,
            model=fold.model,
            origin=f"{self._format} {fold.entry.id}",
        )
        cost = item_cost(counter, summary, items, self._engine.config.timezone)
        stands = bool(text.strip()) and cost < summary.source_tokens
        if stands:
            publish(writer, conversation, summary, items, cost, at)
            self._report.summaries += 1
        else:
            self._report.note(f"{fold.entry.place}: the summary is not smaller than its source, which stays")
        self._append(writer, self._prepare([_folded(fold.entry, summary_id if stands else "")]))

    def _finish(self) -> None:
        self.flush()
        if self._nodes:
            with self._writing() as writer:
                conversation = self._open(writer)
                left = self._weaver.weave(writer, conversation, self._nodes, self._at)
                if self._made:
                    self._weaver.prune(writer, conversation, self._standing, self._at)
                self._append(writer, self._prepare(left))
        if self._watched:
            self._bring_back()
        now_earlier = self._conversation and self._conversation.active and not self._lane.live
        if now_earlier and self._conversation and not self._lane.branch:
            with self._writing() as writer:
                writer.archive(self._conversation.conversation_id, EARLIER, self._at)
        self._report.conversation_id = self.conversation_id

    def _unknown(self, reader: Reader, entries: list[Entry]) -> list[Entry]:
        """The entries that are not stored yet; notes which of a branch's stand in the live conversation."""
        ids = [entry.host_id for entry in entries]
        known = set[str]()
        if self._conversation is not None:
            stored = reader.heads_with_host_ids(self._conversation.conversation_id, ids)
            known = set(stored)
            if self._watched:
                self._live += [head.message_id for head in stored.values()]
        if self._main is not None:
            in_main = reader.heads_with_host_ids(self._main, ids)
            self.turned_away |= {head.seq for head in in_main.values()}
            known |= in_main.keys()
        for entry in entries:
            if entry.host_id in known:
                self._report.known += 1
                self._report.seen_at(entry.at)
                self._at = entry.at or self._at
        return [entry for entry in entries if entry.host_id not in known]

    def _prepare(self, entries: list[Entry]) -> list[PreparedRow]:
        prepared = []
        for entry in entries:
            try:
                row = self._rows.make(entry, self._time_of(entry))
            except InputError as error:
                self._report.note(f"not stored: {error}")
                continue
            prepared.append(row)
        return prepared

    def _begin_at(self, entries: list[Entry]) -> None:
        """The first messages of a source may tell no time: then they have that of the first one that does."""
        first = next((entry.at for entry in entries if entry.at is not None), None)
        if first is not None and not self._timed:
            self._at, self._timed = first, True

    def _time_of(self, entry: Entry) -> int:
        """An entry's time; that of the one before it when the source tells none."""
        self._at = self._at if entry.at is None else entry.at
        self._report.seen_at(self._at)
        return self._at

    def _open(self, writer: Writer) -> Conversation:
        """The lane's conversation as it stands, made with its head when there is none yet."""
        known = self._conversation
        found = (
            writer.conversation(known.conversation_id)
            if known
            else find_imported(writer, self._report.key, self._head.host_id)
        )
        if found is None:
            head = self._rows.make(self._head, self._report.earliest or self._at)
            found, remark = open_for(writer, self._lane, self._report.key, head.row.created_at)
            append_rows(writer, found, [head], head.row.created_at)
            self._made = True
            if remark:
                self._report.note(remark)
            found = writer.conversation(found.conversation_id)
        assert found is not None
        self._conversation = found
        return found

    def _append(self, writer: Writer, prepared: list[PreparedRow]) -> None:
        if not prepared:
            return
        append_rows(writer, self._open(writer), prepared, self._at)
        for item in prepared:
            self._report.new += 1
            self._report.hidden += item.row.hidden
            self._report.tokens += item.row.item_tokens

    def _bring_back(self) -> None:
        """Messages of the live branch may stand outside the context since an earlier run took them for a branch."""
        assert self._conversation is not None
        with self._writing() as writer:
            left = bring_back(writer, self._conversation.conversation_id, self._live, self._at)
        if left:
            self._report.note(
                f"{plural(left, 'message')} of the live branch left outside the context, which changed since"
            )

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


def _folded(entry: Entry, summary_id: str) -> Entry:
    """The source's record of a compaction: without the text where a summary has it."""
    if not summary_id:
        return replace(entry, hidden=True)
    told = {"type": "compaction", "summary_id": summary_id}
    return replace(entry, message={"role": entry.message["role"], "content": [told]}, hidden=True)
