"""How tokens are counted, and whose window is kept: the lines of status and doctor."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lcm_plugin.compaction.policy import Call
from lcm_plugin.errors import StoreError
from lcm_plugin.messages.encodings import ENCODING, encoding_of

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine


def counting(engine: Engine, call: Call | None = None) -> dict[str, Any]:
    """How a database is counted, and how that compares with the model of a call."""
    model, recounted = call.model if call else None, None
    with suppress(StoreError):  # a damaged database can be asked, too
        recounted = engine.recount.finished
    return {
        "encoding": ENCODING,
        "recounted": recounted,
        "model": model,
        "model_encoding": encoding_of(model),
        "factor": round(engine.calibration.factor(model), 3),
        "compared_calls": engine.calibration.samples(model),
    }


def counting_text(data: dict[str, Any]) -> str:
    """The same for people."""
    parts = [f"counted with {data['encoding']}"]
    if data["model"]:
        own = data["model_encoding"] == data["encoding"]
        parts.append(f"{data['model']} counts {'so, too' if own else 'in its own way'}")
    if data["compared_calls"]:
        parts.append(
            f"the provider counts {data['factor']:g} for one ({data['compared_calls']:,} calls compared)"
        )
    if data["recounted"] is False:
        parts.append("rows from before are being counted again")
    return "; ".join(parts)


def window_source(engine: Engine, call: Call) -> str:
    """Who says how long a call may be: ``provider``, ``settings``, ``host`` or ``nobody``."""
    if engine.windows.limit(call.model, call.window) or engine.windows.ceiling(call.model):
        return "provider"
    if engine.config.max_assembly_token_budget:
        return "settings"
    return "host" if call.window else "nobody"


WINDOW_WORDS = {
    "provider": "learned from calls that the provider refused",
    "settings": "set by `maxAssemblyTokenBudget`",
    "host": "named by the host",
    "nobody": "**assumed**, since nobody named the model's window",
}
