"""``lcm talk``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lcm_plugin.cli import completion
from lcm_plugin.cli.open_engine import reading
from lcm_plugin.cli.options import AsJson, ConversationName, Database, message_number
from lcm_plugin.cli.output import console, print_json
from lcm_plugin.errors import NotFound

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.store.records import Conversation, StoredMessage

_Around = Annotated[
    str | None,
    typer.Option(
        metavar="MSG",
        help="Show what was said round this message (msg_42).",
        autocompletion=completion.stored_ids,
    ),
]
_Limit = Annotated[int, typer.Option(min=1, max=10_000, help="Most messages to show.")]


def talk(
    conversation: ConversationName,
    around: _Around = None,
    limit: _Limit = 100,
    hidden: Annotated[bool, typer.Option("--hidden", help="Also what was taken back or never sent.")] = False,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Read a conversation as talk, in the pager: rendered text, a line for each tool call; the newest messages.

    Examples: `lcm talk agent:main:main` · `lcm talk 3 --around msg_42` · `lcm talk 'Harbour map' --limit 1000`
    """
    from lcm_plugin.cli.talk import rendered

    with reading(database) as engine:
        chosen = engine.library.conversation(conversation)
        number = None if around is None else message_number(around)
        rows = _rows(engine, chosen, number, limit, hidden)
        if as_json:
            messages = [
                {"id": row.head.ref, "at": row.head.created_at, "message": engine.library.whole(row)}
                for row in rows
            ]
            print_json({"conversation": chosen.conversation_id, "messages": messages})
            return
    screen = console()
    if not sys.stdout.isatty():
        screen.print(*rendered(rows, number), sep="\n")
        return
    os.environ.setdefault("LESS", "-R")
    with screen.pager(styles=True):
        screen.print(*rendered(rows, number), sep="\n")


def _rows(
    engine: Engine, conversation: Conversation, around: int | None, limit: int, hidden: bool
) -> list[StoredMessage]:
    """The newest messages, or as many before as after one of them."""
    with engine.store.read() as reader:
        end = conversation.next_seq
        if around is not None:
            found = reader.messages_by_id([around]).get(around)
            if found is None or found.head.conversation_id != conversation.conversation_id:
                raise NotFound(f"there is no msg_{around} in conversation {conversation.conversation_id}")
            end = found.head.seq + limit // 2 + 1
        heads = reader.heads(conversation.conversation_id, before_seq=end, limit=limit)
        stored = reader.messages_by_id([head.message_id for head in heads if hidden or not head.hidden])
    return list(stored.values())
