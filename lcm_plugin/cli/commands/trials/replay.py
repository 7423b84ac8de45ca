"""``lcm replay``."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Annotated

import typer

from lcm_plugin.cli.errors import INTERNAL, complain
from lcm_plugin.cli.options import AsJson
from lcm_plugin.cli.output import console, print_json, progress

_Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Transcripts; - is standard input.")]
_Budget = Annotated[int, typer.Option(min=1, help="Tokens that a context may have.")]
_FreshTail = Annotated[int | None, typer.Option(min=1, help="Newest messages that are never compacted.")]
_Session = Annotated[str, typer.Option(help="Session key to store it under.")]
_Database = Annotated[
    str | None,
    typer.Option(
        "--database", "-d", metavar="PATH|URL", help="Where to keep it; a temporary place if not given."
    ),
]
_Summarizer = Annotated[
    str, typer.Option(metavar="extractive|MODEL", help="Who summarises: the embedded extractor, or a model.")
]


def replay(
    files: _Files,
    budget: _Budget = 16_000,
    fresh_tail: _FreshTail = None,
    session: _Session = "agent:replay:main",
    database: _Database = None,
    summarizer: _Summarizer = "extractive",
    as_json: AsJson = False,
) -> None:
    """Play transcripts as one session, as a host would, and prove that nothing was lost.

    Each message goes through the plugin's hooks, turn by turn. At the end every message is read back by
    walking down from the context and compared byte for byte; an instruction that comes again is stored once.
    Times are simulated: a second run makes the same summaries. With --database, a run that was cut short goes on
    where it stopped.

    Files: JSON lines with one OpenAI-style message each; JSON lines with one object each that holds
    `messages`; or one JSON array.

    Examples: `lcm replay chat.jsonl` · `lcm replay runs/*.jsonl --budget 32000 --database runs.db` ·
    `cat chat.json | lcm replay - --json`
    """
    from lcm_plugin.cli.replay.play import Options, run_replay, temporary_database
    from lcm_plugin.cli.replay.report import print_report
    from lcm_plugin.cli.transcripts import read_transcripts

    with ExitStack() as stack:
        entries = read_transcripts(files)
        if database is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lcm-replay-"))
            database = temporary_database(folder)
        options = Options(tuple(files), budget, session, database, summarizer, fresh_tail)
        with progress("replaying", len(entries), "messages") as update:
            outcome = run_replay(entries, options, update)
        if as_json:
            print_json(outcome.report.as_dict())
        else:
            print_report(console(), outcome.report, outcome.tree, outcome.lcm_says)
    if not outcome.report.holds:
        complain("the replay did not show what it must show")
        raise typer.Exit(INTERNAL)
