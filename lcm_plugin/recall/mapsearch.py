"""A map's rows as a text that is searched like a file: a row is a line, and the line's number its place."""

from __future__ import annotations

from lcm_plugin.recall.filesearch import MAX_CHARS, ReadFile
from lcm_plugin.recall.scope import Scope, not_found
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import FileRecord

_PAGE = 500


def is_map(ref: str) -> bool:
    """Whether an id is that of a map."""
    return ref.strip().startswith("map_")


def map_as_file(reader: Reader, scope: Scope, ref: str) -> FileRecord:
    """A map as the record of a file. Raises `NotFound` for one outside of the scope."""
    record = reader.map(ref.strip())
    if record is None or record.conversation_id not in scope:
        raise not_found(f"map {ref.strip()[:40]}")
    return FileRecord(
        record.map_id, record.conversation_id, "", "", 0, record.source, created_at=record.created_at
    )


def with_maps(read_file: ReadFile) -> ReadFile:
    """Reads files, and maps by their ids."""
    return lambda reader, ref: _text(reader, ref) if is_map(ref) else read_file(reader, ref)


def _text(reader: Reader, map_id: str) -> bytes:
    """The rows, items with their answers or errors, as far as a search looks into a file."""
    lines, characters, after = list[str](), 0, 0
    while characters <= MAX_CHARS and (page := reader.map_items(map_id, after=after, limit=_PAGE)):
        lines += [
            " ".join(f"{item.content} → {item.answer or item.error or item.state}".split()) for item in page
        ]
        characters += sum(map(len, lines[-len(page) :]))
        after = page[-1].place
    return "\n".join(lines).encode("utf-8", "surrogatepass")
