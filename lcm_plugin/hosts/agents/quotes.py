"""The quotes, and what recall tools answered, in a host's context, in their order: it decides what is read last."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, field

from lcm_plugin.assembly.recalled import Quote
from lcm_plugin.messages.markup import found_ids_of

# Gemini CLI escapes what a hook adds.
_BLOCK = re.compile(r"(?:<|&lt;)recalled(?:>|&gt;).*?(?:<|&lt;)/recalled(?:>|&gt;)", re.DOTALL)
_LINE = re.compile(r"(?m)^(msg_\d+) · .*(?:\n(?!msg_\d+ · |</recalled>).*)*")
_IN_JSON = 2
"""A log holds what a hook printed as a text in JSON, or as JSON in such a text."""


@dataclass(slots=True)
class Read:
    """What is read of messages in a context beside the talk itself: ``quotes``, and ``places`` of answers to searches."""

    quotes: dict[str, Quote] = field(default_factory=dict[str, Quote])
    places: dict[str, int] = field(default_factory=dict[str, int])
    _last: int = 0

    def add(self, text: str) -> None:
        """Reads on: all blocks of quotes and answers of a text, which may be a log in JSON, stand behind what was read."""
        end = 0
        for block in _BLOCK.finditer(text):
            self._find(text[end : block.start()])
            self._quote(_plain(block.group()))
            end = block.end()
        self._find(text[end:])

    def _quote(self, block: str) -> None:
        for line in _LINE.finditer(block):
            self._last += 1
            ref = line.group(1)
            said = {self.quotes[ref].text: None} if ref in self.quotes else {}
            self.quotes[ref] = Quote("\n".join(said | {line.group(): None}), self._last)

    def _find(self, text: str) -> None:
        for ref in found_ids_of(text):
            self._last += 1
            self.places[ref] = self._last


def _plain(block: str) -> str:
    for _ in range(_IN_JSON):
        if "\n" in block:
            break
        try:
            block = json.loads(f'"{block}"')
        except ValueError:
            break
    return html.unescape(block) if block.startswith("&lt;") else block
