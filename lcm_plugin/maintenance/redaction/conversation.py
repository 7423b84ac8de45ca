"""Redacts one conversation: its messages, its summaries, its payloads and their descriptions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lcm_plugin.errors import LcmError
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.files.find import decode, encode_as, replace_slices
from lcm_plugin.ingest.host_noise import StandingTexts
from lcm_plugin.ingest.redaction import MARK
from lcm_plugin.ingest.rows import PreparedRow, RowMaker, incoming_of
from lcm_plugin.ingest.shown import media_place, text_block
from lcm_plugin.maintenance.redaction.maps import redact_maps
from lcm_plugin.maintenance.redaction.targets import Target
from lcm_plugin.messages.blocks import Call, calls_of
from lcm_plugin.messages.markup import summary_tokens
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.messages.paths import get_at, put_at
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.sessions.names import NAMES
from lcm_plugin.sessions.pins import pin_tokens
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Conversation, FileRecord, Part, StoredMessage, Summary
from lcm_plugin.types import Message

_PAGE = 200
_MOST_PLACES = 1_000
_TEXT_ENCODING = "utf-8"


@dataclass(slots=True)
class Redacted:
    """The places where a target was found, or from which it was removed.

    ``places`` are ids, the first `_MOST_PLACES` of them. ``untouched`` are binary payloads that hold it and stay:
    they go by their id. ``kept`` are payload files that stay because another database needs them. ``above`` are
    summaries over a message that was named; they may repeat its words.
    """

    removal_id: int = 0
    messages: int = 0
    summaries: int = 0
    files: int = 0
    notes: int = 0
    pins: int = 0
    map_texts: int = 0
    places: list[str] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    above: list[str] = field(default_factory=list)

    @property
    def anything(self) -> bool:
        """Whether anything was found that can be redacted."""
        return bool(
            self.messages or self.summaries or self.files or self.notes or self.pins or self.map_texts
        )

    def note(self, ref: str) -> None:
        """Remembers where something was found."""
        if len(self.places) < _MOST_PLACES and ref not in self.places[-3:]:
            self.places.append(ref)


@dataclass(frozen=True, slots=True)
class RedactionContext:
    """The services that read stored rows and make them again. ``zone`` dates summaries."""

    store: Store
    payloads: PayloadStore
    counter: TokenCounter
    standing: StandingTexts
    zone: str


@dataclass(frozen=True, slots=True)
class _Change:
    """A message's new form, the calls that its results answer, and the payloads that change."""

    stored: StoredMessage
    message: Message
    calls: Mapping[str, Call]
    payloads: frozenset[str]


