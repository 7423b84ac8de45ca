"""A console that lets no text through that steers the terminal, whoever gave it to which part of rich."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from lcm_plugin.text import harmless


class HarmlessConsole(Console):
    """Rich's console; what it writes of its own (colours, cursor) is left as it is."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments, those that are texts without steering characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)
