"""The chat commands ``/lcm …``: Markdown for people, data for programs."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from lcm_plugin.types import CommandResult, Reset, Session

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.sessions.lifecycle import Pruned

NAMES = ("/lcm", "/lossless")


def is_command(text: str) -> bool:
    """Whether a user's text is one of our commands."""
    words = text.split()
    return bool(words) and words[0].lower() in NAMES


def command_list() -> list[dict[str, str]]:
    """Every command with a line of help."""
    return [{"name": f"/lcm {name}".rstrip(), "help": text} for name, (_, text) in _COMMANDS.items()]


def run_command(engine: Engine, session: Session, text: str) -> CommandResult:
    """Answers a command; an unknown word gets the nearest match and the help line."""
    words = text.split()
    name = words[1].lower() if len(words) > 1 else "status"
    if name not in _COMMANDS:
        near = get_close_matches(name, _COMMANDS, n=1)
        hint = f" Did you mean `/lcm {near[0]}`?" if near else ""
        return CommandResult(f"`/lcm {name}` is not known.{hint} `/lcm help` lists what is.", ok=False)
    return _COMMANDS[name][0](engine, session, words[2:])


def apply_reset(engine: Engine, reset: Reset) -> CommandResult:
    """Carries out a host's ``/new`` or ``/reset`` and says what was kept."""
    if reset.kind == "new":
        return _describe_new(engine.new_session(reset.session, reset.retain_depth))
    archived = engine.reset_session(reset.session)
    if archived is None:
        return CommandResult("There was nothing to reset.", {"archived": None})
    return CommandResult(
        f"Conversation {archived.conversation_id} with {archived.message_count} messages is archived; "
        "a fresh one begins. The old one can still be searched with a wider scope.",
        {"archived": archived.conversation_id, "messages": archived.message_count},
    )


def _describe_new(pruned: Pruned) -> CommandResult:
    data = {
        "kept_summaries": pruned.kept_summaries,
        "dropped_summaries": pruned.dropped_summaries,
        "dropped_messages": pruned.dropped_messages,
        "kept_tokens": pruned.kept_tokens,
    }
    if pruned.kept_tokens == 0:
        text = "Nothing is carried over into the new session; everything stays stored and searchable."
    else:
        text = f"{pruned.kept_summaries} summaries ({pruned.kept_tokens} tokens) are carried over."
    dropped = pruned.dropped_messages + pruned.dropped_summaries
    if dropped:
        text += f" {dropped} items left the context; `/lcm undo` brings them back."
    return CommandResult(text, data)


def _status(engine: Engine, session: Session, words: list[str]) -> CommandResult:
    with engine.store.read() as reader:
        total = reader.status()
        conversation = reader.find_conversation(session) if session.key or session.id else None
        debt = reader.debt(conversation.conversation_id) if conversation else None
        depths = reader.summary_counts(conversation.conversation_id) if conversation else {}
    data: dict[str, Any] = {
        "version": _version(),
        "enabled": engine.config.enabled,
        "database": total.location,
        "size_bytes": total.size_bytes,
        "conversations": total.conversations,
        "messages": total.messages,
        "summaries_by_depth": dict(total.summaries_by_depth),
    }
    lines = [
        f"**lcm {data['version']}** {'enabled' if data['enabled'] else 'disabled'}",
        f"- database: {total.location} ({_size(total.size_bytes)})",
        f"- conversations: {total.conversations}, messages: {total.messages:,}",
        f"- summaries: {_depths(total.summaries_by_depth)}",
    ]
    if conversation is not None:
        data["session"] = {
            "conversation_id": conversation.conversation_id,
            "messages": conversation.message_count,
            "context_tokens": conversation.context_tokens,
            "raw_messages": conversation.raw_items,
            "summaries_in_context": conversation.summary_items,
            "summaries_by_depth": depths,
            "covered_messages": conversation.message_count - conversation.raw_items,
            "compaction": debt.state if debt else "none",
            "compaction_reason": debt.reason if debt else "",
        }
        lines += [
            f"- this session: {conversation.message_count:,} messages, "
            f"{conversation.message_count - conversation.raw_items:,} of them in summaries ({_depths(depths)})",
            f"- its context: {conversation.context_tokens:,} tokens = {conversation.summary_items} summaries "
            f"({conversation.summary_tokens:,}) + {conversation.raw_items} messages ({conversation.raw_tokens:,})",
            f"- compaction: {debt.state + ' (' + debt.reason + ')' if debt else 'nothing owed'}",
        ]
    return CommandResult("\n".join(lines), data)


def _help(engine: Engine, session: Session, words: list[str]) -> CommandResult:
    lines = [f"- `{entry['name']}` {entry['help']}" for entry in command_list()]
    return CommandResult("\n".join(["**Commands**", *lines]), {"commands": command_list()})


def _compact(engine: Engine, session: Session, words: list[str]) -> CommandResult:
    result = engine.compact(session, force=True)
    text = (
        f"Compaction: {result.reason}. {result.passes} passes, "
        f"{result.tokens_before:,} -> {result.tokens_after:,} tokens in the context."
    )
    return CommandResult(
        text,
        {
            "compacted": result.compacted,
            "reason": str(result.reason),
            "passes": result.passes,
            "tokens_before": result.tokens_before,
            "tokens_after": result.tokens_after,
        },
    )


def _undo(engine: Engine, session: Session, words: list[str]) -> CommandResult:
    restored = engine.undo_new(session)
    if restored:
        return CommandResult(f"{restored} items are back in the context.", {"restored": restored})
    return CommandResult(
        "There is nothing to undo: no /new, or the context changed since.", {"restored": 0}, ok=False
    )


_COMMANDS: dict[str, tuple[Callable[[Engine, Session, list[str]], CommandResult], str]] = {
    "status": (_status, "what is stored, what the context holds, what is owed"),
    "help": (_help, "this list"),
    "compact": (_compact, "summarise older messages now"),
    "undo": (_undo, "bring back what the last /new took out of the context"),
}


def _depths(counts: Any) -> str:
    return ", ".join(f"{count} at depth {depth}" for depth, count in sorted(counts.items())) or "none"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return ""


def _version() -> str:
    try:
        return version("lcm_plugin")
    except PackageNotFoundError:
        from lcm_plugin import __version__

        return __version__
