"""Messages as talk: who said it and when, rendered Markdown, tool calls and results on a line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.text import Text

from lcm_plugin.cli.output import moment
from lcm_plugin.interchange.export.views import Block, blocks_of, indented_json
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.store.records import StoredMessage
from lcm_plugin.text import first_line, harmless
from lcm_plugin.types import Message

_COLOURS = {"user": "bold blue", "assistant": "bold green", "tool": "bold yellow"}
_LINE = 160


def rendered(rows: Sequence[StoredMessage], chosen: int | None = None) -> Iterator[RenderableType]:
    """Messages for a terminal; the ``chosen`` one (its id) is pointed at."""
    day = ""
    for stored in rows:
        head = stored.head
        date, _, time = moment(head.created_at).partition(" ")
        if date != day:
            yield Text(f"── {date} ──", style="dim", justify="center")
            day = date
        back = "  taken back" if head.withdrawn_at is not None else "  never sent" if head.hidden else ""
        yield Text.assemble(
            ("▶ " if head.message_id == chosen else "", "bold"),
            (harmless(head.sender or head.role), _COLOURS.get(head.role, "bold")),
            (f"  {time}  {head.ref}{back}", "dim"),
        )
        for block in blocks_of(stored):
            yield Padding(_block(block), (0, 0, 0, 2))
        yield Text("")


def message_text(stored: StoredMessage, message: Message) -> str:
    """A message's words for a person: texts as they are, calls and results under their tool's name.

    What stands in the place of a removed text is in the ``message`` alone.
    """
    return "\n\n".join(_plain(block) for block in blocks_of(stored)) or text_of(message) or "(no text)"


def _block(block: Block) -> RenderableType:
    if block.kind == "text":
        return Markdown(harmless(block.text), hyperlinks=False)
    line = first_line(block.text, _LINE)
    return Text(f"{_title(block)} {harmless(line)}", style="dim", no_wrap=True, overflow="ellipsis")


def _plain(block: Block) -> str:
    if block.kind == "text":
        return block.text
    text = indented_json(block.text) if block.kind == "call" else block.text
    return f"[{_title(block)}]\n{text}"


def _title(block: Block) -> str:
    words = {"call": "calls", "result": "result of", "reasoning": "thought", "file": "file", "other": ""}
    return f"{words[block.kind]} {harmless(block.name)}".strip() or "note"
