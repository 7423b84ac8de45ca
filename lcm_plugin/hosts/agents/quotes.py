"""The quotes that stand in a host's context, in their order: beside which prompt each stands decides what is read last."""

from __future__ import annotations

import html
import json
import re

from lcm_plugin.assembly.recalled import Quote

# Gemini CLI escapes what a hook adds.
_BLOCK = re.compile(r"(?:<|&lt;)recalled(?:>|&gt;).*?(?:<|&lt;)/recalled(?:>|&gt;)", re.DOTALL)
_LINE = re.compile(r"(?m)^(msg_\d+) · .*(?:\n(?!msg_\d+ · |</recalled>).*)*")
_IN_JSON = 2
"""A log holds what a hook printed as a text in JSON, or as JSON in such a text."""


def quotes_in(text: str, quotes: dict[str, Quote] | None = None) -> dict[str, Quote]:
    """The quotes of all blocks in a text, which may be a log in JSON, by message; they are added to earlier ones."""
    found = {} if quotes is None else quotes
    last = max((one.at for one in found.values()), default=0)
    for block in _BLOCK.finditer(text):
        for line in _LINE.finditer(_plain(block.group())):
            last += 1
            ref = line.group(1)
            said = {found[ref].text: None} if ref in found else {}
            found[ref] = Quote("\n".join(said | {line.group(): None}), last)
    return found


def _plain(block: str) -> str:
    for _ in range(_IN_JSON):
        if "\n" in block:
            break
        try:
            block = json.loads(f'"{block}"')
        except ValueError:
            break
    return html.unescape(block) if block.startswith("&lt;") else block
