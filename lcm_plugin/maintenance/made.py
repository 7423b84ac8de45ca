"""A finding, in the words of its rule."""

from __future__ import annotations

from lcm_plugin.maintenance.rules import RULES
from lcm_plugin.types import Finding


def made(code: str, conversation_id: int | None, ids: tuple[str, ...], detail: str = "") -> Finding:
    """A finding of a class of `RULES`. ``detail`` is what was seen, in a few words."""
    rule = RULES[code]
    about = f"{', '.join(ids)} {detail}".strip()
    message = f"{rule.meaning}: {about}" if about else rule.meaning
    return Finding(code, rule.severity, message, ids, conversation_id, rule.repair)
