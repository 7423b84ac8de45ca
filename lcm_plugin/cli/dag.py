"""Drawing the DAG as a tree that fits on a screen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from lcm_plugin.library import Node
from lcm_plugin.store.records import Summary, message_ref

if TYPE_CHECKING:
    from rich.tree import Tree

_STYLES = ("green", "cyan", "magenta", "yellow", "blue")


def draw(title: str, nodes: Sequence[Node], *, children: int = 6) -> Tree:
    """The context's items as a tree; of long rows the first and last ones, at most ``children`` in all."""
    from rich.tree import Tree

    tree = Tree(title, guide_style="dim")
    for summarised, run in groupby(nodes, lambda node: node.summary is not None):
        if summarised:
            _hang(tree, list(run), children)
        else:
            tree.add(_raw_line(list(run)))
    return tree


def is_balanced(nodes: Sequence[Node]) -> bool:
    """Whether under each root all leaves lie at equal depth, as the algorithm promises."""
    return all(_even(node) for node in nodes if node.summary is not None)


def summary_line(summary: Summary) -> str:
    """One node: id, what it covers, and from how many tokens to how many."""
    style = _STYLES[min(summary.depth, len(_STYLES) - 1)]
    kind = "leaf" if summary.depth == 0 else f"depth {summary.depth}"
    return (
        f"[{style}]{summary.summary_id}[/{style}] {kind} · {_span(summary.earliest_at, summary.latest_at)} · "
        f"{summary.message_count:,} messages · {summary.message_tokens:,} → {summary.tokens:,} tokens"
    )


def _even(node: Node) -> bool:
    heights = {source.height for source in node.sources}
    return len(heights) <= 1 and heights <= {node.height - 1} and all(map(_even, node.sources))


def _hang(tree: Tree, nodes: Sequence[Node], children: int) -> None:
    head, hidden, tail = _shortened(nodes, children)
    for node in head:
        _hang_one(tree, node, children)
    if hidden:
        tree.add(f"[dim]… {len(hidden):,} more, {_messages(hidden):,} messages[/dim]")
    for node in tail:
        _hang_one(tree, node, children)


def _hang_one(tree: Tree, node: Node, children: int) -> None:
    if node.summary is None:
        return
    branch = tree.add(summary_line(node.summary))
    _hang(branch, node.sources, children)
    if node.message_ids:
        first, last = message_ref(node.message_ids[0]), message_ref(node.message_ids[-1])
        branch.add(f"[dim]{first} … {last}[/dim]")


def _shortened(nodes: Sequence[Node], children: int) -> tuple[Sequence[Node], Sequence[Node], Sequence[Node]]:
    if len(nodes) <= children:
        return nodes, (), ()
    head = children - children // 3
    tail = children - head
    return nodes[:head], nodes[head:-tail], nodes[-tail:]


def _messages(nodes: Sequence[Node]) -> int:
    return sum(node.summary.message_count for node in nodes if node.summary is not None)


def _raw_line(nodes: Sequence[Node]) -> str:
    heads = [node.message for node in nodes if node.message is not None]
    tokens = sum(head.tokens for head in heads)
    if len(heads) == 1:
        return f"{heads[0].ref} {heads[0].role}, as it was · {tokens:,} tokens"
    return f"{heads[0].ref} … {heads[-1].ref} · {len(heads):,} messages as they were · {tokens:,} tokens"


def _span(first: int, last: int) -> str:
    start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (first, last))
    if start.date() == end.date():
        return f"{start:%d %b %H:%M}–{end:%H:%M}"
    return f"{start:%d %b %H:%M}–{end:%d %b %H:%M}"
