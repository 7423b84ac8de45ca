"""``/lcm pin``, ``/lcm pins`` and ``/lcm unpin``: what stands word for word in every context."""

from __future__ import annotations

from dataclasses import asdict

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.texts import DONE, FAILED, NOOP
from lcm_plugin.text import inline, plural
from lcm_plugin.types import CommandResult, Pin, Session

_SHOWN_CHARACTERS = 120


def pin(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Pins a message or a text; ``words`` is the text as it was written."""
    if not words:
        return CommandResult(
            "Pin what? `/lcm pin msg_12`, or a text: `/lcm pin Prices are in euros.`",
            {"outcome": FAILED},
            ok=False,
        )
    pinned = engine.pin(session, words[0])
    return CommandResult(f"Pinned. {_room(engine, session)}", {"outcome": DONE, "pin": asdict(pinned)})


def pins(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Every pin, and how much room is left."""
    found = engine.pins(session)
    data = {"outcome": DONE if found else NOOP, "pins": [asdict(one) for one in found]}
    if not found:
        return CommandResult("Nothing is pinned. `/lcm pin TEXT` keeps a text in every context.", data)
    return CommandResult("\n".join([*map(pin_line, found), _room(engine, session)]), data)


def unpin(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Removes pins by their ids."""
    if not words:
        return CommandResult(
            "Which one? `/lcm unpin pin_…`, or `all`; `/lcm pins` lists them.", {"outcome": FAILED}, ok=False
        )
    removed = engine.unpin(session, *words)
    text = f"{plural(len(removed), 'pin')} removed. {_room(engine, session)}"
    return CommandResult(text, {"outcome": DONE, "removed": [asdict(one) for one in removed]})


def pin_line(pin: Pin) -> str:
    """One pin as an item of a list."""
    origin = f" {pin.source} by {inline(pin.speaker)}," if pin.source else ""
    words = " ".join(pin.text.split())
    shown = words if len(words) <= _SHOWN_CHARACTERS else f"{words[:_SHOWN_CHARACTERS]}…"
    return f"- `{pin.pin_id}`{origin} {plural(pin.tokens, 'token')}: {inline(shown)}"


def _room(engine: EngineFacade, session: Session) -> str:
    board = engine.pin_board.board(session)
    return f"{plural(len(board.pins), 'pin')}: {board.used:,} of {board.allowed:,} tokens."
