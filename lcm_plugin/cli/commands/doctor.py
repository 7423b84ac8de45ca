"""Checking, mending and rescuing a database: ``doctor, rescue``."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcm_plugin.cli.errors import INTERNAL
from lcm_plugin.cli.open_engine import reading, writing
from lcm_plugin.cli.options import AsJson, Database
from lcm_plugin.cli.output import print_json, print_table, say, working
from lcm_plugin.errors import InputError
from lcm_plugin.hosts.doctor import Host, check_host
from lcm_plugin.store.open import is_server
from lcm_plugin.text import plural
from lcm_plugin.types import IntegrityReport, RepairOutcome, RepairPlan, Severity

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine


class Later(StrEnum):
    """What a worker does: look, or also plan what would mend it."""

    SCAN = "scan"
    SCAN_AND_PLAN = "scan_and_plan"


def doctor(
    conversation: Annotated[
        str | None,
        typer.Argument(metavar="CONVERSATION", help="A number or session key; all if not given."),
    ] = None,
    database: Database = None,
    host: Annotated[
        Host | None,
        typer.Option(help="Check instead whether this host really uses lcm and can store anything."),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Mend what can be mended, after a checked copy of the database.")
    ] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="With --apply: also archive stale lanes and delete stray files.")
    ] = False,
    only: Annotated[
        str | None, typer.Option(metavar="CLASS", help="Only findings of this class, as summary_fallback.")
    ] = None,
    later: Annotated[
        Later | None, typer.Option(help="Have a worker check instead, now or whenever one runs next.")
    ] = None,
    results: Annotated[bool, typer.Option("--results", help="Show what workers found.")] = False,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="End the check after so many seconds, with what it has.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a database and say what could be mended; nothing is changed without --apply.

    Exit code 1 when something is broken, or could not be mended.

    Examples: `lcm doctor` · `lcm doctor agent:main:main --apply` · `lcm doctor --host hermes`
    """
    if host is not None:
        _check_host(host, database, as_json)
        return
    if results:
        _show_results(database, as_json)
        return
    if later is not None:
        _ask_later(database, conversation, later)
        return
    if delete and not apply:
        raise InputError("--delete goes with --apply")
    from lcm_plugin.commands.counting import counting, counting_text
    from lcm_plugin.commands.health import last_stored

    with writing(database) if apply else reading(database) as engine:
        check = _Check(engine, conversation, only, seconds)
        outcome = None
        if apply:
            with working("mending"):
                copy = None if is_server(engine.store.location) else engine.backup
                outcome, plan = engine.doctor.mend(check, copy, destructive=delete)
        with working("checking"):
            report = check()
        counted, stored = counting(engine), last_stored(engine)
        if outcome is None:
            plan = engine.plan_repairs(report)
    if as_json:
        done = None if outcome is None else asdict(outcome)
        print_json(
            {"ok": report.ok, **asdict(report), "counting": counted, "plan": asdict(plan), "outcome": done}
        )
    elif outcome is not None and (outcome.results or outcome.left or plan.refused):
        _print_outcome(outcome, plan)
    else:
        _print_findings(report, plan)
        say(f"{stored} Tokens are {counting_text(counted)}.".strip())
    if not report.ok or (outcome is not None and not outcome.ok):
        raise typer.Exit(INTERNAL)


def rescue(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="The damaged database file; it is only read.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="The file to make; it must not exist.")],
    as_json: AsJson = False,
) -> None:
    """Read what can be read out of a damaged SQLite database into a new one, and say what is lost.

    Stop every host of the damaged file first. Exit code 1 when something was lost.

    Example: `lcm rescue lcm.db rescued.db`
    """
    from lcm_plugin.commands.doctor import result_lines
    from lcm_plugin.store.sqlite.rescue import rescue as rescue_into

    with working("reading row by row"):
        report = rescue_into(source, target)
    with working("mending"), writing(target, **_payloads_of(source)) as engine:
        outcome, _ = engine.doctor.mend(engine.check, None, rewrite=False)
        left = engine.check()
    if as_json:
        print_json(
            {**asdict(report), "outcome": asdict(outcome), "findings": [asdict(f) for f in left.findings]}
        )
    else:
        print_table(
            ("table", "rows", "unreadable places"),
            [(table.name, f"{table.rows:,}", f"{table.gaps:,}") for table in report.tables],
        )
        for line in report.notes:
            say(line)
        for line in result_lines(outcome, str):
            say(line)
        for finding in left.findings:
            say(f"left, {finding.code}: {finding.message}")
        say(f"The new database is {report.target}; {source} is as it was.")
    if report.lossy or not left.ok:
        raise typer.Exit(INTERNAL)


