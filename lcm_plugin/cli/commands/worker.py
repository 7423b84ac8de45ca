"""``lcm worker``."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lcm_plugin.cli.open_engine import writing
from lcm_plugin.cli.options import AsJson, Database
from lcm_plugin.cli.output import moment, print_json, say
from lcm_plugin.events import Event
from lcm_plugin.text import plural

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine


def worker(
    database: Database = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when nothing is due any more.")
    ] = False,
    poll: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks for work.")] = 2.0,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Serve Prometheus metrics there; 0 takes a free port."),
    ] = None,
    metrics_address: Annotated[str, typer.Option(help="The address to serve metrics on.")] = "127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Work off compaction that hosts owe, in a process of its own; any number may run beside each other.

    Each conversation is taken with a lease, so that a worker that dies holds nothing up for long. Prints a line
    for each compaction and check. Ends after the pass at hand on Ctrl-C or SIGTERM.

    Examples: `lcm worker` · `lcm worker --until-idle --json`
    """
    stop = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stop.set())
    with writing(database) as engine, _metrics(engine, metrics_port, metrics_address):
        if not as_json:
            engine.subscribe(_print_job)
        report = engine.work(stop, until_idle=until_idle, poll_seconds=poll)
    if as_json:
        print_json(asdict(report))
        return
    verdicts = (
        ", ".join(f"{count} {reason}" for reason, count in report.verdicts.items()) or "nothing was due"
    )
    say(
        f"{plural(report.compactions, 'compaction')} ({verdicts}), {plural(report.passes, 'pass')}, "
        f"{plural(report.tokens_saved, 'token')} saved, {plural(report.integrity_checks, 'integrity check')}"
    )


def _print_job(event: Event) -> None:
    """Prints a line for each compaction and check."""
    fields, text = event.fields, ""
    match event.name:
        case "compaction.finished":
            before, after = fields["token_before"], fields["token_after"]
            text = f"{fields['reason']}, {before:,} to {after:,} tokens in {plural(fields['passes'], 'pass')}"
        case "integrity.job_done":
            text = f"{fields['mode']} {fields['state']}, {plural(fields['findings'], 'finding')}"
    if text:
        detail = f" ({fields['detail']})" if fields.get("detail") else ""
        line = f"{moment(time.time_ns() // 1_000_000)} conversation {event.conversation_id}: {text}{detail}"
        say(" ".join(line.split()))


@contextmanager
def _metrics(engine: Engine, port: int | None, address: str) -> Iterator[None]:
    if port is None:
        yield
        return
    from lcm_plugin.metrics import serve, watch

    unwatch = watch(engine)
    served, stop = serve(port, address)
    say(f"metrics: http://{address}:{served}/metrics", error=True)
    try:
        yield
    finally:
        stop()
        unwatch()
