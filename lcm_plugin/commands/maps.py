"""``/lcm maps``: how far maps are, and what they cost."""

from __future__ import annotations

from dataclasses import asdict

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.texts import DONE, FAILED, NOOP
from lcm_plugin.store.maps.records import MapRecord
from lcm_plugin.text import inline, plural
from lcm_plugin.types import CommandResult, Session

_SHOWN = 20


def maps(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Lists the newest maps, or stops one."""
    if words:
        return _stop(engine, session, words)
    found = engine.maps.listed(session, limit=_SHOWN)
    data = {"outcome": DONE if found else NOOP, "maps": [asdict(one) for one in found]}
    if not found:
        return CommandResult("There are no maps here.", data)
    return CommandResult("\n".join(map(map_line, found)), data)


def map_line(record: MapRecord) -> str:
    """One map as an item of a list."""
    state = f"{record.state}, {record.reason}" if record.reason else record.state
    failed = f", {record.failed:,} failed" if record.failed else ""
    cost = f", ${record.cost / 1_000_000:,.4f}" if record.cost else ""
    return (
        f"- `{record.map_id}` {inline(state)}: {record.done:,} of {plural(record.items, 'item')} answered{failed}, "
        f"{plural(record.spent, 'token')}{cost}; {inline(record.source)}"
    )


def _stop(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    if len(words) != 2 or words[0] != "stop":
        return CommandResult(
            "It is written `/lcm maps` or `/lcm maps stop map_…`.", {"outcome": FAILED}, ok=False
        )
    record = engine.maps.stop(engine.maps.find(session, words[1]).map_id)
    return CommandResult(f"Stopped.\n{map_line(record)}", {"outcome": DONE, "map": asdict(record)})
