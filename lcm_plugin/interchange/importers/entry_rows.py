"""Makes rows of a source's entries: redacted, split into parts and counted as a host's messages are."""

from __future__ import annotations

import json
from dataclasses import replace

from lcm_plugin.engine import Engine
from lcm_plugin.errors import InputError
from lcm_plugin.ingest.host_noise import StandingTexts
from lcm_plugin.ingest.redaction import Redactor
from lcm_plugin.ingest.rows import PreparedRow, RowMaker, incoming_of
from lcm_plugin.interchange.importers.records import Entry, SourceConversation, aside
from lcm_plugin.interchange.importers.report import ConversationReport
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import Call, calls_of
from lcm_plugin.messages.convert import to_message
from lcm_plugin.store.records import Part
from lcm_plugin.types import Message

_KNOWN_CALLS = 512
# In the head of a fork's conversation: the keys of the sessions that it begins as.
FORKED_FROM = "forked_from_session_keys"
# The stored id of a head begins so.
HEAD = "assistant:import:"


class EntryRows:
    """Makes rows for one conversation; remembers its newest calls, which give results their tool's name."""

    def __init__(self, engine: Engine, key: str) -> None:
        config = engine.config
        self._maker = RowMaker(engine.counter, engine.payloads)
        self._redactor = Redactor(config.redact_patterns)
        self._noise = StandingTexts(config.host_note_patterns, config.control_message_patterns)
        self._key = key
        self._calls: LruCache[str, Call] = LruCache(_KNOWN_CALLS)

    def make(self, entry: Entry, at: int) -> PreparedRow:
        """A row for an entry, under the source's id and time. Raises `InputError` for an unstorable entry."""
        try:
            message = self._redacted(to_message(entry.message)[0])
        except InputError as error:
            raise InputError(f"{entry.place or entry.id}: {error}") from error
        for call in calls_of(message):
            if call.id:
                self._calls.put(call.id, call)
        item = incoming_of(message, self._noise)
        prepared = self._maker.make(message, item, self._key, at, self._calls.get_all(item.answers))
        row = replace(
            prepared.row,
            created_at=at,
            host_id=entry.host_id,
            hidden=prepared.row.hidden or entry.hidden,
            sender=prepared.row.sender or entry.sender,
            parts=(*prepared.row.parts, *self._extras(entry, len(prepared.row.parts))),
        )
        return replace(prepared, row=row)

    def text(self, text: str) -> str:
        """A summary's text as it may be stored."""
        return self._redactor.text(text) if self._redactor.active else text

    def _redacted(self, message: Message) -> Message:
        return self._redactor.message(message) if self._redactor.active else message

    def _extras(self, entry: Entry, first: int) -> list[Part]:
        return [
            Part(first + number, kind, "", "", metadata=json.dumps(self._redacted(dict(data))))
            for number, (kind, data) in enumerate(entry.extras)
        ]


def head_entry(format_name: str, source: SourceConversation, report: ConversationReport) -> Entry:
    """The first row of an imported conversation: its origin, by which a later run finds it."""
    values = {
        "format": format_name,
        "source_id": source.source_id,
        "session": source.name,
        "sub_agent": source.sub,
        "branch": source.branch,
        "parent_session_key": report.parent,
        FORKED_FROM: list(report.forked_from),
        "title": source.title,
        **source.about,
    }
    kind = "subtask" if report.parent else "agent"
    about = {key: value for key, value in values.items() if value not in (None, "", {}, [])}
    return aside(f"import:{format_name}:{source.source_id}", kind, about, source.started_at)
