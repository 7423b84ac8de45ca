"""One HTML page with conversations in it: no network, no text of a message is run.

Texts stand in the page as JSON in which ``<`` is escaped, so none can end its element; the page's own script puts
them into the document as text, or as Markdown without elements of its own. A content security policy with the hashes
of that script and of the style sheet forbids everything else. Messages are read and written one by one, so memory
stays flat.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from lcm_plugin.compaction.policy import Limits
from lcm_plugin.config import LcmConfig
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.interchange.export.pictures import Pictures
from lcm_plugin.interchange.export.views import is_record, message_data, summaries_of, summary_data
from lcm_plugin.sessions.names import NamedConversation, named
from lcm_plugin.store.protocol import Reader, iterate_items, iterate_messages
from lcm_plugin.store.records import Conversation
from lcm_plugin.text import harmless

_MARK = re.compile(r"\{\{(\w+)\}\}")
# In the order in which they build on each other.
_SCRIPTS = (
    *(
        "shared/shared.js",
        "page/markdown-it.min.js",
        "page/base.js",
        "page/prose.js",
        "page/history.js",
        "page/map.js",
    ),
    *("page/list.js", "page/detail.js", "page/search.js", "page/choose.js", "page/page.js"),
)
_STYLES = ("shared/shared.css", "page/page.css")

Write = Callable[[bytes], object]


def write_page(
    reader: Reader,
    write: Write,
    conversations: Sequence[Conversation],
    config: LcmConfig,
    *,
    limits: Callable[[Conversation], Limits],
    now: int,
    payloads: PayloadStore | None = None,
    progress: Callable[[int], None] = lambda messages: None,
) -> None:
    """Writes the page. ``limits`` gives those of a conversation's newest call; ``progress`` is called with the number of
    messages.

    Small pictures among the ``payloads`` are shown themselves.
    """
    listed = [_about(one, limits(one.row), config) for one in named(reader, conversations)]
    before, after = (_filled(part, listed) for part in _resource("page/page.html").split("{{data}}"))
    write(before.encode("utf-8", "replace"))
    about = {"exported": now, "timezone": config.timezone, "conversations": listed}
    _write_data(write, "about", [json.dumps(about)])
    done = 0
    pictures = Pictures(reader, payloads)
    for conversation in conversations:
        done = _write_conversation(reader, write, conversation.conversation_id, pictures, progress, done)
    write(after.encode())


def _filled(page: str, conversations: Sequence[Mapping[str, Any]]) -> str:
    """A part of the page, its script and style inside."""
    style = "".join(_resource(name) for name in _STYLES)
    script = "".join(_resource(name) for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    title = conversations[0]["title"] if len(conversations) == 1 else f"{len(conversations)} conversations"
    values = {
        "policy": policy,
        "title": html.escape(harmless(title)),
        "style": style,
        "script": script,
    }
    return _MARK.sub(lambda mark: values[mark[1]], page)


def _resource(name: str) -> str:
    return files("lcm_plugin.interchange.export").joinpath(*name.split("/")).read_text(encoding="utf-8")


def _source(text: str) -> str:
    """How a policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _write_data(write: Write, name: str, pieces: Sequence[str]) -> None:
    write(f'<script type="application/json" id="{name}">'.encode())
    for piece in pieces:
        write(_harmless(piece))
    write(b"</script>\n")


def _harmless(text: str) -> bytes:
    """JSON that can end no element and begin no comment."""
    return text.replace("<", "\\u003c").encode("utf-8", "replace")


def _write_conversation(
    reader: Reader,
    write: Write,
    conversation_id: int,
    pictures: Pictures,
    progress: Callable[[int], None],
    done: int,
) -> int:
    write(f'<script type="application/json" id="conversation-{conversation_id}">{{"messages":['.encode())
    comma = b""
    records: set[str] = set()
    for stored in iterate_messages(reader, conversation_id):
        done += 1
        progress(done)
        if is_record(stored):
            records.add(stored.head.ref)
            continue
        write(comma + _harmless(_compact(message_data(stored, pictures.address))))
        comma = b",\n"
    write(b'],"summaries":[')
    comma = b""
    for view in summaries_of(reader, conversation_id):
        write(comma + _harmless(_compact(summary_data(view.summary, view.sources))))
        comma = b",\n"
    shown = (item for item in iterate_items(reader, conversation_id) if item.ref not in records)
    items = [[item.ref, item.tokens] for item in shown]
    write(b'],"context":' + _harmless(_compact(items)) + b"}</script>\n")
    return done


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _about(one: NamedConversation, limits: Limits, config: LcmConfig) -> dict[str, Any]:
    row, call = one.row, limits.call
    return {
        "id": row.conversation_id,
        "key": row.session_key,
        "title": one.title or row.session_key or f"Conversation {row.conversation_id}",
        "project": row.project,
        "source": row.source,
        "active": row.active,
        "ended": row.archive_cause,
        "messages": one.messages,
        "to": row.updated_at,
        "budget": config.budget(call.budget),
        "overhead": call.overhead,
        "soft": limits.soft,
        "hard": limits.hard,
    }
