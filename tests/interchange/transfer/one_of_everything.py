"""A database with one of everything that can be stored, for whatever carries it elsewhere."""

from __future__ import annotations

import base64
from typing import Any

from messages import assistant, call, result, user
from small_talk import tool_turn, turns

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.maps.source import MapSource
from lcm_plugin.store.transfer import REMOVALS, REMOVED_MESSAGES

SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 300,
    "leaf_target_tokens": 60,
    "condensed_target_tokens": 80,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
    "large_file_token_threshold": 1_000,
}
LONG = Session("agent:main:long", "run-1")
OTHER = Session("agent:main:other", "run-2")
ODD = Session("agent:äöü:odd/key", "run-3")
PICTURE = base64.b64encode(bytes(range(256)) * 40).decode()
LOG = "".join(f"2026-01-01 12:00:{second % 60:02d} INFO request {second}\n" for second in range(900))


def picture(text: str) -> dict[str, Any]:
    block = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    return user([{"type": "text", "text": text}, block])


def fill(engine: Engine) -> None:
    """Summaries of several depths, a ``/new``, an archived run, tools, files, odd texts, debt and guards."""
    engine.ingest(LONG, turns(40))
    engine.ingest(LONG, tool_turn(7, 3, 30))
    engine.compact(LONG, force=True, budget=4_000)
    engine.assemble(LONG, 4_000)
    engine.ingest(LONG, [picture("What is this?"), assistant("A pattern."), user(LOG), assistant("A log.")])
    engine.ingest(OTHER, [*turns(6), picture("Again?"), assistant("The same.")])
    engine.reset_session(OTHER)
    engine.ingest(
        OTHER, [*turns(3, start=50), call("c-1", arguments='{"path": "a.txt"}'), result("c-1", "found")]
    )
    engine.new_session(LONG, 1)
    engine.ingest(LONG, turns(12, start=80))
    engine.compact(LONG, force=True, budget=4_000)
    odd = [
        user("nul \x00 and a lone \ud83d surrogate", id="m-1", name="Zoë"),
        assistant("\u2028 'quotes' \\ 😀"),
    ]
    engine.ingest(ODD, odd)
    engine.pin(LONG, "Prices are in euros.")
    newest = next(item.id for item in engine.context_items(LONG) if item.kind == "summary")
    engine.summary_texts.edit(
        newest, "Notes on harbour, lantern, copper and ferry, in a person's own words.", "ann"
    )
    engine.pin(LONG, "msg_2")
    engine.maps.create(LONG, MapSource(ids=["msg_1-msg_3"]), "Is it a question?", {"type": "boolean"})
    with engine.store.write() as writer:
        conversation = writer.find_conversation(OTHER)
        assert conversation is not None
        writer.request_compaction(
            conversation.conversation_id, "over_threshold", 4_000, engine.clock(), model="m"
        )
        removed = writer.heads(conversation.conversation_id, limit=1)[0]
        writer.load_rows(REMOVALS, [(1, 12, 1, 1, 0, 0, 9, "redact", "a person")])
        writer.load_rows(
            REMOVED_MESSAGES, [(conversation.conversation_id, removed.message_id, 1, -(2**62), False)]
        )
        writer.save_guard(
            "circuit:m", {"open_until": 12, "share": 0.5, "why": "ok", "nested": {"b": 1.0, "a": [1]}}
        )


def open_engine(database: str, **settings: Any) -> Engine:
    return Engine.open(LcmConfig(database=database, **{**SETTINGS, **settings}))
