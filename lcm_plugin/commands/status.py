"""``/lcm status`` and ``lcm status``: reads counters only, so that it is as fast on a large database as on a small one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lcm_plugin.assembly.nearly_full import told_in
from lcm_plugin.commands.counting import WINDOW_WORDS, counting, counting_text
from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.health import Pairs, Quote, health, health_pairs
from lcm_plugin.commands.texts import depths, moment
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.kinds import find_conversation
from lcm_plugin.sessions.names import talk_count
from lcm_plugin.sessions.pins import pins_of
from lcm_plugin.sessions.standing_rows import StandingRows
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation
from lcm_plugin.summarize.base import extracted, writer_of
from lcm_plugin.text import code, duration, inline, plural, size
from lcm_plugin.types import CommandResult, CompactionDecision, Reason, Session
from lcm_plugin.version import VERSION

_MOST_SUMMARIES = 1_000
_WORTH_TELLING_MS = 1_000
_SELECTED = {
    True: "used by the host",
    False: "**not used by the host**: it has selected another context engine",
    None: "no host has asked for a context in this process",
}
BY_HOST = {
    Reason.CAPTURE_ONLY: "by the host (`captureOnly`): stored, searched and quoted from, never compacted here",
    Reason.HOST_COMPACTS: "by the host, which said so: stored, searched and quoted from, never compacted here",
}
_NEARLY_FULL = "the newest call's context, of what cannot be compacted, which the model was told: {}"
_WITH_ERROR = frozenset({Reason.MODEL_FAILED, Reason.DEFERRED})


def status(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """The state of the store, the context, due compaction and the last failures."""
    with engine.store.read() as reader:
        data = whole_data(engine, reader)
        own, conversation = _session(engine, reader, session)
    data["session"] = own
    keyed = Session(own.get("key", session.key), session.id)
    here = None if own["state"] in ("unbound", "ignored") else keyed
    data |= health(engine, conversation, here)
    data["last_error"] = engine.recent_warnings.of(keyed.key, own.get("conversation_id"))
    zone = engine.config.timezone
    pairs = [*whole_pairs(data), *session_pairs(own, zone, inline), *health_pairs(data, zone, inline)]
    pairs.append(_warning_pair(data["last_error"], zone))
    return CommandResult("\n".join([head(data), *(f"- {name}: {text}" for name, text in pairs)]), data)


def whole_data(engine: EngineFacade, reader: Reader) -> dict[str, Any]:
    """The whole database."""
    total, index = reader.status(), reader.index_state()
    return {
        "version": VERSION,
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


def conversation_data(
    engine: EngineFacade, reader: Reader, conversation: Conversation, access: Access = Access.FULL
) -> dict[str, Any]:
    """One conversation: its history, context and due compaction."""
    key = conversation.session_key
    data: dict[str, Any] = {"state": "stateless" if access is Access.READ_ONLY else "stored", "key": key}
    data |= _history(engine, reader, conversation) | _owed(engine, reader, conversation)
    if access is Access.READ_ONLY:
        data["compaction"]["outlook"] = ""
    return data


def _session(
    engine: EngineFacade, reader: Reader, session: Session
) -> tuple[dict[str, Any], Conversation | None]:
    if not session.name:
        return {"state": "unbound"}, None
    access = engine.sessions.access(session, reader)
    if access is Access.NONE:
        return {"state": "ignored"}, None
    keyed = Session(engine.sessions.key_of(session, reader), session.id)
    conversation = find_conversation(reader, keyed)
    if conversation is None:
        return {"state": "empty", "key": keyed.key}, None
    return conversation_data(engine, reader, conversation, access) | {"key": keyed.key}, conversation


def _history(engine: EngineFacade, reader: Reader, conversation: Conversation) -> dict[str, Any]:
    number = conversation.conversation_id
    items = reader.summary_items(number, limit=_MOST_SUMMARIES)
    found = reader.summaries([str(item.summary_id) for item in items]).values()
    covered_tokens = sum(summary.message_tokens for summary in found)
    pins = pins_of(reader, conversation)
    frontier = reader.oldest_raw_items(number, limit=1)
    causes = reader.fallback_causes(number)
    cleared, cleared_tokens = reader.cleared_results(number)
    return {
        "conversation_id": number,
        "messages": talk_count(reader, conversation),
        "summaries_by_depth": reader.summary_counts(number),
        "fallback_summaries": sum(causes.values()),
        "fallback_causes": causes,
        "context_tokens": conversation.context_tokens,
        "summaries_in_context": conversation.summary_items,
        "summary_tokens": conversation.summary_tokens,
        "raw_messages": conversation.raw_items,
        "raw_tokens": conversation.raw_tokens,
        "summary_bill": [asdict(line) for line in reader.summary_bill(number)],
        "cleared_results": cleared,
        "cleared_tokens": cleared_tokens,
        "covered_messages": sum(summary.message_count for summary in found),
        "covered_tokens": covered_tokens,
        "compression_ratio": (
            round(covered_tokens / conversation.summary_tokens, 1) if conversation.summary_tokens else None
        ),
        "pins": len(pins),
        "pinned_tokens": sum(pin.tokens for pin in pins),
        "nearly_full": next((told_in(one.notices) for one in reader.sent_contexts(number, limit=1)), ""),
        "frontier": frontier[0].ref if frontier else None,
        "undoable_new": reader.undoable(number),
        "undoable_compaction": engine.compaction.last.undoable(reader, number),
        "recalled": _recalled(engine, number),
    }


def _owed(engine: EngineFacade, reader: Reader, conversation: Conversation) -> dict[str, Any]:
    debt = reader.debt(conversation.conversation_id)
    limits = engine.compaction.known_limits(reader, conversation)
    call = engine.compaction.last_call(conversation.conversation_id)
    rows = StandingRows.read(reader, conversation)
    decision = engine.compaction.assess(reader, rows, limits.call).decision
    guards = engine.summarizer.status(conversation.session_key)
    now = engine.clock()
    return {
        "budget": engine.config.budget(limits.call.budget),
        "window_source": engine.budgets.source(call) if call else None,
        "counting": counting(engine, limits.call),
        "threshold_tokens": limits.soft,
        "compaction": {
            "state": debt.state if debt else "none",
            "reason": debt.reason if debt else "",
            "due": decision.due,
            "verdict": str(decision.reason),
            "requested_at": debt.requested_at if debt else None,
            "next_attempt_at": debt.next_attempt_at if debt and debt.next_attempt_at > now else None,
            "last_error": debt.last_error if debt and debt.reason in _WITH_ERROR else "",
            "outlook": _outlook(conversation, decision),
        },
        "guards": {
            "paused_models": [model for model in guards["models"] if model["open_until"] > now],
            "spend_paused_until": max(0, guards["spend"]["paused_until"] - now)
            and guards["spend"]["paused_until"],
            "calls_in_window": guards["spend"]["calls"],
        },
    }


def _outlook(conversation: Conversation, decision: CompactionDecision) -> str:
    """The next step for a context over its threshold without recorded debt; empty for any other."""
    if not conversation.active:
        return "archived: it is compacted no more"
    if decision.left_to_host:
        return BY_HOST[decision.reason]
    if decision.due:
        return f"due ({_spaced(decision.reason)}): the next turn, `lcm worker` or `/lcm compact` starts it"
    if decision.tokens <= decision.threshold:
        return ""
    if decision.reason is Reason.DISABLED:
        return "over the threshold, and `autocompactDisabled` is set: `/lcm compact` does it"
    return "over the threshold, and nothing in it can be made smaller now"


def head(data: dict[str, Any]) -> str:
    """Version and whether it is used."""
    enabled = "enabled" if data["enabled"] else "**disabled**"
    return f"**lcm {data['version']}** is {enabled}, {_SELECTED[data['selected_by_host']]}"


def whole_pairs(data: dict[str, Any]) -> Pairs:
    """The whole database in words."""
    index = data["index"]
    lag = index["message_lag"] + index["summary_lag"]
    if not index["available"]:
        search = "not available in this database; searches read the texts themselves"
    elif not index["usable"]:
        search = "not built yet; the next search builds it"
    else:
        search = f"{plural(lag, 'row')} waiting" if lag else "up to date"
    own = data.get("session", {})
    return [
        ("database", f"{code(data['database'])}, {size(data['size_bytes'])}"),
        (
            "stored in all",
            f"{plural(data['messages'], 'message')} in {plural(data['conversations'], 'conversation')}; "
            f"summaries: {depths(data['summaries_by_depth'])}",
        ),
        ("search index", search),
        ("tokens", counting_text(own.get("counting") or data["counting"])),
    ]


def session_pairs(data: dict[str, Any], zone: str, quote: Quote) -> Pairs:
    """One session in words."""
    if data["state"] == "unbound":
        return [("this chat", "not bound to a session yet; nothing is stored of it")]
    if data["state"] == "ignored":
        return [("this session", "ignored by `ignoreSessionPatterns`; nothing of it is stored or read")]
    if data["state"] == "empty":
        return [("this session", "nothing stored yet")]
    stateless = " (stateless: it is read and never written)" if data["state"] == "stateless" else ""
    return [
        (
            "this session",
            f"conversation {data['conversation_id']} with {plural(data['messages'], 'message')}{stateless}",
        ),
        ("context", _context(data)),
        *([("window", WINDOW_WORDS[data["window_source"]])] if data["window_source"] else []),
        (
            "of these",
            f"{plural(data['summaries_in_context'], 'summary')} ({data['summary_tokens']:,} tokens) and "
            f"{plural(data['raw_messages'], 'message')} as they were ({data['raw_tokens']:,})",
        ),
        *([("nearly full", _NEARLY_FULL.format(data["nearly_full"]))] if data["nearly_full"] else []),
        *([("cleared", _cleared(data))] if data["cleared_results"] else []),
        *_summary_pairs(data),
        *([("pins", f"{data['pins']:,} ({data['pinned_tokens']:,} tokens)")] if data["pins"] else []),
        *([("recalled", _recalled_text(data["recalled"]))] if data["recalled"] else []),
        ("compaction", _compaction(data["compaction"], zone, quote)),
        ("guards", _guards(data["guards"], zone, quote)),
        *([("undo", "the last `/new` can be undone: `/lcm undo`")] if data["undoable_new"] else []),
        *(
            [("undo", "the last compaction can be undone: `/lcm undo`")]
            if data["undoable_compaction"]
            else []
        ),
    ]


def _context(data: dict[str, Any]) -> str:
    held, budget = data["context_tokens"], data["budget"]
    text = f"{held:,} tokens, {round(100 * held / budget)} % of the budget of {budget:,}"
    if held > budget:
        text += "; a model call is given the part that fits"
    return f"{text}; the threshold of compaction is {data['threshold_tokens']:,}"


def _cleared(data: dict[str, Any]) -> str:
    results = plural(data["cleared_results"], "old result")
    return f"{results} that can be read again, {data['cleared_tokens']:,} tokens less in the context"


def _recalled(engine: EngineFacade, conversation_id: int) -> dict[str, Any] | None:
    """What was quoted of old messages for the newest turn and how well it fits, or why nothing was."""
    decision = engine.active_recall.last(conversation_id)
    if decision is None:
        return None
    return {
        "messages": [passage.ref for passage in decision.passages],
        "sure": round(decision.sure, 2),
        "reason": decision.reason,
    }


def _recalled_text(recalled: dict[str, Any]) -> str:
    if not recalled["messages"]:
        return f"nothing for the newest message: {recalled['reason']}"
    held = round(100 * recalled["sure"])
    quoted = ", ".join(recalled["messages"])
    return f"{quoted} for the newest message; the best holds {held} % of what it asks about"


def _summary_pairs(data: dict[str, Any]) -> Pairs:
    if not data["summaries_by_depth"]:
        return [("summaries", "none yet")]
    health = extracted(data["fallback_causes"]) or "all as intended"
    pairs = [("summaries", f"{depths(data['summaries_by_depth'])}; {health}")]
    if data["compression_ratio"]:
        pairs.append(
            (
                "covered",
                f"{plural(data['covered_messages'], 'message')}, {data['covered_tokens']:,} tokens in "
                f"{data['summary_tokens']:,} ({data['compression_ratio']} : 1); from "
                f"{data['frontier'] or 'the next message'} on as they were",
            )
        )
    if data["summary_bill"]:
        pairs.append(("written by", "; ".join(map(_bill_line, data["summary_bill"]))))
    return pairs


def _bill_line(line: dict[str, Any]) -> str:
    who = code(line["model"]) if line["model"] else writer_of("", line["level"])
    took = f" in {duration(line['made_ms'])}" if line["made_ms"] >= _WORTH_TELLING_MS else ""
    return (
        f"{who} ({line['level']}) {plural(line['count'], 'summary')}{took}, "
        f"{line['read']:,} → {line['written']:,} tokens"
    )


def _compaction(data: dict[str, Any], zone: str, quote: Quote) -> str:
    if data["verdict"] in BY_HOST:
        return str(data["outlook"])
    if data["state"] in ("none", "done"):
        last = f" (last: {_spaced(data['reason'])})" if data["reason"] else ""
        return f"{data['outlook'] or 'nothing owed'}{last}"
    text = f"{data['state']}, because of {_spaced(data['reason']) or 'a request'}"
    text += f", since {moment(data['requested_at'], zone)}"
    if data["next_attempt_at"]:
        text += f"; next try {moment(data['next_attempt_at'], zone)}"
    return text + (f"; last error: {quote(data['last_error'])}" if data["last_error"] else "")


def _guards(data: dict[str, Any], zone: str, quote: Quote) -> str:
    parts = [
        f"model {quote(model['model'])} rests until {moment(model['open_until'], zone)} after {model['reason']}"
        for model in data["paused_models"]
    ]
    if data["spend_paused_until"]:
        parts.append(f"summary calls rest until {moment(data['spend_paused_until'], zone)}")
    return "; ".join(parts) or "no pause"


def _warning_pair(warning: dict[str, Any] | None, zone: str) -> tuple[str, str]:
    if warning is None:
        return "last warning", "none since the start"
    return f"last {warning['level']}", f"{inline(warning['text'])} ({moment(warning['at'], zone)})"


def _spaced(reason: str) -> str:
    return str(reason).replace("_", " ")
