"""Commands that change something: compact, undo, backup. Each reports its outcome in one of four words."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.status import BY_HOST
from lcm_plugin.commands.texts import DEFERRED, DONE, FAILED, NOOP
from lcm_plugin.config import checked_budget
from lcm_plugin.sessions.access import Access
from lcm_plugin.store.open import is_server
from lcm_plugin.text import inline, plural, size
from lcm_plugin.types import CommandResult, CompactionResult, Reason, Session

_SPACE_FACTOR = 1.2
_DEFERRED = frozenset({Reason.LOCKED, Reason.DEFERRED, Reason.CALLS_USED_UP, Reason.CANCELLED})
_SENTENCES = {
    DONE: "Compacted",
    NOOP: "There was nothing to compact",
    DEFERRED: "Not now: the work is kept and done later",
    FAILED: "The compaction failed; nothing was changed by the failed part",
}


def compact(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Compacts as far as it goes, for a budget if one is given; ``undo`` takes the last compaction back.

    What concerns the other words is kept in detail.
    """
    if engine.access(session) is Access.READ_ONLY:
        return CommandResult("This session is stateless: nothing of it may be written.", {"outcome": NOOP})
    if [word.lower() for word in words] == ["undo"]:
        return _undo_compaction(engine, session)
    budget, focus = _budget_and_focus(words)
    result = engine.compact(session, force=True, budget=budget, focus=focus)
    if result.reason in BY_HOST:
        return CommandResult(f"Compaction is done {BY_HOST[result.reason]}.", {"outcome": NOOP})
    outcome = _outcome(result)
    text = f"{_SENTENCES[outcome]} ({str(result.reason).replace('_', ' ')})."
    if result.passes:
        text += (
            f" {plural(result.passes, 'summary')} written, {result.tokens_before:,} → {result.tokens_after:,} tokens "
            "in the context."
        )
    if result.detail:
        text += f" {inline(result.detail)}"
    data = {
        "outcome": outcome,
        "compacted": result.compacted,
        "reason": str(result.reason),
        "passes": result.passes,
        "tokens_before": result.tokens_before,
        "tokens_after": result.tokens_after,
        "summaries": list(result.summaries),
    }
    return CommandResult(text, data, ok=outcome != FAILED)


def undo(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Takes the last ``/new`` or compaction back, whichever came later."""
    restored = engine.undo_new(session)
    if not restored and (answer := _undo_compaction(engine, session)).data["outcome"] == DONE:
        return answer
    if restored:
        text = (
            f"Done: {plural(restored, 'item')} of the context are back in place."
            if restored > 1
            else ("Done: 1 item of the context is back in place.")
        )
        return CommandResult(text, {"outcome": DONE, "restored": restored})
    text = "There is nothing to undo: no `/new` and no compaction took anything out, or the context was changed since."
    return CommandResult(text, {"outcome": NOOP, "restored": 0})


def backup(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Copies the database beside it, under a name with the time."""
    if is_server(engine.store.location):
        return CommandResult(
            "A PostgreSQL database is backed up on its server, with `pg_dump`.", {"outcome": NOOP}
        )
    source = Path(engine.store.location)
    with engine.store.read() as reader:
        needed = int(reader.status().size_bytes * _SPACE_FACTOR)
    free = shutil.disk_usage(source.absolute().parent).free
    if free < needed:
        text = f"Failed: the copy needs {size(needed)}, and only {size(free)} are free on that disk."
        return CommandResult(text, {"outcome": FAILED, "needed": needed, "free": free}, ok=False)
    target = engine.backup()
    return CommandResult(f"Done: a checked copy is at `{target}`.", {"outcome": DONE, "path": target})


def _undo_compaction(engine: EngineFacade, session: Session) -> CommandResult:
    result = engine.undo_compaction(session)
    data = {"outcome": NOOP if result.refusal else DONE, **asdict(result)}
    if result.refusal:
        return CommandResult(f"Nothing was undone: {result.refusal}.", data)
    return CommandResult(
        f"Done: {plural(result.summaries, 'summary')} taken apart; what they stood for is back word for word, "
        f"{result.tokens_before:,} → {result.tokens_after:,} tokens in the context. It stays until a limit is passed.",
        data,
    )


def _budget_and_focus(words: list[str]) -> tuple[int | None, str]:
    """A budget in tokens, if the first word is a number, and the words to keep in detail.

    Raises `ConfigError` for a budget that is less than a setting may be.
    """
    try:
        given = int(words[0].replace(",", ""))
    except (IndexError, ValueError):
        return None, " ".join(words)
    return checked_budget(given, "/lcm compact"), " ".join(words[1:])


def _outcome(result: CompactionResult) -> str:
    if result.compacted:
        return DONE
    if result.reason in _DEFERRED:
        return DEFERRED
    return FAILED if result.reason in (Reason.MODEL_FAILED, Reason.BUDGET_UNREACHABLE) else NOOP
