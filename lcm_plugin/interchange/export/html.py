"""One HTML page with a conversation in it: no network, no library, no text of a message is run.

Texts stand in the page as JSON in which ``<`` is escaped, so none can end its element; the page's own script puts
them into the document as text. A content security policy with the hashes of that script and of the style sheet
forbids everything else. Messages are read and written one by one, so memory stays flat.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from lcm_plugin.config import LcmConfig
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.interchange.export.pictures import Pictures
from lcm_plugin.interchange.export.views import is_record, message_data, summaries_of, summary_data
from lcm_plugin.sessions.names import talk_count
from lcm_plugin.store.protocol import Reader, iterate_items, iterate_messages
from lcm_plugin.store.records import Conversation
from lcm_plugin.text import harmless

_MARK = re.compile(r"\{\{(\w+)\}\}")
# In the order in which they build on each other.
_SCRIPTS = ("base.js", "history.js", "map.js", "list.js", "detail.js", "page.js")

Write = Callable[[bytes], object]


def write_page(
    reader: Reader,
    write: Write,
    conversations: Sequence[Conversation],
    config: LcmConfig,
    *,
    budget: int,
    now: int,
    payloads: PayloadStore | None = None,
    progress: Callable[[int], None] = lambda messages: None,
) -> None:
    """Writes the page. ``budget`` is compared with the context; ``progress`` is called with the number of messages.

    Small pictures among the ``payloads`` are shown themselves.
    """
    before, after = (_filled(part, conversations) for part in _resource("page.html").split("{{data}}"))
    write(before.encode("utf-8", "replace"))
    about = {
        "exported": now,
        "budget": budget,
        "soft": config.context_threshold,
        "hard": config.hard_threshold,
        "timezone": config.timezone,
        "conversations": [_about(reader, conversation) for conversation in conversations],
    }
    _write_data(write, "about", [json.dumps(about)])
    done = 0
    pictures = Pictures(reader, payloads)
    for conversation in conversations:
        done = _write_conversation(reader, write, conversation.conversation_id, pictures, progress, done)
    write(after.encode())


def _filled(page: str, conversations: Sequence[Conversation]) -> str:
    """A part of the page, its script and style inside."""
    style = _resource("page.css")
    script = "".join(_resource(name) for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    title = conversations[0].session_key if len(conversations) == 1 else f"{len(conversations)} conversations"
    values = {
        "policy": policy,
        "title": html.escape(harmless(title or "Conversation")),
        "style": style,
        "script": script,
    }
    return _MARK.sub(lambda mark: values[mark[1]], page)


def _resource(name: str) -> str:
    return files("lcm_plugin.interchange.export").joinpath("page", name).read_text(encoding="utf-8")


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


def _about(reader: Reader, conversation: Conversation) -> dict[str, Any]:
    return {
        "id": conversation.conversation_id,
        "key": conversation.session_key,
        "run": conversation.session_id,
        "active": conversation.active,
        "ended": conversation.archive_cause,
        "messages": talk_count(reader, conversation),
        "from": conversation.created_at,
        "to": conversation.updated_at,
        "restart": conversation.restart_seq,
    }
