"""Output of commands: JSON for programs, tables that fit the terminal, tabs for pipes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from lcm_plugin.text import harmless, harmless_json

if TYPE_CHECKING:
    from rich.console import Console


def print_json(value: Any) -> None:
    """One JSON document on standard output; indented in a terminal."""
    indent = 2 if sys.stdout.isatty() else None
    text = harmless_json(json.dumps(value, ensure_ascii=False, indent=indent, default=str))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=indent, default=str)
    print(text)


def print_text(text: str) -> None:
    """A text as it is; in a terminal without the control characters that would steer it."""
    if sys.stdout.isatty():
        text = harmless(text)
    sys.stdout.buffer.write(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace") + b"\n")


def say(text: str, *, error: bool = False) -> None:
    """A line for people, on standard output or standard error, in which nothing steers the terminal."""
    print(harmless(text), file=sys.stderr if error else sys.stdout, flush=True)


def console() -> Console:
    """Standard output for text that a person reads; plain when it is not a terminal."""
    from lcm_plugin.cli.tables import HarmlessConsole

    width = None if sys.stdout.isatty() else 120
    return HarmlessConsole(width=width, highlight=False, soft_wrap=not sys.stdout.isatty(), emoji=False)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    yields: str | None = None,
    wraps: bool = False,
) -> None:
    """A table in a terminal, tab-separated lines with a heading in a pipe.

    In a terminal that is too narrow the column ``yields`` is cut short, or wrapped if ``wraps``; no other is.
    """
    cells = [[_one_line(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in (columns, *cells):
            print("\t".join(row))
        return
    from lcm_plugin.cli.tables import laid_out

    screen = console()
    screen.print(laid_out(columns, cells, yields=yields, wraps=wraps, width=screen.width))


def print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Names and values, one pair a line; tab-separated in a pipe."""
    if not sys.stdout.isatty():
        for name, value in pairs:
            print(f"{name}\t{_one_line(value)}")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in pairs:
        table.add_row(Text(name, style="dim"), Text(_one_line(value)))
    console().print(table)


def moment(milliseconds: int | None) -> str:
    """A time as people read it, in UTC; a dash for none."""
    if milliseconds is None:
        return "-"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


class Update(Protocol):
    """Takes how much is done in all, and a word beside it."""

    def __call__(self, done: int, remark: str = "") -> None: ...


@contextmanager
def progress(title: str, total: int, unit: str, quiet: bool = False) -> Iterator[Update]:
    """A bar on standard error with rate and remaining time; silent when that is not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, remark="": None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from lcm_plugin.cli.tables import HarmlessConsole

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=HarmlessConsole(stderr=True, emoji=False),
        transient=True,
    )
    with bar:
        task = bar.add_task(title, total=total, rate="")

        def update(done: int, remark: str = "") -> None:
            speed = bar.tasks[task].speed
            rate = f"{speed:,.0f} {unit}/s" if speed else ""
            bar.update(task, completed=done, rate=" · ".join(filter(None, (rate, remark))))

        yield update


@contextmanager
def working(title: str) -> Iterator[Callable[[str], None]]:
    """A spinner on standard error with the time gone by, for work whose length nobody knows beforehand.

    Yields a function that takes a word on how far it is.
    """
    if not sys.stderr.isatty():
        yield lambda remark: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from lcm_plugin.cli.tables import HarmlessConsole

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=HarmlessConsole(stderr=True, emoji=False), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda remark: bar.update(task, description=f"{title}: {remark}")


def _one_line(cell: object) -> str:
    return harmless(" ".join(str(cell).split())).encode("utf-8", "replace").decode()