class ConversationRedaction:
    """Redacts one conversation, from its first message to its last payload."""

    def __init__(
        self,
        context: RedactionContext,
        conversation: Conversation,
        target: Target,
        removal_id: int | None,
        found: Redacted,
    ) -> None:
        """Without a ``removal_id`` nothing is written."""
        self._context = context
        self._store = context.store
        self._payloads = context.payloads
        self._rows = RowMaker(context.counter, context.payloads)
        self._conversation = conversation
        self._id = conversation.conversation_id
        self._target = target
        self._removal_id = removal_id
        self._found = found
        self._renamed: dict[str, str] = {}
        self._changed_files: set[str] = set()
        self._dropped: list[FileRecord] = []

    def run(self) -> list[FileRecord]:
        """Redacts everything; returns the records of payloads that nothing refers to any more."""
        self._redact_messages()
        self._redact_summaries()
        self._redact_earlier_texts()
        self._redact_pins()
        self._redact_maps()
        self._redact_names()
        self._redact_files()
        return self._dropped

    def _redact_messages(self) -> None:
        """Page by page; messages that come meanwhile are redacted too."""
        after = 0
        while True:
            with self._store.read() as reader:
                page = reader.messages(self._id, after_seq=after, limit=_PAGE)
                changes = [change for stored in page if (change := self._changed(reader, stored))]
            if not page:
                break
            if self._removal_id is not None:
                self._replace_all(changes, self._removal_id)
            for change in changes:
                self._found.messages += 1
                self._found.note(change.stored.head.ref)
                self._changed_files |= change.payloads
            after = page[-1].head.seq
        self._found.files += len(self._changed_files)
        if self._renamed:
            with self._store.write() as writer:
                writer.rename_files(self._id, self._renamed)
                self._dropped += writer.drop_unused_files(self._id, self._renamed)

    def _redact_summaries(self) -> None:
        cost = self._context.zone, self._context.counter
        after: str | None = None
        while True:
            with self._store.read() as reader:
                page = reader.list_summaries(self._id, after=after, limit=_PAGE)
                changed = [
                    (old, new) for old in page if (new := self._changed_summary(old)).content != old.content
                ]
                sources = reader.sources_of([old.summary_id for old, _ in changed])
            if not page:
                return
            for old, new in changed:
                self._found.summaries += 1
                self._found.note(old.summary_id)
                if self._removal_id is not None:
                    before, now = (
                        summary_tokens(one, sources.get(old.summary_id, ()), *cost) for one in (old, new)
                    )
                    with self._store.write() as writer:
                        writer.replace_summary(new, now, now - before)
            after = page[-1].summary_id

    def _redact_earlier_texts(self) -> None:
        """Texts that summaries had before are no less stored than those they have."""
        with self._store.read() as reader:
            texts = reader.earlier_texts(self._id)
        for text in texts:
            content = self._target.summary(text.summary_id, text.content)
            if content == text.content:
                continue
            self._found.summaries += 1
            self._found.note(text.summary_id)
            if self._removal_id is not None:
                tokens = self._context.counter.text(content)
                with self._store.write() as writer:
                    writer.replace_earlier_text(replace(text, content=content, tokens=tokens))

    def _redact_pins(self) -> None:
        """A pinned copy of a message is redacted as its message."""
        with self._store.read() as reader:
            pins = reader.pins_of(self._id)
        for pin in pins:
            text = self._target.summary(pin.source, pin.text)
            new = replace(pin, text=text, speaker=self._target.words(pin.speaker))
            if new == pin:
                continue
            self._found.pins += 1
            self._found.note(pin.pin_id)
            if self._removal_id is not None:
                with self._store.write() as writer:
                    writer.replace_pin(replace(new, tokens=pin_tokens(new, self._context.counter)))

    def _redact_maps(self) -> None:
        for place in redact_maps(self._store, self._id, self._target, write=self._removal_id is not None):
            self._found.map_texts += 1
            self._found.note(place)

    def _redact_names(self) -> None:
        """The title and what else says where the conversation is from."""
        held = {name: str(getattr(self._conversation, name)) for name in NAMES}
        changed = {name: new for name, text in held.items() if (new := self._target.words(text)) != text}
        if changed:
            self._found.notes += 1
            self._found.note(f"conversation {self._id}")
            if self._removal_id is not None:
                with self._store.write() as writer:
                    writer.name_conversation(self._id, changed)

    def _redact_files(self) -> None:
        """Payloads with their names and explorations, and the last error of a compaction."""
        after = ""
        while True:
            with self._store.read() as reader:
                page = reader.files(self._id, after=after, limit=_PAGE)
                changes = [
                    (record, new) for record in page if (new := self._file(reader, record)) is not None
                ]
                debt = reader.debt(self._id)
            for record, new in changes:
                self._replace_file(record, new)
            if not page:
                break
            after = page[-1].file_id
        if debt is not None and self._target.words(debt.last_error) != debt.last_error:
            self._found.notes += 1
            self._found.note(f"conversation {self._id}")
            if self._removal_id is not None:
                with self._store.write() as writer:
                    writer.scrub_debt(self._id)

    def _changed(self, reader: Reader, stored: StoredMessage) -> _Change | None:
        """The message's new form; None when nothing of it goes."""
        head = stored.head
        before = self._whole(reader, stored, redact=False)
        now = self._target.message(head.ref, self._whole(reader, stored, redact=True))
        if now == before:
            return None
        payloads = {
            file_id
            for part in stored.parts
            if part.file_id is not None and _value_at(before, part.path) != _value_at(now, part.path)
            for file_id in _payload_ids(part)
        }
        return _Change(stored, now, self._calls(reader, stored), frozenset(payloads))

    def _replace_all(self, changes: Sequence[_Change], removal_id: int) -> None:
        """Stores the new forms of a page's messages; the expensive part comes before the transaction."""
        made = [(change, self._row(change)) for change in changes]
        if not made:
            return
        with self._store.write() as writer:
            for change, prepared in made:
                # The message first, as in a turn: the other way round the two could wait for each other.
                writer.replace_message(change.stored.head.message_id, prepared.row, removal_id)
                for record in prepared.files:
                    writer.add_file(replace(record, conversation_id=self._id))
                for digest, data in (prepared.blobs or {}).items():
                    writer.put_blob(digest, data)
        for change, prepared in made:
            self._renamed |= _renamed(change.stored.parts, prepared.row.parts)

    def _row(self, change: _Change) -> PreparedRow:
        head = change.stored.head
        lane = self._conversation.session_key or self._conversation.session_id or ""
        item = incoming_of(change.message, self._context.standing)
        made = self._rows.make(change.message, item, lane, head.created_at, change.calls)
        tools = {part.path: part.tool_name for part in change.stored.parts}
        row = replace(
            made.row,
            parts=tuple(
                replace(part, tool_name=part.tool_name or tools.get(part.path)) for part in made.row.parts
            ),
            created_at=head.created_at,
            group_seq=head.group_seq,
            host_id=head.host_id,
            calls=head.calls,
            answers=head.answers,
            hidden=head.hidden,
        )
        return replace(made, row=row)

    def _whole(self, reader: Reader, stored: StoredMessage, *, redact: bool) -> Message:
        """The message with its payloads in place; with ``redact`` attached ones are redacted."""
        message = rebuild(stored)
        for part in stored.parts:
            if part.file_id is None:
                continue
            try:
                text, is_gone = self._payload_text(reader, part, redact)
            except LcmError:
                continue  # its bytes are lost already; the reference stands for it
            place = media_place(message, part.path) if is_gone else None
            if place is not None:
                put_at(message, place, text_block(get_at(message, place), MARK))
            else:
                put_at(message, part.path, text)
        return message

    def _payload_text(self, reader: Reader, part: Part, redact: bool) -> tuple[str, bool]:
        """A part's original text, and whether it is a payload that goes as a whole."""
        shown = part.text if part.exact is None else json.loads(part.exact)
        slices, is_gone = [], False
        for start, end, file_id, encoding in json.loads(part.metadata or "{}")["slices"]:
            if redact and self._target.whole_payload(file_id):
                is_gone = True
                text = MARK
            else:
                data = self._payloads.read_file(reader, file_id)
                text = self._attached(file_id, data, encoding) if redact else decode(data, encoding)
            slices.append((start, end, text))
        return replace_slices(shown, slices), is_gone

    def _attached(self, file_id: str, data: bytes, encoding: str) -> str:
        """A payload in the form of its message; an attached text file is redacted inside its encoding."""
        if encoding != _TEXT_ENCODING and (inner := _as_text(data)) is not None:
            redacted = self._target.payload(file_id, inner)
            if redacted != inner:
                data = redacted.encode("utf-8", "surrogatepass")
                return encode_as(data, encoding)
        return decode(data, encoding)

    def _calls(self, reader: Reader, stored: StoredMessage) -> dict[str, Call]:
        """The call that a result answers, which decides whether its text may become a payload."""
        head = stored.head
        if len(head.answers) != 1 or head.group_seq == head.seq:
            return {}
        callers = map(rebuild, reader.messages_at(self._id, [head.group_seq]))
        return {call.id: call for caller in callers for call in calls_of(caller) if call.id}

    def _changed_summary(self, summary: Summary) -> Summary:
        text = self._target.summary(summary.summary_id, summary.content)
        for old, new in self._renamed.items():
            text = text.replace(old, new or MARK)
        return replace(summary, content=text, tokens=self._context.counter.text(text))

    def _file(self, reader: Reader, record: FileRecord) -> FileRecord | bytes | None:
        """A payload's new record, or its new bytes when they change as well; None when nothing goes."""
        name, exploration = self._target.words(record.name), self._target.words(record.exploration)
        renewed = replace(record, name=name, exploration=exploration)
        if record.file_id not in self._changed_files:
            data = self._new_bytes(reader, record)
            if data is not None:
                return data
        return None if renewed == record else renewed

    def _new_bytes(self, reader: Reader, record: FileRecord) -> bytes | None:
        """The redacted bytes of a payload that no message's own text holds; None when they stay."""
        try:
            data = self._payloads.read_file(reader, record.file_id)
        except LcmError:
            return None
        if self._target.whole_payload(record.file_id):
            return MARK.encode()
        text = _as_text(data)
        if text is None:
            if self._target.occurs_in(data):
                self._found.untouched.append(record.file_id)
            return None
        redacted = self._target.payload(record.file_id, text)
        return None if redacted == text else redacted.encode("utf-8", "surrogatepass")

    def _replace_file(self, record: FileRecord, new: FileRecord | bytes) -> None:
        if isinstance(new, bytes):
            self._found.files += 1
        else:
            self._found.notes += 1
        self._found.note(record.file_id)
        if self._removal_id is None:
            return
        blobs: Mapping[str, bytes] = {}
        if isinstance(new, bytes):
            kept, blobs = self._payloads.keep_bytes(new)
            exploration = self._target.words(record.exploration)
            new = replace(
                kept, file_id=record.file_id, name=self._target.words(record.name), exploration=exploration
            )
            self._dropped.append(record)
        with self._store.write() as writer:
            writer.replace_file(new)
            for digest, data in blobs.items():
                writer.put_blob(digest, data)


def _renamed(before: Sequence[Part], now: Sequence[Part]) -> dict[str, str]:
    """The payloads that are not referred to any more, each with its replacement, empty for none."""
    places = {part.path: _payload_ids(part) for part in now}
    kept = {file_id for ids in places.values() for file_id in ids}
    renamed: dict[str, str] = {}
    for part in before:
        old, new = _payload_ids(part), places.get(part.path, [])
        for index, file_id in enumerate(old):
            if file_id not in kept:
                renamed[file_id] = new[index] if len(new) == len(old) else ""
    return renamed


def _payload_ids(part: Part) -> list[str]:
    if part.file_id is None:
        return []
    return [entry[2] for entry in json.loads(part.metadata or "{}").get("slices", ())]


def _value_at(message: Message, path: str) -> Any:
    try:
        return get_at(message, path)
    except (LookupError, TypeError, ValueError):
        return None


def _as_text(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text
