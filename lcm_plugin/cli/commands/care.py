"""Looking after a database: ``compact, backup``."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from lcm_plugin.cli.opening import reading, writing
from lcm_plugin.cli.options import AsJson, ConversationName, Database
from lcm_plugin.cli.output import print_json, size

PANEL = "Look after"


def add_to(app: typer.Typer) -> None:
    """Registers the commands."""
    for command in (compact, backup):
        app.command(rich_help_panel=PANEL)(command)


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

    with reading(database) as engine:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        written = engine.store.backup(target or f"{engine.store.location}.{stamp}.backup")
    count = Path(written).stat().st_size if Path(written).exists() else None
    if as_json:
        print_json({"path": written, "bytes": count})
    else:
        print(f"{written} ({size(count)})" if count is not None else written)
