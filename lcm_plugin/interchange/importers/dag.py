"""The DAG of a source over messages that were just stored: leaves first, each level over the one below.

A summary takes its place only where this package's own could stand: over neighbours in the context, of one depth.
What is hidden between a leaf's messages goes with them. Any other summary is kept as a record of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lcm_plugin.engine import Engine
from lcm_plugin.interchange.importers.folds import imported_summary_id, item_cost, publish, summary_over
from lcm_plugin.interchange.importers.records import Entry, Node, Standing, aside
from lcm_plugin.interchange.importers.report import LaneReport
from lcm_plugin.interchange.importers.rows import EntryRows
from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.records import Conversation, Item

_PAGE = 500
PRUNED = "pruned at the source"


@dataclass(slots=True)
class _Context:
    """A conversation's context in memory: its items in order, and where the source's ids are among them."""

    ordinals: list[int] = field(default_factory=list)
    items: dict[int, Item] = field(default_factory=dict)
    raw: dict[str, Item] = field(default_factory=dict)
    placed: dict[str, Item] = field(default_factory=dict)

    @classmethod
    def read(cls, reader: Reader, conversation_id: int) -> _Context:
        """The context as it stands."""
        context = cls()
        after = 0
        while page := reader.oldest_items(conversation_id, after=after, limit=_PAGE):
            for item in page:
                context.ordinals.append(item.ordinal)
                context.items[item.ordinal] = item
                if item.message and item.message.host_id:
                    context.raw[item.message.host_id] = item
            after = page[-1].ordinal
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


class Weaver:
    """Places the summaries of one lane, in the transaction that stored its messages."""

    def __init__(
        self, engine: Engine, format_name: str, source_id: str, report: LaneReport, rows: EntryRows
    ) -> None:
        self._engine = engine
        self._format = format_name
        self._source = source_id
        self._report = report
        self._rows = rows

    def weave(
        self, writer: Writer, conversation: Conversation, nodes: Sequence[Node], default_at: int
    ) -> list[Entry]:
        """Places what can be placed; returns a record for each of the others."""
        known = self._known(writer, nodes)
        asides = {self.aside(node, "").host_id: node.id for node in nodes}
        kept = writer.known_host_ids([conversation.conversation_id], list(asides))
        set_aside = {asides[host_id] for host_id in kept}
        context = _Context.read(writer, conversation.conversation_id)
        by_summary = {item.summary_id: item for item in context.items.values() if item.summary_id}
        depths = {node.id: node.depth for node in nodes}
        left: list[Entry] = []
        for node in sorted(nodes, key=lambda one: one.depth):
            summary_id = self.summary_id(node.id)
            if summary_id in known or node.id in set_aside:
                if summary_id in by_summary:
                    context.placed[node.id] = by_summary[summary_id]
                continue
            items, why_not = self._place(node, context, depths)
            if why_not:
                self._report.note(f"summary {node.id}: {why_not}; kept as a record")
                left.append(self.aside(node, why_not))
            else:
                self._publish(writer, conversation, node, items, context, default_at)
        return left

    def prune(
        self, writer: Writer, conversation: Conversation, standing: Iterable[Standing], now: int
    ) -> None:
        """Takes out of the context what the source's own context no longer held."""
        held = frozenset(one for part in standing for one in part.ids)
        if not held:
            return
        context = _Context.read(writer, conversation.conversation_id)
        names = {self.summary_id(one) for one in held}
        gone = [
            item.ordinal
            for item in context.items.values()
            if (item.summary_id and item.summary_id not in names)
            or (item.message and not item.message.hidden and item.message.host_id not in held)
        ]
        if gone:
            writer.remove_items(conversation.conversation_id, sorted(gone), PRUNED, now)
            self._report.note(
                f"{len(gone)} context items were pruned at the source and are outside the context"
            )

    def summary_id(self, node_id: str) -> str:
        """The id under which a node is stored."""
        return imported_summary_id(self._report.key, self._format, self._source, node_id)

    def aside(self, node: Node, why: str) -> Entry:
        """A node as a record of its own."""
        told = {
            "summary": node.text,
            "source_id": node.id,
            "depth": node.depth,
            "sources": list(node.sources),
        }
        return aside(f"node:{node.id}", "compaction", {**told, "why": why, **node.about}, node.at)

    def _known(self, reader: Reader, nodes: Sequence[Node]) -> Mapping[str, object]:
        ids = [self.summary_id(node.id) for node in nodes]
        return {
            key: value
            for start in range(0, len(ids), _PAGE)
            for key, value in reader.summaries(ids[start : start + _PAGE]).items()
        }

    @staticmethod
    def _place(node: Node, context: _Context, depths: Mapping[str, int]) -> tuple[list[Item], str]:
        """The items that a node replaces, or why it cannot stand in the context."""
        if not node.sources:
            return [], "its sources are not named"
        if not node.text.strip():
            return [], "it says nothing"
        over_nodes = node.depth > 0
        if over_nodes and {depths.get(source) for source in node.sources} != {node.depth - 1}:
            return [], "its sources have different depths"
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

    def _publish(
        self,
        writer: Writer,
        conversation: Conversation,
        node: Node,
        items: list[Item],
        context: _Context,
        default_at: int,
    ) -> None:
        counter, text = self._engine.counter, self._rows.text(node.text)
        summary = summary_over(
            writer,
            items,
            summary_id=self.summary_id(node.id),
            conversation_id=conversation.conversation_id,
            depth=node.depth,
            text=text,
            tokens=counter.text(text),
            at=default_at if node.at is None else node.at,
            model=node.model,
            origin=f"{self._format} {node.id}",
            fallback=node.fallback,
        )
        cost = item_cost(counter, summary, items, self._engine.config.timezone)
        if summary.tokens >= summary.source_tokens:
            self._report.note(f"summary {node.id} is not smaller than what it was made from")
        item = publish(writer, conversation, summary, items, cost, summary.created_at)
        context.replace(items, item)
        context.placed[node.id] = item
        self._report.summaries += 1
