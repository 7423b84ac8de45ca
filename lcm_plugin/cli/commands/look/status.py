"""``lcm status``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from lcm_plugin.cli.open_engine import reading
from lcm_plugin.cli.options import AsJson, Database
from lcm_plugin.cli.output import print_json, print_pairs


def status(
    conversation: Annotated[
        str | None,
        typer.Argument(metavar="CONVERSATION", help="A number or session key; all if not given."),
    ] = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Show what the database holds and what goes wrong, or one conversation of it; the same as `/lcm` in a chat.

    Examples: `lcm status` · `lcm status agent:main:main --json`
    """
    from lcm_plugin.errors import StoreError

    try:
        value, pairs = _seen(database, conversation)
    except StoreError:
        if not as_json:
            print_pairs(_failing(database))
        raise
    if as_json:
        print_json(value)
    else:
        print_pairs(pairs)


def _seen(database: str | None, conversation: str | None) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    from lcm_plugin.commands.counting import counting_text
    from lcm_plugin.commands.health import health, health_pairs
    from lcm_plugin.commands.status import conversation_data, head, session_pairs, whole_data, whole_pairs
    from lcm_plugin.types import Session

    with reading(database) as engine:
        zone = engine.config.timezone
        if conversation is None:
            with engine.store.read() as reader:
                value: dict[str, Any] = whole_data(engine, reader)
            value |= {"location": value["database"]} | health(engine, None, None)
            pairs = [("version", head(value).replace("*", "")), *whole_pairs(value)]
        else:
            chosen = engine.library.conversation(conversation)
            with engine.store.read() as reader:
                own = conversation_data(engine, reader, chosen)
            session = Session(chosen.session_key, chosen.session_id)
            value = asdict(chosen) | own | health(engine, chosen, session)
            pairs = [
                ("session", chosen.session_key or str(chosen.session_id)),
                *session_pairs(own, zone, str),
            ]
        value["tokens"] = counting_text(value["counting"])
        pairs += health_pairs(value, zone, str)
    return value, pairs


def _failing(database: str | None) -> list[tuple[str, str]]:
    """The failures of hosts, for a database that cannot be opened."""
    import time

    from lcm_plugin.cli.open_engine import settings_for
    from lcm_plugin.commands.health import failure_pairs
    from lcm_plugin.maintenance.hook_health import HookHealth

    config = settings_for(database)
    health = HookHealth(lambda: config, lambda: time.time_ns() // 1_000_000)
    return failure_pairs([one for one in health.failures() if one.in_a_row], config.timezone, str)