def _payloads_of(source: str) -> dict[str, Any]:
    """The rescued database goes on using the payload files beside the old one, unless a setting names a folder."""
    from pathlib import Path

    from lcm_plugin.config.file import load_config

    if load_config().large_files_dir:
        return {}
    return {"large_files_dir": str(Path(source).expanduser().absolute().with_name("lcm-files"))}


class _Check:
    """The check that was asked for, to be run as often as needed."""

    def __init__(
        self, engine: Engine, conversation: str | None, only: str | None, seconds: float | None
    ) -> None:
        self._engine = engine
        self._only = only
        self._seconds = seconds
        self._conversations = None
        if only is not None:
            from lcm_plugin.maintenance.rules import RULES

            if only not in RULES:
                raise InputError(
                    f"there is no class of findings {only!r}; there are {', '.join(sorted(RULES))}"
                )
        if conversation is not None:
            key = engine.library.conversation(conversation).session_key
            with engine.store.read() as reader:
                self._conversations = tuple(reader.lane(key))

    def __call__(self) -> IntegrityReport:
        report = self._engine.doctor.check(self._conversations, seconds=self._seconds)
        if self._only is None:
            return report
        return replace(report, findings=tuple(one for one in report.findings if one.code == self._only))


def _ask_later(database: str | None, conversation: str | None, mode: Later) -> None:
    with writing(database) as engine:
        if conversation is None:
            ids = [row.conversation_id for row in engine.library.conversations()]
        else:
            ids = [engine.library.conversation(conversation).conversation_id]
        for conversation_id in ids:
            engine.integrity_jobs.request(conversation_id, "manual", mode.value)
    say(
        f"{len(ids)} conversations are to be checked by `lcm worker`; `lcm doctor --results` shows what it found"
    )


def _show_results(database: str | None, as_json: bool) -> None:
    from lcm_plugin.recall.times import format_instant

    with reading(database) as engine:
        jobs = engine.integrity_jobs.finished()
        zone = engine.config.timezone
    if as_json:
        print_json([{**asdict(job), "result": json.loads(job.result)} for job in jobs])
        return
    rows = []
    for job in jobs:
        told = json.loads(job.result)
        found = ", ".join(f"{count} {code}" for code, count in told.get("findings", {}).items())
        planned = ", ".join(step["code"] for step in told.get("plan", []))
        what = told.get("error") or found or "all is whole"
        rows.append(
            (str(job.conversation_id), format_instant(job.finished_at, zone)[:16], job.reason, what, planned)
        )
    print_table(
        ("conversation", "checked", "asked by", "found", "could be mended"), rows, yields="found", wraps=True
    )


def _check_host(host: Host, database: str | None, as_json: bool) -> None:
    """What stands between a host and lcm, with the way to mend each; run it where the host runs."""
    findings = check_host(host, database)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            say(f"{finding.severity.value.upper()} {finding.code}: {finding.message}")
            if finding.repair:
                say(f"    mend it: {finding.repair}")
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise typer.Exit(INTERNAL)


def _print_outcome(outcome: RepairOutcome, plan: RepairPlan) -> None:
    from lcm_plugin.commands.doctor import left_lines, refused_lines, result_lines

    for line in (*result_lines(outcome, str), *refused_lines(plan, str), *left_lines(outcome, "--delete")):
        say(line)
    if outcome.backup:
        say(f"A copy from before is at {outcome.backup}")


def _print_findings(report: IntegrityReport, plan: RepairPlan) -> None:
    rows = [
        (finding.severity.value, finding.code, finding.message, " ".join(finding.ids[:3]))
        for finding in report.findings
    ]
    if rows:
        print_table(("severity", "check", "what", "ids"), rows, yields="what", wraps=True)
    errors = sum(finding.severity is Severity.ERROR for finding in report.findings)
    checks = plural(len(report.checked), "check") + ("" if report.complete else ", stopped early")
    say(f"{checks}: {plural(errors, 'error')}, {plural(len(report.findings) - errors, 'remark')}")
    for step in plan.steps:
        say(f"could be mended: {step.description}" + (" (with --delete)" if step.destructive else ""))
    if any(finding.code == "structure" for finding in report.findings):
        say(
            "The database itself is damaged: stop its hosts, then `lcm rescue FROM TO` reads what can be read."
        )
        say(
            "A copy of the damaged file would be damaged too; a backup from before may serve if it checks out."
        )
