"""hermes-lcm's database (``$HERMES_HOME/lcm.db``), with its DAG.

A node names its sources as a JSON list of message ids or node ids. The context of its sessions is not stored: it
is what no node covers, and the nodes that no other node was made from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.records import (
    Broken,
    Entry,
    Record,
    SourceConversation,
    SummaryNode,
    aside,
    node_depths,
    rest_of,
)
from lcm_plugin.interchange.importers.sources.hermes import ROLES, chat_message, decoded
from lcm_plugin.messages.identity import told_time
from lcm_plugin.store.foreign import ForeignDatabase
from lcm_plugin.store.session_keys import hermes_key

NAME = "hermes-lcm"
_MESSAGE = (
    "store_id", "session_id", "source", "role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp",
    "pinned",
)  # fmt: skip
_NODE = (
    "node_id", "depth", "summary", "token_count", "source_token_count", "source_ids", "source_type", "created_at",
    "earliest_at", "latest_at", "expand_hint",
)  # fmt: skip


def recognises_database(database: ForeignDatabase) -> bool:
    """Whether a database is hermes-lcm's."""
    return database.has("summary_nodes", "node_id", "source_ids") and database.has(
        "messages", "store_id", "session_id"
    )


def read(path: Path) -> Iterator[Record]:
    """The records of a database, session by session."""
    with ForeignDatabase(path) as database:
        first: dict[str, dict[str, Any]] = {}
        for row in database.rows("messages", ("session_id", "source", "timestamp"), order=("store_id",)):
            first.setdefault(str(row["session_id"]), row)
        for row in database.rows("summary_nodes", ("session_id",), order=("node_id",)):
            first.setdefault(str(row["session_id"]), {"source": "", "timestamp": None})
        for session_id, row in first.items():
            yield from _session(database, session_id, row)


def _session(database: ForeignDatabase, session_id: str, first: Mapping[str, Any]) -> Iterator[Record]:
    where = {"session_id": session_id}
    platform = "" if first["source"] in (None, "unknown") else str(first["source"])
    yield SourceConversation(
        session_id,
        key=hermes_key("", platform, session_id),
        started_at=told_time({"time": first["timestamp"]}),
        whole=True,
        about=rest_of(first, "timestamp"),
    )
    stored: dict[int, str] = {}
    for row in database.rows("messages", _MESSAGE, order=("store_id",), where=where):
        entry = _entry(row)
        stored[row["store_id"]] = entry.host_id
        yield entry
    yield from _nodes(database, where, stored)


def _entry(row: Mapping[str, Any]) -> Entry:
    source_id, at = str(row["store_id"]), told_time({"time": row["timestamp"]})
    if row["role"] not in ROLES:
        return aside(source_id, "agent", rest_of(row, "store_id"), at)
    about = {name: row[name] for name in ("source", "pinned") if row[name]}
    return Entry(source_id, chat_message(row), at, extras=(("agent", about),) if about else ())


def _nodes(
    database: ForeignDatabase, where: Mapping[str, Any], stored: Mapping[int, str]
) -> Iterator[Record]:
    rows = {
        str(row["node_id"]): row
        for row in database.rows("summary_nodes", _NODE, order=("node_id",), where=where)
    }
    over_nodes = {key: row["source_type"] == "nodes" for key, row in rows.items()}
    ids = {key: [str(one) for one in _listed(row["source_ids"])] for key, row in rows.items()}
    lineage = {key: ids[key] if over_nodes[key] else [] for key in rows}
    depths, broken = node_depths(lineage, {key for key in rows if not over_nodes[key]}, rows)
    if broken:
        yield Broken(0, f"session {where['session_id']}: {broken}")
    for key, row in rows.items():
        if over_nodes[key]:
            sources = tuple(ids[key])
        else:
            sources = tuple(stored.get(int(one), f"missing:{one}") for one in ids[key] if one.isdigit())
        hint = str(row["expand_hint"] or "")
        text = str(row["summary"] or "")
        yield SummaryNode(
            key,
            depths[key],
            f"{text}\n\n{hint}" if hint and hint not in text else text,
            sources,
            told_time({"time": row["created_at"]}),
            about=rest_of(row, "summary", "source_ids"),
        )


def _listed(text: Any) -> list[Any]:
    value = decoded(text)
    return value if isinstance(value, list) else []
