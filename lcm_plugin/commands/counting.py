"""How tokens are counted, and whose window is kept: the lines of status and doctor."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.compaction.policy import Call
from lcm_plugin.errors import StoreError
from lcm_plugin.messages.encodings import ENCODING, encoding_of


def counting(engine: EngineFacade, call: Call | None = None) -> dict[str, Any]:
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


WINDOW_WORDS = {
    "provider": "learned from calls that the provider refused",
    "settings": "set by `maxAssemblyTokenBudget`",
    "host": "named by the host",
    "nobody": "**assumed**, since nobody named the model's window",
}
