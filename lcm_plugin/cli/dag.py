"""Draws the DAG as a tree that fits on a screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lcm_plugin.sessions.library import Node
from lcm_plugin.store.records import Summary, message_ref
from lcm_plugin.text import harmless

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.tree import Tree

_STYLES = ("green", "cyan", "magenta", "yellow", "blue", "red")


@dataclass(frozen=True, slots=True)
class Frame:
    """How much is shown: branches of each node, and levels below the context."""

    branches: int
    levels: int


def draw(
    title: str, nodes: Sequence[Node], *, branches: int = 6, levels: int | None = None, lines: int = 60
) -> Tree:
    """The context's items as a tree.

    Of long rows the first and last ``branches`` are shown. Without ``levels`` as many are shown as fit
    into some ``lines``, at least one.
    """
    from rich.tree import Tree

    frame = Frame(branches, levels or _levels_that_fit(nodes, branches, lines))
    tree = Tree(f"[bold]{_escape(title)}[/bold]", guide_style="dim")
    for summarised, run in groupby(nodes, lambda node: node.summary is not None):
        if summarised:
            _hang(tree, list(run), frame, 1)
        else:
            tree.add(_raw_line(list(run)))
    return tree


def as_data(node: Node) -> dict[str, Any]:
    """A node and all below it as JSON data."""
    if node.message is not None:
        return {"id": node.message.ref, "role": node.message.role, "tokens": node.message.tokens}
    summary = _summary(node)
    below: list[Any] = [as_data(source) for source in node.sources]
    return {
        "id": summary.summary_id,
        "depth": summary.depth,
        "tokens": summary.tokens,
        "earliest_at": summary.earliest_at,
        "latest_at": summary.latest_at,
        "messages": summary.message_count,
        "sources": below or [message_ref(number) for number in node.message_ids],
    }


def is_balanced(nodes: Sequence[Node]) -> bool:
    """Whether under each root all leaves lie at equal depth, as the algorithm promises."""
    return all(_even(node) for node in nodes if node.summary is not None)


def summary_line(node: Node) -> RenderableType:
    """One summary: id, how much it covers, from how many tokens to how many, and when; as much as fits."""
    from lcm_plugin.cli.tables import Longest

    summary = _summary(node)
    style = _STYLES[min(summary.depth, len(_STYLES) - 1)]
    kind = "leaf" if summary.depth == 0 else f"depth {summary.depth}"
    facts = [
        f"[{style}]{summary.summary_id}[/{style}] {kind}",
        f"{summary.message_count:,} messages",
        f"{summary.message_tokens:,} → {summary.tokens:,} tokens",
        f"[dim]{_span(summary.earliest_at, summary.latest_at)}[/dim]",
    ]
    return Longest([" · ".join(facts[:count]) for count in range(len(facts), 0, -1)])


def _summary(node: Node) -> Summary:
    if node.summary is None:
        raise ValueError("a raw message is no summary")
    return node.summary


def _even(node: Node) -> bool:
    heights = {source.height for source in node.sources}
    return len(heights) <= 1 and heights <= {node.height - 1} and all(map(_even, node.sources))


def _levels_that_fit(nodes: Sequence[Node], branches: int, lines: int) -> int:
    deepest = max((node.height for node in nodes), default=1)
    fitting = (
        levels for levels in range(deepest, 1, -1) if _line_count(nodes, Frame(branches, levels), 1) <= lines
    )
    return next(fitting, 1)


def _line_count(nodes: Sequence[Node], frame: Frame, level: int) -> int:
    if level > frame.levels:
        return 0
    head, hidden, tail = _shortened(nodes, frame.branches)
    return bool(hidden) + sum(1 + _line_count(node.sources, frame, level + 1) for node in (*head, *tail))


def _hang(tree: Tree, nodes: Sequence[Node], frame: Frame, level: int) -> None:
    if level > frame.levels:
        return
    head, hidden, tail = _shortened(nodes, frame.branches)
    for node in head:
        _hang(tree.add(summary_line(node)), node.sources, frame, level + 1)
    if hidden:
        messages = sum(_summary(node).message_count for node in hidden)
        tree.add(f"[dim]… {len(hidden):,} more over {messages:,} messages[/dim]")
    for node in tail:
        _hang(tree.add(summary_line(node)), node.sources, frame, level + 1)


def _shortened(nodes: Sequence[Node], branches: int) -> tuple[Sequence[Node], Sequence[Node], Sequence[Node]]:
    if len(nodes) <= branches:
        return nodes, (), ()
    tail = branches // 3
    head = branches - tail
    return nodes[:head], nodes[head : len(nodes) - tail], nodes[len(nodes) - tail :]


def _raw_line(nodes: Sequence[Node]) -> str:
    heads = [node.message for node in nodes if node.message is not None]
    tokens = sum(head.tokens for head in heads)
    if len(heads) == 1:
        return f"{heads[0].ref} · 1 message as it was · {tokens:,} tokens"
    return f"{heads[0].ref} … {heads[-1].ref} · {len(heads):,} messages as they were · {tokens:,} tokens"


def _span(first: int, last: int) -> str:
    start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (first, last))
    if start.date() == end.date():
        return f"{start:%d %b %H:%M}–{end:%H:%M}"
    return f"{start:%d %b %Y}–{end:%d %b %Y}"


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(harmless(text))
