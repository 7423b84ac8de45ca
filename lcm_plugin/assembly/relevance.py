"""How much a context item has to do with the prompt; used only when promptAwareEviction is on."""

from __future__ import annotations

import re
from collections.abc import Callable

from lcm_plugin.assembly.render import Rendered

_WORD = re.compile(r"\w+")


def scorer(prompt: str) -> Callable[[Rendered], float] | None:
    """Scores by the share of the prompt's words that occur; None for a prompt without words."""
    wanted = {word for word in _WORD.findall(prompt.lower()) if len(word) > 2 or not word.isascii()}
    if not wanted:
        return None

    def score(item: Rendered) -> float:
        content = item.message.get("content")
        words = set(_WORD.findall(content.lower())) if isinstance(content, str) else set()
        return len(wanted & words) / len(wanted)

    return score
