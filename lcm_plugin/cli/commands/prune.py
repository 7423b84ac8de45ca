"""``lcm prune``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcm_plugin.cli.errors import INTERNAL
from lcm_plugin.cli.open_engine import reading, writing
from lcm_plugin.cli.options import AsJson, Database, Limit
from lcm_plugin.cli.output import moment, print_json, print_table, say, working
from lcm_plugin.text import plural, size

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.maintenance.prune import PruneOutcome, PrunePlan
    from lcm_plugin.maintenance.selection import Selection

CONFIRMATION = "delete"
_MOST_ROWS = 50


def prune(
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Not used for so long: 12h, 90d, 8w, 2y.")
    ] = None,
    sessions: Annotated[
        str | None,
        typer.Option(metavar="GLOB", help="Only session keys that match, as in 'agent:*:cron:**'."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only this class; repeatable: archived, orphan, cron, subagent, old."),
    ] = None,
    max_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Only as much as it takes to get below: 500MB, 2GB.")
    ] = None,
    keep_summaries: Annotated[
        bool, typer.Option("--keep-summaries", help="Remove the messages' texts, keep the summaries.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Remove it; without this it is only shown.")] = False,
    confirm: Annotated[
        str, typer.Option(metavar="WORD", help=f"With --apply: the word {CONFIRMATION}.")
    ] = "",
    no_backup: Annotated[
        bool, typer.Option("--no-backup", help="Make no copy of the database before.")
    ] = False,
    no_vacuum: Annotated[
        bool, typer.Option("--no-vacuum", help="Leave the file's size as it is; faster.")
    ] = False,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Remove old conversations for ever; shows what would go unless --apply is given.

    Open lanes that people talk in go only with --kind old, empty ones with --kind orphan. Of cron jobs' and
    sub-agents' open lanes those go that nobody used for 7 days (of kind old: 90), unless --older-than says otherwise.

    Examples: `lcm prune --older-than 90d` · `lcm prune --max-size 2GB --keep-summaries --apply --confirm delete`
    """
    from lcm_plugin.commands.cleaning import copy_before
    from lcm_plugin.errors import InputError
    from lcm_plugin.maintenance.selection import USUAL_KINDS, LaneKind, Selection, parse_age, parse_size

    if not (older_than or sessions or kind or max_size):
        raise InputError("say what is to go: --older-than, --sessions, --kind or --max-size")
    if apply and confirm != CONFIRMATION:
        raise InputError(f"this removes messages for ever: --apply needs --confirm {CONFIRMATION} as well")
    unknown = sorted(set(kind or ()) - set(LaneKind))
    if unknown:
        raise InputError(f"there is no kind {unknown[0]!r}; the kinds are {', '.join(LaneKind)}")
    selection = Selection(
        older_than_ms=parse_age(older_than) if older_than else None,
        sessions=sessions,
        kinds=frozenset(map(LaneKind, kind)) if kind else USUAL_KINDS,
    )
    most = parse_size(max_size) if max_size else None
    with writing(database) if apply else reading(database) as engine:
        with working("looking"):
            plan = engine.retention.plan(selection, keep_summaries=keep_summaries, max_bytes=most)
        if not apply or not plan.candidates:
            _print_plan(plan, selection, as_json)
            return
        with working("removing"):
            backup = copy_before(engine, no_backup)
            outcome = _apply(engine, plan, selection, most, no_vacuum)
    _print_outcome(outcome, backup, as_json)
    if outcome.problem:
        raise typer.Exit(INTERNAL)


def removed(database: Database = None, limit: Limit = 100, as_json: AsJson = False) -> None:
    """List what people had removed: when, who, how much; what it was is not kept.

    Example: `lcm removed`
    """
    with reading(database) as engine, engine.store.read() as reader:
        acts = reader.removals(limit=limit)
    if as_json:
        print_json([asdict(act) for act in acts])
        return
    print_table(
        ("when", "what", "who", "conversations", "messages", "summaries", "files", "bytes"),
        [
            (
                moment(act.created_at),
                act.kind,
                act.requested_by,
                act.conversations,
                act.messages,
                act.summaries,
                act.files,
                size(act.bytes),
            )
            for act in acts
        ],
    )


def _apply(
    engine: Engine, plan: PrunePlan, selection: Selection, most: int | None, no_vacuum: bool
) -> PruneOutcome:
    from lcm_plugin.maintenance.account import account_name

    if most is None or no_vacuum:
        return engine.retention.apply(plan, account_name(), give_back_space=not no_vacuum)
    return engine.retention.apply_to_size(selection, most, account_name(), keep_summaries=plan.keep_summaries)


def _print_plan(plan: PrunePlan, selection: Selection, as_json: bool) -> None:
    from lcm_plugin.maintenance.selection import LaneKind

    rows: list[dict[str, Any]] = [
        {
            "conversation": one.conversation.conversation_id,
            "kind": one.kind.value,
            "last_used": moment(one.conversation.updated_at),
            "messages": one.messages,
            "uncovered": one.uncovered,
            "summaries": one.summaries,
            "files": one.files,
            "bytes": one.bytes,
            "session_key": one.conversation.session_key,
        }
        for one in plan.candidates
    ]
    totals = {
        "conversations": len(rows),
        "messages": plan.messages,
        "bytes": plan.bytes,
        "size_bytes": plan.size_bytes,
        "in_use": plan.in_use,
    }
    if as_json:
        print_json({"applied": False, "keep_summaries": plan.keep_summaries, **totals, "conversations": rows})
        return
    if rows:
        shown = [[*row.values()] for row in rows[:_MOST_ROWS]]
        for row in shown:
            row[7] = size(row[7])
        print_table(tuple(name.replace("_", " ") for name in rows[0]), shown)
    if len(rows) > _MOST_ROWS:
        say(f"… and {len(rows) - _MOST_ROWS:,} more")
    texts = "the texts of " if plan.keep_summaries else ""
    say(
        f"would remove {texts}{plural(plan.messages, 'message')} in {plural(len(rows), 'conversation')}, "
        f"about {size(plan.bytes)} of {size(plan.size_bytes)}; {plan.in_use:,} more are in use"
    )
    if not rows and LaneKind.OLD not in selection.kinds:
        say("open lanes that people talk in are left out unless --kind old names them")
    if rows:
        say(f"nothing was removed: --apply --confirm {CONFIRMATION} removes it, after a checked copy")


def _print_outcome(outcome: PruneOutcome, backup: str, as_json: bool) -> None:
    if as_json:
        print_json({"applied": True, **asdict(outcome), "backup": backup})
        return
    say(
        f"removed {plural(outcome.messages, 'message')}, {plural(outcome.summaries, 'summary')} and "
        f"{plural(outcome.files, 'file')} in {plural(outcome.conversations, 'conversation')}; "
        f"{size(outcome.size_before)} before, {size(outcome.size_after)} now"
    )
    if outcome.skipped:
        say(f"{plural(len(outcome.skipped), 'conversation')} came into use meanwhile and stayed")
    if backup:
        say(f"a copy from before, which still holds all of it, is at {backup}")
    if outcome.problem:
        say(f"not all went well: {outcome.problem}")
