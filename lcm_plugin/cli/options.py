"""Options that several commands share, and the times that they take: ISO 8601, or how long ago."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from lcm_plugin.cli import completion
from lcm_plugin.errors import InputError
from lcm_plugin.messages.table import checked_role

Database = Annotated[
    str | None,
    typer.Option(
        "--database", "-d", metavar="PATH|URL", help="The database; the setting's value when left out."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="Most rows to print.")]
ConversationName = Annotated[
    str,
    typer.Argument(
        metavar="CONVERSATION",
        help="A number, a session key or id, or a glob for one key.",
        autocompletion=completion.sessions,
    ),
]


def _checked_role(value: str | None) -> str | None:
    try:
        return value and checked_role(value)
    except ValueError as error:
        raise InputError(f"--role {value}: {error}") from error


Role = Annotated[str | None, typer.Option(callback=_checked_role, help="Only messages of this role.")]
_AGO = re.compile(r"(\d+)\s*(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def message_number(ref: str) -> int:
    """The number of ``msg_42``, or of ``42``; raises `InputError`."""
    digits = ref.removeprefix("msg_")
    if not digits.isascii() or not digits.isdigit():
        raise InputError(f"{ref} is no message; it is written like msg_42")
    return int(digits)


def parse_moment(text: str | None) -> int | None:
    """Milliseconds since the epoch of ``2026-03-17``, ``2026-03-17T21:40`` (UTC) or ``2h`` (ago)."""
    if text is None:
        return None
    ago = _AGO.fullmatch(text.strip())
    if ago:
        return int((time.time() - int(ago[1]) * _SECONDS[ago[2]]) * 1000)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InputError(
            f"{text!r} is no time: give a date (2026-03-17), a time (2026-03-17T21:40), or an age (90m, 2h, 3d)"
        ) from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
