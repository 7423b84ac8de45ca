"""``/lcm tree``: the DAG of a session, drawn with text, as deep as fits on a screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.texts import FAILED, NOOP, moment
from lcm_plugin.messages.markup import shorten_ids
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Item, Summary, message_ref
from lcm_plugin.text import plural
from lcm_plugin.types import CommandResult, Session

_LINES = 40
_MOST_ITEMS = 2_000
_MOST_BRANCHES = 8


@dataclass(slots=True)
class _Node:
    """A line of the drawing with the lines below it."""

    line: str
    summary: Summary | None = None
    below: list[_Node] = field(default_factory=list)


def tree(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """The context's items with the summaries' sources below them, or one summary's."""
    with engine.store.read() as reader:
        conversation = engine.sessions.conversation(reader, session)
        if conversation is None or conversation.message_count == 0:
            return CommandResult("There is nothing to draw yet.", {"outcome": NOOP, "items": []})
        zone = engine.config.timezone
        if words:
            summary = reader.summaries([words[0]]).get(words[0])
            if summary is None or summary.conversation_id != conversation.conversation_id:
                shown = words[0][:40].replace("`", "'")
                text = f"There is no summary `{shown}` in this conversation."
                return CommandResult(text, {"outcome": FAILED}, ok=False)
            top, title = [_of(summary, zone)], f"{summary.summary_id} and what it was made of"
        else:
            items = reader.oldest_items(conversation.conversation_id, limit=_MOST_ITEMS)
            rest = conversation.raw_items + conversation.summary_items - len(items)
            top = list(_top(reader, items, zone)) + (
                [_Node(f"… {plural(rest, 'item')} more")] if rest else []
            )
            title = f"the context of conversation {conversation.conversation_id}"
        _grow(reader, top, zone)
    drawing = "\n".join([title, *_draw(top)])
    return CommandResult(
        f"```\n{drawing}\n```", {"conversation_id": conversation.conversation_id, "tree": _data(top)}
    )


def _top(reader: Reader, items: Sequence[Item], zone: str) -> Iterator[_Node]:
    found = reader.summaries([item.summary_id for item in items if item.summary_id])
    for is_raw, run in groupby(items, lambda item: item.message is not None):
        if is_raw:
            rows = list(run)
            refs, tokens = [item.ref for item in rows], sum(item.tokens for item in rows)
            yield _Node(f"{_span(refs)} · {plural(len(rows), 'message')} as they were · {tokens:,} tokens")
        else:
            yield from (_of(found[str(item.summary_id)], zone) for item in run)


def _of(summary: Summary, zone: str) -> _Node:
    kind = "leaf" if summary.depth == 0 else f"depth {summary.depth}"
    times = f"{moment(summary.earliest_at, zone)} to {moment(summary.latest_at, zone)}"
    return _Node(
        f"{summary.summary_id} · {kind} · {plural(summary.message_count, 'message')} · {summary.message_tokens:,} → "
        f"{summary.tokens:,} tokens · {times}",
        summary,
    )


def _grow(reader: Reader, top: Sequence[_Node], zone: str) -> None:
    """Adds one level after another while the drawing fits; at least one below a single summary."""
    level, lines = list(top), len(top)
    while level:
        below = [(node, _sources(reader, node.summary, zone)) for node in level if node.summary is not None]
        lines += sum(min(len(nodes), _MOST_BRANCHES + 1) for _, nodes in below)
        if lines > _LINES and len(top) > 1:
            return
        for node, nodes in below:
            node.below = _shortened(nodes)
        level = [node for _, nodes in below for node in nodes]
        if lines > _LINES:
            return


def _sources(reader: Reader, summary: Summary, zone: str) -> list[_Node]:
    if summary.depth == 0:
        refs = [message_ref(number) for number in reader.source_messages(summary.summary_id)]
        return [_Node(f"{_span(refs)} · {plural(len(refs), 'message')}")]
    ids = reader.source_summaries(summary.summary_id)
    found = reader.summaries(ids)
    return [_of(found[one], zone) for one in ids if one in found]


def _shortened(nodes: list[_Node]) -> list[_Node]:
    if len(nodes) <= _MOST_BRANCHES:
        return nodes
    hidden = len(nodes) - _MOST_BRANCHES + 1
    return [*nodes[: _MOST_BRANCHES - 2], _Node(f"… {hidden:,} more"), nodes[-1]]


def _draw(nodes: Sequence[_Node], indent: str = "") -> Iterator[str]:
    for index, node in enumerate(nodes):
        last = index == len(nodes) - 1
        yield f"{indent}{'└─ ' if last else '├─ '}{node.line}"
        yield from _draw(node.below, indent + ("   " if last else "│  "))


def _span(refs: Sequence[str]) -> str:
    text = shorten_ids(refs)
    return text if len(text) <= 60 else f"{refs[0]} … {refs[-1]}"


def _data(nodes: Sequence[_Node]) -> list[dict[str, Any]]:
    return [
        {
            "line": node.line,
            **({"id": node.summary.summary_id, "depth": node.summary.depth} if node.summary else {}),
            "below": _data(node.below),
        }
        for node in nodes
    ]
