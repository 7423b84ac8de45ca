"""``/new`` and ``/reset``: carries them out for a host, and previews them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.texts import DONE, FAILED, NOOP
from lcm_plugin.errors import InputError
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.lifecycle import Pruned
from lcm_plugin.text import plural
from lcm_plugin.types import CommandResult, Reset, Session

_STAYS = "Everything stays stored and searchable."


def apply_reset(engine: EngineFacade, reset: Reset) -> CommandResult:
    """Carries out a host's ``/new`` or ``/reset`` and reports what was kept."""
    if reset.kind not in ("new", "reset"):
        raise InputError(f"kind must be new or reset, not {reset.kind!r}")
    access = engine.access(reset.session)
    if access is not Access.FULL:
        return CommandResult(f"Nothing to do: the session is {access}.", {"outcome": NOOP})
    if reset.kind == "new":
        pruned = engine.new_session(reset.session, reset.retain_depth)
        outcome = DONE if pruned.dropped_messages or pruned.dropped_summaries else NOOP
        return CommandResult(_new_text(pruned, done=True), {"outcome": outcome, **asdict(pruned)})
    archived = engine.reset_session(reset.session)
    if archived is None:
        return CommandResult("There was nothing to reset.", {"outcome": NOOP, "archived": None})
    return CommandResult(
        f"Conversation {archived.conversation_id} with {plural(archived.message_count, 'message')} is archived, and "
        "a fresh one begins. The old one stays stored; only a search beyond this conversation finds it.",
        {"outcome": DONE, "archived": archived.conversation_id, "messages": archived.message_count},
    )


def preview_new(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Previews ``/new``."""
    depth = _depth(words[0]) if words else None
    if words and depth is None:
        text = f"The depth is -1 (keep all), 0 (keep all summaries) or the least depth to keep, not `{words[0][:20]}`."
        return CommandResult(text, {"outcome": FAILED}, ok=False)
    pruned = engine.preview_new(session, depth)
    return CommandResult(_new_text(pruned, done=False), {"outcome": NOOP, **asdict(pruned)})


def preview_reset(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Previews ``/reset``."""
    with engine.store.read() as reader:
        found = engine.sessions.conversation(reader, session)
    if found is None or found.message_count == 0:
        return CommandResult(
            "`/reset` would change nothing: there is nothing yet.", {"outcome": NOOP, "messages": 0}
        )
    text = (
        f"`/reset` would archive this conversation with {plural(found.message_count, 'message')} and begin a fresh "
        "one without any of it. The old one would stay stored; only a search beyond this conversation would find it."
    )
    data: dict[str, Any] = {
        "outcome": NOOP,
        "archived": found.conversation_id,
        "messages": found.message_count,
    }
    return CommandResult(text, data)


def _new_text(pruned: Pruned, *, done: bool) -> str:
    left = pruned.dropped_messages + pruned.dropped_summaries
    if pruned.kept_tokens == 0 and left == 0:
        return "There is nothing in the context yet." if not done else "There was nothing in the context."
    lead = "" if done else "`/new` would do this: "
    kept = _kept(pruned)
    if left == 0:
        return f"{lead}{kept} Nothing leaves the context."
    goes = f"{_what(pruned.dropped_messages, pruned.dropped_summaries)} ({pruned.dropped_tokens:,} tokens) "
    verb = "left" if done else "would leave"
    undo = " `/lcm undo` brings them back, until the next compaction." if done else ""
    return f"{lead}{kept} {goes}{verb} the context. {_STAYS}{undo}"


def _kept(pruned: Pruned) -> str:
    if pruned.kept_tokens:
        return f"{_what(pruned.kept_messages, pruned.kept_summaries)} ({pruned.kept_tokens:,} tokens) are carried over."
    if pruned.retain_depth <= 0 or pruned.deepest < 0:
        return "Nothing is carried over: there are no summaries yet."
    return (
        f"Nothing is carried over: only summaries of depth {pruned.retain_depth} or more would be, and the deepest one "
        f"has depth {pruned.deepest}."
    )


def _what(messages: int, summaries: int) -> str:
    parts = [plural(messages, "message")] if messages else []
    return " and ".join([*parts, *([plural(summaries, "summary")] if summaries else [])])


def _depth(word: str) -> int | None:
    try:
        depth = int(word)
    except ValueError:
        return None
    return depth if depth >= -1 else None
