"""Adds a model's paragraph to the records of files that were just stored, outside the turn.

Only the record changes, which `lcm_describe` shows; the reference in the message stays, since a
context must not change under a model's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from lcm_plugin.errors import LcmError
from lcm_plugin.events import EventBus
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.records import FileRecord
from lcm_plugin.summarize.file_prose import FileProse

_SHOWN_BYTES = 1 << 20
Submit = Callable[[Hashable, Callable[[], object]], object]


class ProseWriter:
    """Queues a description of every stored text file."""

    def __init__(
        self, store: Store, payloads: PayloadStore, prose: FileProse, events: EventBus, submit: Submit
    ) -> None:
        self._store = store
        self._payloads = payloads
        self._prose = prose
        self._events = events
        self._submit = submit

    def stored(self, records: Sequence[FileRecord]) -> None:
        """Takes the files of an ingest; binary ones need no words."""
        for record in records if self._prose.wanted else ():
            if record.line_count:
                self._submit(("file", record.file_id), partial(self.write, record.file_id))

    def write(self, file_id: str) -> bool:
        """Describes one file now; False when it has words already or the model gave none."""
        try:
            with self._store.read() as reader:
                record = reader.file(file_id)
                if record is None or _HEADING in record.exploration:
                    return False
                text = self._payloads.read_file(reader, file_id)[:_SHOWN_BYTES].decode("utf-8", "replace")
            words = self._prose.describe(record.name, record.exploration, text)
            if words is None:
                return False
            with self._store.write() as writer:
                writer.describe_file(file_id, f"{record.exploration}\n{_HEADING}\n{words}")
        except LcmError as error:
            self._events.emit(
                "file.prose_failed", file_id=file_id, error=type(error).__name__, detail=str(error)
            )
            return False
        return True


_HEADING = "In words, by a model:"
