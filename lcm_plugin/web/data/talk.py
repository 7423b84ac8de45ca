"""A conversation as talk: its rows by place, and the summaries that stand beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from lcm_plugin.errors import NotFound
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.interchange.export.pictures import KINDS
from lcm_plugin.interchange.export.views import Block, message_data, summary_data
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.sessions.names import named
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation, FileRecord, StoredMessage, Summary, message_ref
from lcm_plugin.text import first_line

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

STRIPE = 50
"""Places that are read at once."""
MOST_BLOCK = 4_000
"""Characters of a block in a list; its page has the rest."""
_WHOLE = 400_000
_MOST_SOURCES = 2_000
_LINE = 160


class RowQuery(BaseModel):
    """Which rows of a talk are asked for: places after one, and whether hidden ones too."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    after: int = Field(default=0, ge=0)
    limit: int = Field(default=STRIPE, ge=1, le=500)
    hidden: bool = False


class SummaryQuery(BaseModel):
    """Which summaries of a conversation are asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    after: str | None = Field(default=None, max_length=64)
    limit: int = Field(default=STRIPE, ge=1, le=500)
    depth: int | None = Field(default=None, ge=0)


def rows(reader: Reader, conversation: Conversation, query: RowQuery) -> dict[str, Any]:
    """The messages at the places after one, each with the leaf that covers it, and these leaves by id.

    ``next`` is the place after which there is more; None at the end. Hidden rows keep their places.
    """
    number, last = conversation.conversation_id, query.after + query.limit
    found = [
        one
        for one in reader.messages(number, after_seq=query.after, limit=query.limit)
        if one.head.seq <= last and (query.hidden or not one.head.hidden)
    ]
    covering = reader.covering_leaf([one.head.message_id for one in found])
    leaves = reader.summaries(sorted(set(covering.values())))
    above = {leaf: reader.derived_from(leaf) for leaf in leaves}
    pictures = _Pictures(reader)
    return {
        "messages": [
            message_data(one, pictures.address, MOST_BLOCK)
            | ({"summary": leaf} if (leaf := covering.get(one.head.message_id)) else {})
            for one in found
        ],
        "summaries": {
            one.summary_id: summary_data(one, ()) | {"above": above[one.summary_id]}
            for one in leaves.values()
        },
        "next": last if last < conversation.next_seq - 1 else None,
    }


def one_message(engine: Engine, reader: Reader, number: int) -> dict[str, Any]:
    """A message with all its words, as it came in, and what covers it; raises `NotFound`."""
    stored = reader.messages_by_id([number]).get(number)
    if stored is None:
        raise NotFound(f"there is no message {message_ref(number)}")
    pictures = _Pictures(reader)
    leaf = reader.covering_leaf([number]).get(number)
    return message_data(stored, pictures.address, _WHOLE) | {
        "conversation": stored.head.conversation_id,
        "summary": leaf,
        "message": rebuild(stored, _file_reader(engine.payloads, reader)),
    }


def one_summary(reader: Reader, summary_id: str) -> dict[str, Any]:
    """A summary with short lines of what it was made of, and the summaries made from it; raises `NotFound`."""
    found = reader.summaries([summary_id]).get(summary_id)
    if found is None:
        raise NotFound(f"there is no summary {summary_id}")
    sources = reader.sources_of([summary_id]).get(summary_id, [])
    return summary_data(found, sources) | {
        "conversation": found.conversation_id,
        "kind": found.kind,
        "fallback_cause": found.fallback_cause,
        "source_tokens": found.source_tokens,
        "made_of": _lines(reader, sources[:_MOST_SOURCES]),
        "above": reader.derived_from(summary_id),
        "earlier": [asdict(one) for one in reader.earlier_texts(found.conversation_id, summary_id)],
    }


def summaries(reader: Reader, conversation: Conversation, query: SummaryQuery) -> dict[str, Any]:
    """Summaries in the order in which they were made; ``next`` is the id after which there is more."""
    found = reader.list_summaries(
        conversation.conversation_id, after=query.after, limit=query.limit + 1, depth=query.depth
    )
    page = found[: query.limit]
    sources = reader.sources_of([one.summary_id for one in page])
    return {
        "summaries": [summary_data(one, sources.get(one.summary_id, ())) for one in page],
        "next": page[-1].summary_id if len(found) > query.limit else None,
    }


def file_of(engine: Engine, reader: Reader, file_id: str) -> tuple[FileRecord, bytes]:
    """A payload and its bytes; raises `NotFound`."""
    record = reader.file(file_id)
    if record is None:
        raise NotFound(f"there is no file {file_id[:40]}")
    return record, engine.payloads.read_file(reader, file_id)


def is_picture(record: FileRecord) -> bool:
    """Whether a payload is a picture that a browser may show in its place."""
    return record.mime_type in KINDS


def title_of(reader: Reader, conversation: Conversation) -> str:
    """What people call a conversation."""
    return (
        named(reader, [conversation])[0].title
        or conversation.session_key
        or f"conversation {conversation.conversation_id}"
    )


class _Pictures:
    """Addresses of pictures on this site."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def address(self, block: Block) -> str:
        record = self._reader.file(block.file_id) if block.file_id else None
        return f"/file/{record.file_id}" if record is not None and is_picture(record) else ""


def _file_reader(payloads: PayloadStore, reader: Reader) -> Any:
    return lambda part: payloads.read_part(reader, part)


def _lines(reader: Reader, refs: Sequence[str]) -> list[dict[str, Any]]:
    """One short line for each of some messages or summaries."""
    messages = reader.messages_by_id([int(ref[4:]) for ref in refs if ref.startswith("msg_")])
    below = reader.summaries([ref for ref in refs if ref.startswith("sum_")])
    by_ref: dict[str, dict[str, Any]] = {
        message_ref(key): _message_line(one) for key, one in messages.items()
    }
    by_ref |= {key: _summary_line(one) for key, one in below.items()}
    return [by_ref[ref] for ref in refs if ref in by_ref]


def _message_line(stored: StoredMessage) -> dict[str, Any]:
    head = stored.head
    words = next((part.text for part in stored.parts if part.text.strip() and part.type != "reasoning"), "")
    return {
        "id": head.ref,
        "what": head.sender or head.role,
        "at": head.created_at,
        "tokens": head.tokens,
        "text": first_line(words, _LINE),
    }


def _summary_line(summary: Summary) -> dict[str, Any]:
    return {
        "id": summary.summary_id,
        "what": "leaf" if summary.depth == 0 else f"depth {summary.depth}",
        "at": summary.earliest_at,
        "tokens": summary.tokens,
        "text": first_line(summary.content, _LINE),
    }
