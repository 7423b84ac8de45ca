"""Summaries of a source over messages that were just stored: those of its compactions, and those of its DAG.

Leaves come first, each level over the one below. A summary takes its place only where this package's own could stand:
over neighbours in the context. Hidden messages between a leaf's sources go with them. Sources of a lower depth than the
others are lifted by summaries of the same words over one source each; these and the summary above are marked to be
written again. Any other summary is kept as a record of its own.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from lcm_plugin.engine import Engine
from lcm_plugin.interchange.importers.entry_rows import EntryRows
from lcm_plugin.interchange.importers.records import ActiveContext, Entry, SummaryNode, aside
from lcm_plugin.interchange.importers.report import ConversationReport
from lcm_plugin.messages.groups import MAX_SPAN, legal_cut
from lcm_plugin.messages.markup import summary_tokens
from lcm_plugin.store.protocol import Reader, Writer, iterate_items
from lcm_plugin.store.records import Conversation, Item, Publication, Summary

_PAGE = 500
_REASON = "imported"
_PRUNED = "pruned at the source"


def compactable(reader: Reader, conversation_id: int, through_seq: int) -> tuple[Item, ...]:
    """The raw items that end at a seq, back to the summary before them; no group is split."""
    before = reader.newest_summary_items(conversation_id, before=through_seq + 1, limit=1)
    raw = iterate_items(reader, conversation_id, after=before[0].ordinal if before else 0, raw=True)
    items = list(takewhile(lambda item: item.ordinal <= through_seq, raw))
    if not items:
        return ()
    floor = items[0].ordinal

    def lowest_group(seq: int) -> int | None:
        return reader.lowest_group(conversation_id, seq, MAX_SPAN, floor)

    cut = legal_cut(through_seq + 1, lowest_group)
    return tuple(item for item in items if item.ordinal < cut)


@dataclass(slots=True)
class _Context:
    """A conversation's context in memory. ``raw`` and ``placed`` find its items by the source's ids."""

    ordinals: list[int] = field(default_factory=list)
    items: dict[int, Item] = field(default_factory=dict)
    raw: dict[str, Item] = field(default_factory=dict)
    placed: dict[str, Item] = field(default_factory=dict)

    @classmethod
    def read(cls, reader: Reader, conversation_id: int) -> _Context:
        context = cls()
        for item in iterate_items(reader, conversation_id):
            context.ordinals.append(item.ordinal)
            context.items[item.ordinal] = item
            if item.message and item.message.host_id:
                context.raw[item.message.host_id] = item
        return context

    def span(self, sources: Sequence[Item]) -> list[Item]:
        """All items from the first source to the last."""
        low, high = min(one.ordinal for one in sources), max(one.ordinal for one in sources)
        found = self.ordinals[bisect_left(self.ordinals, low) : bisect_left(self.ordinals, high + 1)]
        return [self.items[ordinal] for ordinal in found]

    def replace(self, items: Sequence[Item], by: Item) -> None:
        """Puts one item in the place of some neighbours."""
        low = bisect_left(self.ordinals, items[0].ordinal)
        self.ordinals[low : low + len(items)] = [by.ordinal]
        for item in items:
            del self.items[item.ordinal]
        self.items[by.ordinal] = by


class SummaryImporter:
    """Publishes the summaries of one conversation of a source."""

    def __init__(
        self, engine: Engine, format_name: str, source_id: str, report: ConversationReport, rows: EntryRows
    ) -> None:
        self._engine = engine
        self._format = format_name
        self._source = source_id
        self._report = report
        self._rows = rows

    def insert(
        self, writer: Writer, conversation: Conversation, nodes: Sequence[SummaryNode], default_at: int
    ) -> list[Entry]:
        """Publishes the nodes that can stand in the context; returns a record for each of the others."""
        known = self._known(writer, nodes)
        asides = {self._aside(node, "").host_id: node.id for node in nodes}
        kept = writer.known_host_ids([conversation.conversation_id], list(asides))
        set_aside = {asides[host_id] for host_id in kept}
        context = _Context.read(writer, conversation.conversation_id)
        by_summary = {item.summary_id: item for item in context.items.values() if item.summary_id}
        by_id = {node.id: node for node in nodes}
        left: list[Entry] = []
        for node in sorted(nodes, key=lambda one: one.depth):
            summary_id = self._summary_id(node.id)
            if summary_id in known or node.id in set_aside:
                if summary_id in by_summary:
                    context.placed[node.id] = by_summary[summary_id]
                continue
            items, why_not = _place(node, context)
            if why_not:
                self._report.note(f"summary {node.id}: {why_not}; kept as a record")
                left.append(self._aside(node, why_not))
                continue
            at = default_at if node.at is None else node.at
            if node.depth and any(by_id[source].depth < node.depth - 1 for source in node.sources):
                lifted = [
                    self._lift(writer, conversation, by_id[one], node.depth, context, at)
                    for one in node.sources
                ]
                node = replace(node, sources=tuple(lifted), fallback=True)
                items, _ = _place(node, context)
                self._report.note(
                    f"summary {node.id} was made over several depths: it is to be written again"
                )
            publication = self.publication(writer, conversation, node, items, at)
            if publication.summary.tokens >= publication.summary.source_tokens:
                self._report.note(f"summary {node.id} is not smaller than what it was made from")
            item = self.publish(writer, publication)
            context.replace(items, item)
            context.placed[node.id] = item
        return left

    def _lift(
        self,
        writer: Writer,
        conversation: Conversation,
        source: SummaryNode,
        below: int,
        context: _Context,
        at: int,
    ) -> str:
        """Puts summaries of the same words over a source until it lies right below a depth; returns the topmost's id."""
        top = source.id
        for depth in range(source.depth + 1, below):
            node = replace(
                source, id=f"{source.id}@{depth}", depth=depth, sources=(top,), fallback=True, at=at
            )
            items, _ = _place(node, context)
            item = self.publish(writer, self.publication(writer, conversation, node, items, at))
            context.replace(items, item)
            context.placed[node.id] = item
            top = node.id
        return top

    def prune(
        self, writer: Writer, conversation: Conversation, contexts: Iterable[ActiveContext], now: int
    ) -> None:
        """Removes the items from the context that the source's own context no longer held."""
        held = frozenset(one for context in contexts for one in context.ids)
        if not held:
            return
        names = {self._summary_id(one) for one in held}
        gone = [
            item.ordinal
            for item in iterate_items(writer, conversation.conversation_id)
            if (item.summary_id and item.summary_id not in names)
            or (item.message and not item.message.hidden and item.message.host_id not in held)
        ]
        if gone:
            writer.remove_items(conversation.conversation_id, gone, _PRUNED, now)
            self._report.note(
                f"{len(gone)} context items were pruned at the source and are outside the context"
            )

    def publication(
        self, reader: Reader, conversation: Conversation, node: SummaryNode, items: Sequence[Item], at: int
    ) -> Publication:
        """A node with the counts of the items that it covers here, ready to replace them."""
        conversation_id = conversation.conversation_id
        heads = [item.message for item in items if item.message]
        below = list(reader.summaries([item.summary_id for item in items if item.summary_id]).values())
        files = _file_ids(reader, [head.message_id for head in heads])
        text = self._rows.text(node.text)
        summary = Summary(
            summary_id=self._summary_id(node.id),
            conversation_id=conversation_id,
            depth=node.depth,
            content=text,
            tokens=self._engine.counter.text(text),
            earliest_at=min([*(head.created_at for head in heads), *(one.earliest_at for one in below)]),
            latest_at=max([*(head.created_at for head in heads), *(one.latest_at for one in below)]),
            first_seq=min([*(head.seq for head in heads), *(one.first_seq for one in below)]),
            last_seq=max([*(head.seq for head in heads), *(one.last_seq for one in below)]),
            descendant_count=len(heads) + sum(one.descendant_count + 1 for one in below),
            message_count=len(heads) + sum(one.message_count for one in below),
            source_tokens=sum(item.tokens for item in items),
            message_tokens=sum(head.tokens for head in heads) + sum(one.message_tokens for one in below),
            level="normal",
            model=node.model,
            prompt_version=f"{self._format} {node.id}",
            fallback=node.fallback,
            created_at=at,
            file_ids=tuple(dict.fromkeys([*files, *(file for one in below for file in one.file_ids)])),
        )
        zone = self._engine.config.timezone
        cost = summary_tokens(summary, [item.ref for item in items], zone, self._engine.counter)
        current = reader.conversation(conversation_id)
        assert current is not None
        return Publication(summary, tuple(items), current.revision, cost, _REASON)

    def publish(self, writer: Writer, publication: Publication) -> Item:
        """Puts a summary in the place of its sources; returns its context item."""
        summary, cost = publication.summary, publication.item_tokens
        writer.publish(publication, summary.created_at)
        self._report.summaries += 1
        start = publication.replaces[0].ordinal
        return Item(start, "summary", cost, summary.depth, None, summary.summary_id, summary.fallback)

    def _summary_id(self, node_id: str) -> str:
        """The id under which a node is stored: the same in every run and different in every conversation."""
        digest = hashlib.sha256()
        for piece in (self._report.key, self._format, self._source, node_id):
            digest.update(piece.encode("utf-8", "replace") + b"\x00")
        return f"sum_{digest.hexdigest()[:16]}"

    def _known(self, reader: Reader, nodes: Sequence[SummaryNode]) -> Mapping[str, object]:
        ids = [self._summary_id(node.id) for node in nodes]
        return {
            key: value
            for start in range(0, len(ids), _PAGE)
            for key, value in reader.summaries(ids[start : start + _PAGE]).items()
        }

    @staticmethod
    def _aside(node: SummaryNode, why: str) -> Entry:
        """A node as a record of its own."""
        record = {
            "summary": node.text,
            "source_id": node.id,
            "depth": node.depth,
            "sources": list(node.sources),
            "why": why,
        }
        return aside(f"node:{node.id}", "compaction", {**record, **node.about}, node.at)


def _place(node: SummaryNode, context: _Context) -> tuple[list[Item], str]:
    """The items that a node replaces, or why it cannot stand in the context."""
    if not node.sources:
        return [], "its sources are not named"
    if not node.text.strip():
        return [], "it says nothing"
    over_nodes = node.depth > 0
    among = context.placed if over_nodes else context.raw
    sources = [among[source] for source in node.sources if source in among]
    sources = [item for item in sources if context.items.get(item.ordinal) is item]
    if len(sources) < len(set(node.sources)):
        return [], "some of its sources are gone, or under another summary"
    span = context.span(sources)
    chosen = {one.ordinal for one in sources}
    between = [item for item in span if item.ordinal not in chosen]
    if any(over_nodes or item.message is None or item.tokens for item in between):
        return [], "its sources are no neighbours"
    return span, ""


def _file_ids(reader: Reader, message_ids: Sequence[int]) -> list[str]:
    found: list[str] = []
    for start in range(0, len(message_ids), _PAGE):
        for row in reader.messages_by_id(message_ids[start : start + _PAGE]).values():
            found += [part.file_id for part in row.parts if part.file_id]
    return found
