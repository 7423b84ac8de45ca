"""``/lcm prune`` and ``/lcm doctor clean``: removing old conversations, when a person says so twice.

A chat reaches no further than its own tools may look (``recallScope``). Without ``--apply`` and the word after
``--confirm`` nothing is written.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.texts import DONE, FAILED, NOOP
from lcm_plugin.errors import InputError
from lcm_plugin.maintenance.prune import PruneOutcome, PrunePlan
from lcm_plugin.maintenance.selection import USUAL_KINDS, LaneKind, Selection, parse_age, parse_size
from lcm_plugin.recall.scope import within_reach
from lcm_plugin.store.open import is_server
from lcm_plugin.text import inline, plural, size
from lcm_plugin.types import CommandResult, Session

CONFIRMATION = "delete"
MOST_WORDS = 20
PRUNE_ARGUMENTS = (
    "[--older-than 90d] [--sessions GLOB] [--max-size 2GB] [--keep-summaries] [--apply --confirm delete]"
)
_VALUED = ("--older-than", "--sessions", "--max-size", "--confirm")
_FLAGS = ("--keep-summaries", "--apply", "--no-backup")


@dataclass(slots=True)
class _Asked:
    values: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    words: list[str] = field(default_factory=list)


def prune(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Removes what is old, or as much as it takes to get below a size."""
    asked = _read(words)
    if asked.words:
        raise InputError(f"{asked.words[0]!r} is no option; it is written `/lcm prune {PRUNE_ARGUMENTS}`")
    if not asked.values.keys() & {"--older-than", "--sessions", "--max-size"}:
        raise InputError("say what is to go: --older-than, --sessions or --max-size")
    return _run(engine, session, asked, USUAL_KINDS)


def clean(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Removes archived, empty and abandoned lanes, of all classes or of those that are named."""
    asked = _read(words)
    kinds = set()
    for word in asked.words:
        try:
            kinds.add(LaneKind(word.lower().removesuffix("s")))
        except ValueError:
            known = ", ".join(LaneKind)
            raise InputError(f"there is no class {word!r} of lanes; the classes are {known}") from None
    return _run(engine, session, asked, frozenset(kinds) or frozenset(LaneKind))


def _run(engine: EngineFacade, session: Session, asked: _Asked, kinds: frozenset[LaneKind]) -> CommandResult:
    with engine.store.read() as reader:
        key = engine.sessions.key_of(session, reader)
        reach = frozenset(within_reach(reader, key, engine.config.recall_scope))
    age, most = asked.values.get("--older-than"), asked.values.get("--max-size")
    selection = Selection(
        older_than_ms=None if age is None else parse_age(age),
        sessions=asked.values.get("--sessions"),
        kinds=kinds,
        in_reach=reach,
    )
    max_bytes = None if most is None else parse_size(most)
    keep = "--keep-summaries" in asked.flags
    plan = engine.retention.plan(selection, keep_summaries=keep, max_bytes=max_bytes)
    if "--apply" not in asked.flags or not plan.candidates:
        return CommandResult(_plan_text(plan), {"outcome": NOOP, **_plan_data(plan)})
    if asked.values.get("--confirm") != CONFIRMATION:
        text = f"{_plan_text(plan)}\n**Nothing was removed**: it takes `--confirm {CONFIRMATION}` as well."
        return CommandResult(text, {"outcome": FAILED, **_plan_data(plan)}, ok=False)
    backup = copy_before(engine, "--no-backup" in asked.flags)
    if max_bytes is None:
        outcome = engine.retention.apply(plan, key)
    else:
        outcome = engine.retention.apply_to_size(selection, max_bytes, key, keep_summaries=keep)
    return _done(outcome, plan, backup)


def copy_before(engine: EngineFacade, refused: bool) -> str:
    """The path of a checked copy, or the empty text when none is wanted.

    Raises `InputError` for a server's database, of which only its own tools make one.
    """
    if refused:
        return ""
    if is_server(engine.store.location):
        raise InputError(
            "a PostgreSQL database is copied with pg_dump; --no-backup says that you have seen to that. Nothing was removed"
        )
    return engine.backup()


def _read(words: list[str]) -> _Asked:
    asked = _Asked()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, joined, value = word.partition("=")
        if name in _VALUED:
            if not joined and not rest:
                raise InputError(f"{name} needs a value after it")
            asked.values[name] = value if joined else rest.pop(0)
        elif word in _FLAGS:
            asked.flags.add(word)
        elif word.startswith("-"):
            raise InputError(f"there is no option {word!r}; the options are {', '.join((*_VALUED, *_FLAGS))}")
        else:
            asked.words.append(word)
    return asked


def _plan_text(plan: PrunePlan) -> str:
    in_use = f" {plural(plan.in_use, 'conversation')} fit but are being worked on." if plan.in_use else ""
    if not plan.candidates:
        return f"There is nothing to remove.{in_use}"
    kinds = Counter(one.kind for one in plan.candidates)
    classes = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    what = "the texts of " if plan.keep_summaries else ""
    uncovered = sum(one.uncovered for one in plan.candidates)
    lines = [
        f"This would remove {what}{plural(plan.messages, 'message')} in {plural(len(plan.candidates), 'conversation')} "
        f"({classes}), about {size(plan.bytes)} of {size(plan.size_bytes)}.{in_use}"
    ]
    if plan.keep_summaries:
        lines.append(
            f"Summaries stay and say that their sources were pruned; {plural(uncovered, 'message')} of these are in no "
            "summary."
        )
    lines.append(f"Nothing was removed. `--apply --confirm {CONFIRMATION}` removes it, after a checked copy.")
    return "\n".join(lines)


def _plan_data(plan: PrunePlan) -> dict[str, object]:
    return {
        "conversations": [one.conversation.conversation_id for one in plan.candidates],
        "messages": plan.messages,
        "bytes": plan.bytes,
        "size_bytes": plan.size_bytes,
        "keep_summaries": plan.keep_summaries,
        "in_use": plan.in_use,
    }


def _done(outcome: PruneOutcome, plan: PrunePlan, backup: str) -> CommandResult:
    what = "the texts of " if plan.keep_summaries else ""
    lines = [
        f"Removed {what}{plural(outcome.messages, 'message')} in {plural(outcome.conversations, 'conversation')}, "
        f"{plural(outcome.files, 'file')}; {size(outcome.size_before)} before, {size(outcome.size_after)} now."
    ]
    if outcome.skipped:
        lines.append(f"{plural(len(outcome.skipped), 'conversation')} came into use meanwhile and stayed.")
    if backup:
        lines.append(f"A copy from before, which still holds all of it, is at `{backup}`.")
    if outcome.problem:
        lines.append(f"Not all went well: {inline(outcome.problem)}")
    data = {
        "outcome": FAILED if outcome.problem else DONE,
        "conversations": outcome.conversations,
        "messages": outcome.messages,
        "summaries": outcome.summaries,
        "files": outcome.files,
        "bytes": outcome.bytes,
        "skipped": outcome.skipped,
        "size_before": outcome.size_before,
        "size_after": outcome.size_after,
        "backup": backup,
    }
    return CommandResult("\n".join(lines), data, ok=not outcome.problem)
