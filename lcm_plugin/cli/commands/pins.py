"""``lcm pin``, ``lcm pins`` and ``lcm unpin``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lcm_plugin.cli import completion
from lcm_plugin.cli.open_engine import reading, writing
from lcm_plugin.cli.options import AsJson, ConversationName, Database
from lcm_plugin.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.types import Session


def pin(
    conversation: ConversationName,
    what: Annotated[
        str,
        typer.Argument(
            metavar="TEXT|ID",
            help="A text, or the id of a message, msg_…",
            autocompletion=completion.stored_ids,
        ),
    ],
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Keep a text or a message word for word in every context, after `/new` too, until `/reset`.

    Examples: `lcm pin agent:main:main 'Prices are in euros.'` · `lcm pin 3 msg_42`
    """
    with writing(database) as engine:
        pinned = engine.pin(_session(engine, conversation), what)
    if as_json:
        print_json(asdict(pinned))
    else:
        say(f"{pinned.pin_id}: {pinned.tokens:,} tokens in every context")


def pins(conversation: ConversationName, database: Database = None, as_json: AsJson = False) -> None:
    """List what is pinned.

    Example: `lcm pins agent:main:main`
    """
    with reading(database) as engine:
        found = engine.pins(_session(engine, conversation))
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        rows = [(one.pin_id, one.source, one.pinned_by, one.tokens, one.text) for one in found]
        print_table(("pin", "message", "by", "tokens", "text"), rows, yields="text")


def unpin(
    conversation: ConversationName,
    names: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of pins or messages, or all.")],
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Take pins out of every context.

    Examples: `lcm unpin 3 pin_1a2b3c4d` · `lcm unpin agent:main:main all`
    """
    with writing(database) as engine:
        removed = engine.unpin(_session(engine, conversation), *names)
    if as_json:
        print_json([asdict(one) for one in removed])
    else:
        say(f"{len(removed)} removed")


def _session(engine: Engine, conversation: str) -> Session:
    from lcm_plugin.types import Session

    chosen = engine.library.conversation(conversation)
    return Session(chosen.session_key, chosen.session_id)
