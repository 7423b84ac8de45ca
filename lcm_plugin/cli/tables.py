"""Terminal output through rich: a console that nothing steers, and tables whose cells stay whole.

No id, number or time is ever broken over two lines. One column may give way, by words or with an ellipsis. Where the
others alone are too wide for the terminal, each row becomes a small block of ``name value`` pairs instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lcm_plugin.text import harmless

GAP = 2
LEAST_TEXT = 16
"""Columns that the yielding column must keep for a table to be worth it."""
_NUMBER = re.compile(r"-|[\d,.]+( (B|KiB|MiB|GiB))?")


class HarmlessConsole(Console):
    """Rich's console; its own control codes (colours, cursor) pass."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments, those that are texts without steering characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)


def laid_out(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, yields: str | None, wraps: bool, width: int
) -> RenderableType:
    """A table of ``width`` columns, or blocks where it does not fit. ``yields`` names the column that gives way."""
    widths = [max(map(cell_len, (name, *(row[at] for row in rows)))) for at, name in enumerate(columns)]
    over = sum(widths) + GAP * (len(widths) - 1) - width
    if over > 0:
        at = columns.index(yields) if yields is not None else None
        if at is None or widths[at] - over < min(LEAST_TEXT, widths[at]):
            return Group(*(_block(columns, row, yields, wraps=wraps, width=width) for row in rows))
        widths[at] -= over
    return _table(columns, rows, widths, yields if wraps else None)


class Longest:
    """The longest of several lines that fits; the last one, cut short, when none does."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = [Text.from_markup(line, emoji=False, overflow="ellipsis", end="") for line in lines]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        room = options.max_width
        fitting = (line for line in self._lines if line.cell_len <= room)
        line = next(fitting, self._lines[-1]).copy()
        line.truncate(room, overflow="ellipsis")
        line.end = "\n"
        yield line

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, self._lines[0].cell_len)


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], wrapping: str | None
) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for at, name in enumerate(columns):
        numbers = bool(rows) and all(_NUMBER.fullmatch(row[at]) for row in rows)
        table.add_column(
            name,
            width=widths[at],
            justify="right" if numbers else "left",
            no_wrap=name != wrapping,
            overflow="fold" if name == wrapping else "ellipsis",
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _block(
    columns: Sequence[str], row: Sequence[str], yields: str | None, *, wraps: bool, width: int
) -> RenderableType:
    """A row as pairs, as many on a line as fit; the yielding cell on lines of its own."""
    lines = [Text()]
    for name, cell in zip(columns, row, strict=True):
        if name == yields:
            continue
        pair = Text.assemble((name, "dim"), " ", cell, overflow="fold")
        if lines[-1] and lines[-1].cell_len + GAP + pair.cell_len > width:
            lines.append(Text("  "))
        elif lines[-1]:
            lines[-1].append(" " * GAP)
        lines[-1].append_text(pair)
    if yields is not None and (text := row[columns.index(yields)]):
        last = Text(f"  {text}", overflow="fold" if wraps else "ellipsis", no_wrap=not wraps)
        lines += last.wrap(Console(width=width), width - GAP) if wraps else [last]
    return Group(*lines)
