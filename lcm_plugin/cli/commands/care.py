"""Looking after a database: ``doctor, compact, backup``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from lcm_plugin.cli.exits import INTERNAL
from lcm_plugin.cli.opening import reading, writing
from lcm_plugin.cli.options import AsJson, ConversationName, Database
from lcm_plugin.cli.output import print_json, print_table, size, working
from lcm_plugin.types import Finding, IntegrityReport, RepairOutcome, RepairPlan, Severity

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.events import Event

PANEL = "Look after"


class Host(StrEnum):
    """Hosts that can be checked; each has ``lcm_plugin.hosts.<name>.doctor.check_host``."""

    HERMES = "hermes"


def add_to(app: typer.Typer) -> None:
    """Registers the commands."""
    for command in (doctor, compact, backup):
        app.command(rich_help_panel=PANEL)(command)


def doctor(
    conversation: Annotated[
        str | None,
        typer.Argument(metavar="[CONVERSATION]", help="A number or session key; all if not given."),
    ] = None,
    database: Database = None,
    host: Annotated[
        Host | None, typer.Option(help="Check instead whether this host really uses lcm.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Mend what can be mended, after a checked copy of the database.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a database and say what could be mended; nothing is changed without --apply.

    Exit code 1 when something is broken, or could not be mended.

    Examples: `lcm doctor` · `lcm doctor agent:main:main --apply` · `lcm doctor --host hermes`
    """
    from lcm_plugin.types import Session

    if host is not None:
        _check_host(host, as_json)
        return
    outcome = None
    with writing(database) if apply else reading(database) as engine:
        session = None
        if conversation is not None:
            session = Session(engine.library.conversation(conversation).session_key)
        with working("checking"):
            report = engine.check(session)
        plan = engine.plan_repairs(report)
        if apply and plan.steps:
            with working("mending"):
                outcome = engine.repair(plan, backup="://" not in engine.store.location)
                report = engine.check(session)
    if as_json:
        done = None if outcome is None else asdict(outcome)
        print_json({"ok": report.ok, **asdict(report), "plan": asdict(plan), "outcome": done})
    elif outcome is not None:
        _print_outcome(outcome, plan)
    else:
        _print_findings(report, plan)
    if not report.ok or (outcome is not None and not outcome.ok):
        raise typer.Exit(INTERNAL)


def _print_outcome(outcome: RepairOutcome, plan: RepairPlan) -> None:
    for result in outcome.results:
        left = f", {result.failed:,} not" if result.failed else ""
        why = f" ({result.error})" if result.error else ""
        print(f"{result.step.code}: {result.step.description}; {result.mended:,} mended{left}{why}")
    for finding in plan.refused:
        print(f"not mended, {finding.code}: {finding.message}")
    if outcome.backup:
        print(f"A copy from before is at {outcome.backup}")


def compact(
    conversation: ConversationName,
    database: Database = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Tokens that a context may have.")] = None,
    due: Annotated[bool, typer.Option("--due", help="Only what is due, not as far as it goes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compact a conversation now; safe while its host runs.

    Examples: `lcm compact agent:main:main` · `lcm compact 3 --due --budget 32000`
    """
    from lcm_plugin.types import Session

    with writing(database) as engine:
        chosen = engine.library.conversation(conversation)
        session = Session(chosen.session_key, chosen.session_id)
        with working("compacting") as tell, _passes_told(engine, tell):
            result = engine.compact(session, force=not due, budget=budget)
    if as_json:
        print_json(asdict(result))
        return
    detail = f": {result.detail}" if result.detail else ""
    done = f"{result.passes} passes, {len(result.summaries)} new summaries"
    print(
        f"{result.reason.value}{detail}; {result.tokens_before:,} -> {result.tokens_after:,} tokens, {done}"
    )


def backup(
    target: Annotated[
        str | None, typer.Argument(help="The copy's path; beside the database if not given.")
    ] = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Write a checked copy of the database; safe while a host runs.

    Examples: `lcm backup` · `lcm backup /srv/copies/lcm.db`
    """
    from pathlib import Path

    with reading(database) as engine, working("copying"):
        written = engine.backup(target)
    count = Path(written).stat().st_size if Path(written).exists() else None
    if as_json:
        print_json({"path": written, "bytes": count})
    else:
        print(f"{written} ({size(count)})" if count is not None else written)


def _check_host(host: Host, as_json: bool) -> None:
    """What stands between a host and lcm, with the way to mend each; run it where the host runs."""
    check_host = import_module(f"lcm_plugin.hosts.{host.value}.doctor").check_host
    findings: list[Finding] = check_host()
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            print(f"{finding.severity.value.upper()} {finding.code}: {finding.message}")
            if finding.repair:
                print(f"    mend it: {finding.repair}")
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise typer.Exit(INTERNAL)


@contextmanager
def _passes_told(engine: Engine, tell: Callable[[str], None]) -> Iterator[None]:
    done = 0

    def listen(event: Event) -> None:
        nonlocal done
        if event.name == "compaction.pass":
            done += 1
            tell(f"{done} passes")

    stop = engine.subscribe(listen)
    try:
        yield
    finally:
        stop()


def _print_findings(report: IntegrityReport, plan: RepairPlan) -> None:
    rows = [
        (finding.severity.value, finding.code, finding.message, " ".join(finding.ids[:3]))
        for finding in report.findings
    ]
    if rows:
        print_table(("severity", "check", "what", "ids"), rows)
    errors = sum(finding.severity is Severity.ERROR for finding in report.findings)
    checks = f"{len(report.checked)} checks" + ("" if report.complete else ", stopped early")
    print(f"{checks}: {errors} errors, {len(report.findings) - errors} remarks")
    for step in plan.steps:
        print(f"could be mended: {step.description}")
