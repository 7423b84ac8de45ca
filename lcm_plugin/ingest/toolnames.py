"""The name of the tool that a result comes from, which most results do not say themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import CallRow, NewMessage, Part


def name_results(
    reader: Reader, conversation_id: int, rows: Sequence[NewMessage], recent: Sequence[CallRow]
) -> list[NewMessage]:
    """The rows with the tool's name in each result whose call is among ``recent``, stored before."""
    wanted = {part.tool_call_id for row in rows if row.answers for part in row.parts if _is_unnamed(part)}
    seqs = [row.seq for row in recent if not wanted.isdisjoint(row.calls)]
    if not seqs:
        return list(rows)
    calling = reader.messages_at(conversation_id, seqs)
    # Ids made by a model recur: the newest call counts.
    names = {
        part.tool_call_id: part.tool_name
        for message in sorted(calling, key=lambda message: message.head.seq)
        for part in message.parts
        if part.tool_name
    }
    return [
        replace(row, parts=tuple(_named(part, names) for part in row.parts))
        if any(map(_is_unnamed, row.parts))
        else row
        for row in rows
    ]


def _is_unnamed(part: Part) -> bool:
    return part.type == "tool" and part.tool_call_id is not None and not part.tool_name


def _named(part: Part, names: Mapping[str | None, str | None]) -> Part:
    return replace(part, tool_name=names.get(part.tool_call_id)) if _is_unnamed(part) else part
