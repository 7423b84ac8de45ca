"""Redacts the maps of a conversation: prompts, items, answers and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from lcm_plugin.maintenance.redaction.targets import Target
from lcm_plugin.messages.sendable import parse_json
from lcm_plugin.store.maps.records import MapItem, MapRecord
from lcm_plugin.store.protocol import Store

_PAGE = 500
_MOST_MAPS = 1_000_000


def redact_maps(store: Store, conversation_id: int, target: Target, *, write: bool) -> Iterator[str]:
    """The places that hold the target, map by map; with ``write`` it is removed there."""
    with store.read() as reader:
        records = reader.maps([conversation_id], limit=_MOST_MAPS)
    for record in records:
        new = _clean_map(record, target)
        if new != record:
            if write:
                with store.write() as writer:
                    writer.replace_map_text(new)
            yield record.map_id
        yield from _redact_items(store, record, target, write)


def _redact_items(store: Store, record: MapRecord, target: Target, write: bool) -> Iterator[str]:
    after = 0
    while True:
        with store.read() as reader:
            page = reader.map_items(record.map_id, after=after, limit=_PAGE)
        if not page:
            return
        changed = [new for item in page if (new := _clean_item(item, target)) != item]
        if changed and write:
            with store.write() as writer:
                for item in changed:
                    writer.replace_map_item(item)
        yield from (f"{record.map_id}:{item.place}" for item in changed)
        after = page[-1].place


def _clean_map(record: MapRecord, target: Target) -> MapRecord:
    return replace(
        record,
        prompt=target.words(record.prompt),
        answer_schema=_as_json(target.words(record.answer_schema)),
        source=target.words(record.source),
        reason=target.words(record.reason),
    )


def _clean_item(item: MapItem, target: Target) -> MapItem:
    """An item that is a message goes as its message does."""
    answer = item.answer if item.answer is None else _as_json(target.summary(item.ref, item.answer))
    return replace(
        item,
        content=target.summary(item.ref, item.content),
        answer=answer,
        error=target.words(item.error),
        ref=target.words(item.ref),
    )


def _as_json(text: str) -> str:
    """The text, which stays JSON although a part of it was replaced."""
    try:
        parse_json(text)
    except ValueError:
        return json.dumps(text, ensure_ascii=False)
    return text
