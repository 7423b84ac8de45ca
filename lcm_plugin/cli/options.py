"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Database = Annotated[
    str | None,
    typer.Option(
        "--database", "-d", metavar="PATH|URL", help="The database; the setting's value when left out."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="Most rows to print.")]
ConversationName = Annotated[
    str, typer.Argument(metavar="CONVERSATION", help="A number, a session key or id, or a glob for one key.")
]
