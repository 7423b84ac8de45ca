"""The tree: the context's items, what is below each summary, and what the summaries cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby, islice
from typing import Any

from lcm_plugin.store.protocol import Reader, iterate_items
from lcm_plugin.store.records import Conversation, Item, Summary, message_ref
from lcm_plugin.text import first_line

MOST_ITEMS = 2_000
_LINE = 140


def tree(reader: Reader, conversation: Conversation) -> dict[str, Any]:
    """The top of the tree: summaries one by one, messages between them as runs; and what is being done to it."""
    first = list(islice(iterate_items(reader, conversation.conversation_id), MOST_ITEMS))
    items = [item for item in first if not item.hidden]
    found = reader.summaries([item.summary_id for item in items if item.summary_id])
    nodes: list[dict[str, Any]] = []
    for is_raw, group in groupby(items, lambda item: item.message is not None):
        run = list(group)
        nodes += [_run(run)] if is_raw else [_node(found[str(item.summary_id)], item.tokens) for item in run]
    debt = reader.debt(conversation.conversation_id)
    return {
        "nodes": nodes,
        "left_out": conversation.raw_items + conversation.summary_items - len(first),
        "tokens": conversation.context_tokens,
        "by_depth": {
            str(depth): n for depth, n in reader.summary_counts(conversation.conversation_id).items()
        },
        "running": bool(debt and debt.owner),
        "owed": debt.reason.replace("_", " ") if debt and debt.state not in ("done", "running") else "",
        "bill": [asdict(line) for line in reader.summary_bill(conversation.conversation_id)],
    }


def below(reader: Reader, summary: Summary) -> list[dict[str, Any]]:
    """What a summary was made of: summaries one by one, messages as one run."""
    if summary.depth > 0:
        ids = reader.source_summaries(summary.summary_id)
        found = reader.summaries(ids)
        return [_node(found[one], found[one].tokens) for one in ids if one in found]
    ids_below = reader.source_messages(summary.summary_id)
    if not ids_below:
        return []
    return [
        {
            "kind": "messages",
            "first": message_ref(ids_below[0]),
            "last": message_ref(ids_below[-1]),
            "messages": len(ids_below),
            "tokens": summary.source_tokens,
        }
    ]


def _node(summary: Summary, tokens: int) -> dict[str, Any]:
    return {
        "kind": "summary",
        "id": summary.summary_id,
        "depth": summary.depth,
        "tokens": tokens,
        "messages": summary.message_count,
        "covered": summary.message_tokens,
        "from": summary.earliest_at,
        "to": summary.latest_at,
        "model": summary.model,
        "level": summary.level,
        "fallback": summary.fallback,
        "made_ms": summary.made_ms,
        "text": first_line(summary.content, _LINE),
    }


def _run(items: Sequence[Item]) -> dict[str, Any]:
    return {
        "kind": "messages",
        "first": items[0].ref,
        "last": items[-1].ref,
        "messages": len(items),
        "tokens": sum(item.tokens for item in items),
    }
