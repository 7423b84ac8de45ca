"""``/lcm status``: reads counters only, so that it is as fast on a large database as on a small one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import lcm_plugin
from lcm_plugin.commands.counting import WINDOW_WORDS, counting, counting_text, window_source
from lcm_plugin.commands.texts import depths, inline, moment, size
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.kinds import find_conversation
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation
from lcm_plugin.text import plural
from lcm_plugin.types import CommandResult, Session

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

_MOST_SUMMARIES = 1_000
_SELECTED = {
    True: "used by the host",
    False: "**not used by the host**: it has selected another context engine",
    None: "no host has asked for a context yet",
}


def status(engine: Engine, session: Session, words: list[str]) -> CommandResult:
    """What is stored, what the context holds, what is owed, what went wrong last."""
    with engine.store.read() as reader:
        data = _whole(engine, reader)
        data["session"] = _session(engine, reader, session)
    own = data["session"]
    data["last_error"] = engine.troubles.of(own.get("key", session.key), own.get("conversation_id"))
    lines = _whole_lines(data) + _session_lines(data["session"], engine.config.timezone)
    lines.append(_trouble_line(data["last_error"], engine.config.timezone))
    return CommandResult("\n".join(lines), data)


def _whole(engine: Engine, reader: Reader) -> dict[str, Any]:
    total, index = reader.status(), reader.index_state()
    return {
        "version": lcm_plugin.__version__,
        "enabled": engine.config.enabled,
        "selected_by_host": engine.selected_by_host,
        "database": total.location,
        "size_bytes": total.size_bytes,
        "conversations": total.conversations,
        "active_conversations": total.active_conversations,
        "messages": total.messages,
        "summaries_by_depth": dict(total.summaries_by_depth),
        "index": asdict(index),
        "counting": counting(engine),
    }


def _session(engine: Engine, reader: Reader, session: Session) -> dict[str, Any]:
    if not session.key and not session.id:
        return {"state": "unbound"}
    access = engine.gate.access(session, reader)
    if access is Access.NONE:
        return {"state": "ignored"}
    keyed = Session(engine.gate.key_of(session, reader), session.id)
    conversation = find_conversation(reader, keyed)
    if conversation is None:
        return {"state": "empty", "key": keyed.key}
    data = {"state": "stateless" if access is Access.READ_ONLY else "stored", "key": keyed.key}
    return data | _history(engine, reader, conversation) | _owed(engine, reader, conversation)


def _history(engine: Engine, reader: Reader, conversation: Conversation) -> dict[str, Any]:
    number = conversation.conversation_id
    items = reader.summary_items(number, limit=_MOST_SUMMARIES)
    found = reader.summaries([str(item.summary_id) for item in items]).values()
    covered_tokens = sum(summary.message_tokens for summary in found)
    frontier = reader.oldest_raw_items(number, limit=1)
    return {
        "conversation_id": number,
        "messages": conversation.message_count,
        "summaries_by_depth": reader.summary_counts(number),
        "fallback_summaries": reader.fallback_count(number),
        "context_tokens": conversation.context_tokens,
        "summaries_in_context": conversation.summary_items,
        "summary_tokens": conversation.summary_tokens,
        "raw_messages": conversation.raw_items,
        "raw_tokens": conversation.raw_tokens,
        "covered_messages": sum(summary.message_count for summary in found),
        "covered_tokens": covered_tokens,
        "compression_ratio": (
            round(covered_tokens / conversation.summary_tokens, 1) if conversation.summary_tokens else None
        ),
        "frontier": frontier[0].ref if frontier else None,
        "undoable_new": reader.undoable(number),
        "undoable_compaction": engine.undoable_compaction(reader, number),
    }


def _owed(engine: Engine, reader: Reader, conversation: Conversation) -> dict[str, Any]:
    debt = reader.debt(conversation.conversation_id)
    limits = engine.known_limits(reader, conversation)
    call = engine.last_call(conversation.conversation_id)
    guards = engine.summarizer.status(conversation.session_key)
    now = engine.clock()
    return {
        "budget": engine.config.budget(limits.call.budget),
        "window_source": window_source(engine, call) if call else None,
        "counting": counting(engine, limits.call),
        "threshold_tokens": limits.soft,
        "compaction": {
            "state": debt.state if debt else "none",
            "reason": debt.reason if debt else "",
            "requested_at": debt.requested_at if debt else None,
            "next_attempt_at": debt.next_attempt_at if debt and debt.next_attempt_at > now else None,
            "last_error": debt.last_error if debt else "",
        },
        "guards": {
            "paused_models": [model for model in guards["models"] if model["open_until"] > now],
            "spend_paused_until": max(0, guards["spend"]["paused_until"] - now)
            and guards["spend"]["paused_until"],
            "calls_in_window": guards["spend"]["calls"],
        },
    }


def _whole_lines(data: dict[str, Any]) -> list[str]:
    enabled = "enabled" if data["enabled"] else "**disabled**"
    index = data["index"]
    lag = index["message_lag"] + index["summary_lag"]
    if not index["available"]:
        search = "not available in this database; searches read the texts themselves"
    elif not index["usable"]:
        search = "not built yet; the next search builds it"
    else:
        search = f"{plural(lag, 'row')} waiting" if lag else "up to date"
    return [
        f"**lcm {data['version']}** is {enabled}, {_SELECTED[data['selected_by_host']]}",
        f"- database: `{data['database']}`, {size(data['size_bytes'])}",
        f"- stored in all: {plural(data['messages'], 'message')} in {plural(data['conversations'], 'conversation')}; "
        f"summaries: {depths(data['summaries_by_depth'])}",
        f"- search index: {search}",
        f"- tokens: {counting_text(data['session'].get('counting') or data['counting'])}",
    ]


def _session_lines(data: dict[str, Any], zone: str) -> list[str]:
    if data["state"] == "unbound":
        return ["- this chat: not bound to a session yet; nothing is stored of it"]
    if data["state"] == "ignored":
        return ["- this session: ignored by `ignoreSessionPatterns`; nothing of it is stored or read"]
    if data["state"] == "empty":
        return ["- this session: nothing stored yet"]
    stateless = " (stateless: it is read and never written)" if data["state"] == "stateless" else ""
    share = round(100 * data["context_tokens"] / data["budget"])
    return [
        f"- this session: conversation {data['conversation_id']} with {plural(data['messages'], 'message')}{stateless}",
        f"- context: {data['context_tokens']:,} tokens, {share} % of the budget of {data['budget']:,}; compaction is owed "
        f"above {data['threshold_tokens']:,}",
        *([f"- window: {WINDOW_WORDS[data['window_source']]}"] if data["window_source"] else []),
        f"- of these: {plural(data['summaries_in_context'], 'summary')} ({data['summary_tokens']:,} tokens) and "
        f"{plural(data['raw_messages'], 'message')} as they were ({data['raw_tokens']:,})",
        *_summary_lines(data),
        f"- compaction: {_compaction(data['compaction'], zone)}",
        f"- guards: {_guards(data['guards'], zone)}",
        *(["- the last `/new` can be undone: `/lcm undo`"] if data["undoable_new"] else []),
        *(["- the last compaction can be undone: `/lcm undo`"] if data["undoable_compaction"] else []),
    ]


def _summary_lines(data: dict[str, Any]) -> list[str]:
    if not data["summaries_by_depth"]:
        return ["- summaries: none yet"]
    fallback = data["fallback_summaries"]
    health = f"{fallback:,} by extraction because a model failed" if fallback else "all as intended"
    lines = [f"- summaries: {depths(data['summaries_by_depth'])}; {health}"]
    if data["compression_ratio"]:
        lines.append(
            f"- covered: {plural(data['covered_messages'], 'message')}, {data['covered_tokens']:,} tokens in "
            f"{data['summary_tokens']:,} ({data['compression_ratio']} : 1); from {data['frontier'] or 'the next message'} "
            "on as they were"
        )
    return lines


def _compaction(data: dict[str, Any], zone: str) -> str:
    if data["state"] in ("none", "done"):
        last = f" (last: {data['reason'].replace('_', ' ')})" if data["reason"] else ""
        return f"nothing owed{last}"
    text = f"{data['state']}, because of {data['reason'].replace('_', ' ') or 'a request'}"
    text += f", since {moment(data['requested_at'], zone)}"
    if data["next_attempt_at"]:
        text += f"; next try {moment(data['next_attempt_at'], zone)}"
    return text + (f"; last error: {inline(data['last_error'])}" if data["last_error"] else "")


def _guards(data: dict[str, Any], zone: str) -> str:
    parts = [
        f"model {inline(model['model'])} rests until {moment(model['open_until'], zone)} after {model['reason']}"
        for model in data["paused_models"]
    ]
    if data["spend_paused_until"]:
        parts.append(f"summary calls rest until {moment(data['spend_paused_until'], zone)}")
    return "; ".join(parts) or "no pause"


def _trouble_line(trouble: dict[str, Any] | None, zone: str) -> str:
    if trouble is None:
        return "- last error: none since the start"
    return f"- last error: {inline(trouble['text'])} ({moment(trouble['at'], zone)})"
