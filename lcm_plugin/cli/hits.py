"""Hits of a search as people read them: whose they are on one line, and the passage with its match below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from lcm_plugin.recall.highlight import Piece, pieces
from lcm_plugin.sessions.names import named
from lcm_plugin.text import harmless

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.store.protocol import Reader

Hit = Mapping[str, Any]
_LINES = 4
_MINUTES = 16


class HitList:
    """The hits of one answer, with the titles of their conversations; everything is read at once."""

    def __init__(self, engine: Engine, hits: Sequence[Hit]) -> None:
        self._hits = hits
        with engine.store.read() as reader:
            self._texts, self._owners = _texts(reader, hits)
            numbers = sorted(
                {*self._owners.values(), *(int(h["conversation_id"]) for h in hits if "conversation_id" in h)}
            )
            rows = [row for number in numbers if (row := reader.conversation(number)) is not None]
            self._titles = {
                one.row.conversation_id: one.title or one.row.session_key for one in named(reader, rows)
            }

    def lines(self, width: int) -> Iterator[RenderableType]:
        """What to print, within a width."""
        for hit in self._hits:
            yield self._heading(hit, width)
            for one in hit.get("before", ()):
                yield _neighbour(one)
            yield Padding(
                _passage(pieces(hit["snippet"], self._texts.get(hit["id"])), width - 2), (0, 0, 0, 2)
            )
            for one in hit.get("after", ()):
                yield _neighbour(one)
            yield Text("")

    def _heading(self, hit: Hit, width: int) -> Text:
        """Title, time, speaker and id on one line; the title gives way."""
        who = hit.get("sender") or hit.get("name") or hit.get("role") or hit["kind"]
        if hit["kind"] == "summary":
            who = "summary"
        line = f", line {hit['line']}" if hit.get("line") else ""
        back = ", taken back" if hit.get("taken_back") else ""
        facts = f"{str(hit['time'])[:_MINUTES].replace('T', ' ')}  {who}{line}{back}  {hit['id']}"
        number = int(self._owners.get(hit["id"]) or hit.get("conversation_id") or 0)
        title = Text(
            harmless(self._titles.get(number, str(hit.get("session_key", "")))), style="bold", end=""
        )
        title.truncate(max(8, width - len(facts) - 2), overflow="ellipsis")
        return Text.assemble(title, "  ", (harmless(facts), "dim"), no_wrap=True, overflow="ellipsis")


def _texts(reader: Reader, hits: Sequence[Hit]) -> tuple[dict[str, str], dict[str, int]]:
    """The whole texts of hits, and the conversations that they belong to."""
    messages = reader.search_rows("message", [int(hit["id"][4:]) for hit in hits if hit["kind"] == "message"])
    summaries = reader.summaries([hit["id"] for hit in hits if hit["kind"] == "summary"])
    texts = {row.ref: row.text for row in messages.values()} | {
        key: one.content for key, one in summaries.items()
    }
    owners = {row.ref: row.conversation_id for row in messages.values()}
    return texts, owners | {key: one.conversation_id for key, one in summaries.items()}


def _passage(found: Sequence[Piece], width: int) -> Text:
    """The passage round its first match, in a few lines."""
    room = _LINES * width
    first = next((at for at, (_, marked) in enumerate(found) if marked), 0)
    before = sum(len(text) for text, _ in found[:first])
    text = Text()
    for piece, marked in found:
        text.append(harmless(piece), style="bold yellow" if marked else "")
    if len(text) <= room:
        return text
    start = max(0, min(before - room // 2, len(text) - room))
    shown = text[start : start + room - 2]
    return Text.assemble("…" if start else "", shown, "…" if start + room - 2 < len(text) else "")


def _neighbour(one: Mapping[str, Any]) -> RenderableType:
    who = one.get("sender") or one.get("role") or ""
    line = Text(f"{who}: {harmless(str(one['text']))}", style="dim", no_wrap=True, overflow="ellipsis")
    return Padding(line, (0, 0, 0, 2))
