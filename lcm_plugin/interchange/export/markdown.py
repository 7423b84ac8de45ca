"""Conversations as Markdown that a person reads from top to bottom.

Whatever a message holds stays inside its place: code and tool output stand in fences longer than any run of
backticks within, and what would begin a heading, a quotation or an element of HTML is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from lcm_plugin.interchange.export.views import (
    Block,
    SummaryView,
    blocks_of,
    indented_json,
    is_record,
    summaries_of,
)
from lcm_plugin.sessions.names import talk_count
from lcm_plugin.store.protocol import Reader, iterate_items, iterate_messages
from lcm_plugin.store.records import Conversation, Item, StoredMessage
from lcm_plugin.text import fenced, first_line, harmless, inline

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# A fence that stands at the margin is none of a list's, so it ends only where it is closed.
_FENCE = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})")
_LINE_END = re.compile(r"\r\n|\r|\n")
# What would make a heading: its signs behind any list marks and quotation marks, or a line under a text.
_HEADING = re.compile(r"^((?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t])))*[ \t]*)(#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(r"^([ \t>]*)([-=]+[ \t]*)$")
# What would begin an element, an entity, or a picture that is fetched when the page is shown.
_ELEMENT = re.compile(r"<(?=[A-Za-z/!?])")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_TITLES = {"call": "calls", "result": "result of", "reasoning": "reasoning", "other": ""}


def write_markdown(
    reader: Reader,
    write: Callable[[bytes], object],
    conversations: Sequence[Conversation],
    *,
    zone: str,
    now: int,
    progress: Callable[[int], None] = lambda messages: None,
) -> None:
    """Writes the conversations one after the other. Times are in the IANA zone ``zone``."""
    clock = _Clock(ZoneInfo(zone), zone)
    done = 0
    for conversation in conversations:
        for text in _conversation(reader, conversation, clock, now):
            write(harmless(text).encode())
            if text.startswith("### "):
                done += 1
                progress(done)


class _Clock:
    """Times in one zone."""

    def __init__(self, zone: tzinfo, name: str) -> None:
        self._zone, self.name = zone, name

    def at(self, ms: int) -> datetime:
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone(self._zone)

    def moment(self, ms: int) -> str:
        return f"{self.at(ms):%Y-%m-%d %H:%M:%S}"

    def span(self, first: int, last: int) -> str:
        start, end = self.at(first), self.at(last)
        if start.date() == end.date():
            return f"{start:%Y-%m-%d %H:%M}–{end:%H:%M}"
        return f"{start:%Y-%m-%d %H:%M} – {end:%Y-%m-%d %H:%M}"


def _conversation(reader: Reader, row: Conversation, clock: _Clock, now: int) -> Iterator[str]:
    number = row.conversation_id
    shown = sum(1 for item in iterate_items(reader, number) if not item.hidden)
    state = "in use" if row.active else f"archived ({row.archive_cause or 'ended'})"
    yield f"# {inline(row.session_key or f'Conversation {number}')}\n\n"
    yield (
        f"| | |\n|---|---|\n| conversation | {number}, {state} |\n| messages | {talk_count(reader, row):,} |\n"
        f"| context | {row.context_tokens:,} tokens in {shown:,} items |\n"
        f"| from | {clock.moment(row.created_at)} |\n| last used | {clock.moment(row.updated_at)} |\n"
        f"| times | {clock.name}; written {clock.moment(now)} |\n\n"
    )
    yield from _time_line(reader, number, clock)
    yield from _context(reader, number)
    yield from _summaries(reader, number, clock)
    yield "## Messages\n\n"
    day = ""
    for stored in iterate_messages(reader, number):
        if is_record(stored):
            continue
        date = f"{clock.at(stored.head.created_at):%A, %d %B %Y}"
        if date != day:
            yield f"**{date}**\n\n"
            day = date
        yield _message(stored, clock)


def _time_line(reader: Reader, number: int, clock: _Clock) -> Iterator[str]:
    """How many messages each day has."""
    days: dict[str, int] = {}
    for stored in iterate_messages(reader, number):
        if is_record(stored):
            continue
        date = f"{clock.at(stored.head.created_at):%Y-%m-%d}"
        days[date] = days.get(date, 0) + 1
    yield "## Time line\n\n| day | messages |\n|---|---|\n"
    for date, count in days.items():
        yield f"| {date} | {count:,} |\n"
    yield "\n"


def _context(reader: Reader, number: int) -> Iterator[str]:
    yield "## Context\n\nWhat the model is given, in this order:\n\n"
    run: list[Item] = []
    for item in iterate_items(reader, number):
        if item.message is not None:
            run += [] if item.hidden else [item]
            continue
        yield _run_line(run)
        run = []
        kind = "leaf summary" if item.depth == 0 else f"summary of depth {item.depth}"
        yield f"- [{item.ref}](#{item.ref}), {kind}, {item.tokens:,} tokens\n"
    yield _run_line(run)
    yield "\n"


def _run_line(run: list[Item]) -> str:
    if not run:
        return ""
    tokens = sum(item.tokens for item in run)
    names = run[0].ref if len(run) == 1 else f"{run[0].ref} to {run[-1].ref}"
    return f"- {names}, {len(run):,} as they were, {tokens:,} tokens\n"


def _summaries(reader: Reader, number: int, clock: _Clock) -> Iterator[str]:
    views = summaries_of(reader, number)
    first = next(views, None)
    if first is None:
        return
    yield "## Summaries\n\n"
    yield _summary(first, clock)
    for view in views:
        yield _summary(view, clock)


def _summary(view: SummaryView, clock: _Clock) -> str:
    summary = view.summary
    kind = "Leaf" if summary.depth == 0 else f"Depth {summary.depth}"
    sources = ", ".join(f"[{one}](#{one})" if one.startswith("sum_") else one for one in view.sources)
    return (
        f'<a id="{summary.summary_id}"></a>\n**{kind} · {summary.summary_id}** · '
        f"{clock.span(summary.earliest_at, summary.latest_at)} · {summary.message_count:,} messages, "
        f"{summary.message_tokens:,} → {summary.tokens:,} tokens\n\n{prose(summary.content)}\n\n"
        f"<details><summary>Made from {len(view.sources):,}</summary>\n\n{sources}\n\n</details>\n\n"
    )


def _message(stored: StoredMessage, clock: _Clock) -> str:
    head = stored.head
    who = head.role if not head.sender or head.sender == head.role else f"{head.role} · {head.sender}"
    hidden = " · taken back" if head.withdrawn_at is not None else " · never sent" if head.hidden else ""
    notes = f" · {head.tokens:,} tokens{hidden}"
    title = f"### {inline(who)} · {clock.at(head.created_at):%H:%M:%S}\n\n<sub>{head.ref}{notes}</sub>\n\n"
    blocks = [_block(block) for block in blocks_of(stored)] or ["*No text.*"]
    return title + "\n\n".join(blocks) + "\n\n"


def _block(block: Block) -> str:
    if block.kind == "text" and not block.file_id:
        return prose(block.text)
    if block.kind == "file" or block.file_id:
        return fenced(block.text.rstrip())
    title = f"{_TITLES[block.kind]} {block.name}".strip() or "block"
    text = block.text
    language = ""
    if block.kind == "call":
        text = indented_json(text)
        language = "json" if text != block.text or text.startswith(("{", "[")) else ""
    hint = first_line(block.text, 60).translate(_HTML)
    body = prose(text) if block.kind == "reasoning" else fenced(text.rstrip(), language)
    return f"<details><summary>{title.translate(_HTML)}: {hint}</summary>\n\n{body}\n\n</details>"


def prose(text: str) -> str:
    """A text with its own Markdown, that can neither end its place nor begin a section or an element.

    Code in fences stays as it is; a fence that is never closed is closed at the end.
    """
    lines: list[str] = []
    fence = ""
    for line in _LINE_END.split(text.rstrip()):
        if fence:
            lines.append(line)
            if re.fullmatch(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*", line):
                fence = ""
        elif opened := _FENCE.match(line):
            fence = opened[1]
            lines.append(line)
        else:
            lines.append(_plain(line))
    return "\n".join([*lines, fence] if fence else lines)


def _plain(line: str) -> str:
    line = _ENTITY.sub("&amp;", _ELEMENT.sub("&lt;", line)).replace("![", "!\\[")
    return _UNDERLINE.sub(r"\1\\\2", _HEADING.sub(r"\1\\\2", line))
