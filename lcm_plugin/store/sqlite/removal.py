"""What retention removes, and the records of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from lcm_plugin.store.records import FileRecord
from lcm_plugin.store.removal_base import Emptied, Footprint, Removal, RemovalKind
from lcm_plugin.store.sqlite.rewriting import insert_notes
from lcm_plugin.store.sqlite.schema import PART_ID_SHIFT
from lcm_plugin.store.sqlite.search import SearchChanges
from lcm_plugin.store.sqlite.siblings import needed_by_others
from lcm_plugin.store.sqlite.transaction import SqliteStatements as Handle
from lcm_plugin.store.tables.files import FILE_COLUMNS, file_record

_BATCH = 500
_REMOVAL = "r.removal_id, kind, created_at, requested_by, conversations, messages, summaries, files, bytes"
_PART_BYTES = (
    "length(CAST(p.text AS BLOB)) + coalesce(length(CAST(p.exact AS BLOB)), 0) + "
    "coalesce(length(CAST(p.metadata AS BLOB)), 0)"
)
_PARTS_OF = "p.part_id >= m.message_id * 65536 AND p.part_id < (m.message_id + 1) * 65536"
_SLICE_FILE = "json_extract(s.value, '$[2]')"
_SLICES = (
    "FROM conversations here CROSS JOIN conversations c CROSS JOIN messages m CROSS JOIN message_parts p "
    "CROSS JOIN json_each(p.metadata, '$.slices') s WHERE here.conversation_id = ?1 "
    "AND c.session_key = here.session_key AND m.conversation_id = c.conversation_id "
    f"AND {_PARTS_OF} AND p.file_id IS NOT NULL"
)
_COVERED = "EXISTS (SELECT 1 FROM summary_messages l WHERE l.message_id = m.message_id)"


class RemovalQueries(Handle):
    """What there is to remove, and what was removed."""

    def footprint(self, conversation_id: int) -> Footprint:
        messages, uncovered, emptied, skeletons = self._one(
            f"SELECT count(*), count(*) FILTER (WHERE NOT {_COVERED}), count(t.message_id), coalesce(sum(CASE WHEN "
            "t.message_id IS NULL THEN length(CAST(m.skeleton AS BLOB)) END), 0) FROM messages m LEFT JOIN "
            "removed_messages t ON t.message_id = m.message_id AND t.whole = 1 WHERE m.conversation_id = ?",
            (conversation_id,),
        )
        parts = self._one(
            f"SELECT coalesce(sum({_PART_BYTES}), 0) FROM messages m CROSS JOIN message_parts p "
            f"WHERE m.conversation_id = ? AND {_PARTS_OF}",
            (conversation_id,),
        )[0]
        summaries, contents = self._one(
            "SELECT count(*), coalesce(sum(length(CAST(content AS BLOB))), 0) FROM summaries WHERE conversation_id = ?",
            (conversation_id,),
        )
        files, payloads = self._one(
            "SELECT count(*), coalesce(sum(byte_size), 0) FROM large_files WHERE conversation_id = ?",
            (conversation_id,),
        )
        return Footprint(
            messages, uncovered, emptied, summaries, files, skeletons + parts, contents, payloads
        )

    def text_bytes(self) -> int:
        parts = self._one(f"SELECT coalesce(sum({_PART_BYTES}), 0) FROM message_parts p")[0]
        rest = self._one(
            "SELECT (SELECT coalesce(sum(length(CAST(skeleton AS BLOB))), 0) FROM messages) + "
            "(SELECT coalesce(sum(length(CAST(content AS BLOB))), 0) FROM summaries)"
        )[0]
        return int(parts + rest)

    def removals(self, *, limit: int = 100) -> list[Removal]:
        if not self._knows_removals():
            return []
        rows = self._all(f"SELECT {_REMOVAL} FROM removals r ORDER BY removal_id DESC LIMIT ?", (limit,))
        return [Removal(*row) for row in rows]

    def removals_of(self, message_ids: Sequence[int]) -> dict[int, Removal]:
        if not self._knows_removals():
            return {}
        rows = self._all(
            f"SELECT t.message_id, {_REMOVAL} FROM json_each(?) ids CROSS JOIN removed_messages t "
            "CROSS JOIN removals r WHERE t.message_id = ids.value AND r.removal_id = t.removal_id",
            (json.dumps(list(message_ids)),),
        )
        return {row[0]: Removal(*row[1:]) for row in rows}

    def removed_below(self, summary_id: str) -> int:
        if not self._knows_removals():
            return 0
        row = self._one(
            "WITH RECURSIVE below (id) AS (SELECT ? UNION SELECT l.parent_summary_id FROM below "
            "JOIN summary_parents l ON l.summary_id = below.id) SELECT count(*) FROM below "
            "JOIN summary_messages l ON l.summary_id = below.id "
            "JOIN removed_messages t ON t.message_id = l.message_id WHERE t.whole = 1",
            (summary_id,),
        )
        return int(row[0])

    def former_identities(self, conversation_ids: Sequence[int]) -> dict[int, int]:
        rows = self._all(
            "SELECT t.former_identity, m.identity FROM json_each(?) ids CROSS JOIN removed_messages t "
            "CROSS JOIN messages m WHERE t.conversation_id = ids.value AND t.former_identity IS NOT NULL "
            "AND m.message_id = t.message_id",
            (json.dumps(list(conversation_ids)),),
        )
        return dict(rows)

    def _knows_removals(self) -> bool:
        """A database that is only read may still have the schema of an older version."""
        return bool(self._one("SELECT 1 FROM sqlite_master WHERE name = 'removed_messages'"))


class RemovalChanges(RemovalQueries, SearchChanges):
    """Removing texts, conversations and payload records."""

    def begin_removal(self, kind: RemovalKind, requested_by: str, now: int) -> int:
        cursor = self.db.execute(
            "INSERT INTO removals (kind, created_at, requested_by) VALUES (?, ?, ?)",
            (kind, now, requested_by),
        )
        return int(cursor.lastrowid or 0)

    def add_to_removal(
        self,
        removal_id: int,
        *,
        conversations: int = 0,
        messages: int = 0,
        summaries: int = 0,
        files: int = 0,
        bytes_removed: int = 0,
    ) -> None:
        self.db.execute(
            "UPDATE removals SET conversations = conversations + ?, messages = messages + ?, "
            "summaries = summaries + ?, files = files + ?, bytes = bytes + ? WHERE removal_id = ?",
            (conversations, messages, summaries, files, bytes_removed, removal_id),
        )

    def empty_messages(
        self,
        conversation_id: int,
        removal_id: int,
        notice: str,
        *,
        after_seq: int = 0,
        limit: int = _BATCH,
        covered_only: bool = False,
    ) -> Emptied:
        only = f"AND {_COVERED} " if covered_only else ""
        rows = self._all(
            "SELECT m.message_id, m.seq FROM messages m WHERE m.conversation_id = ? AND m.seq > ? AND NOT EXISTS "
            f"(SELECT 1 FROM removed_messages t WHERE t.message_id = m.message_id AND t.whole = 1) {only}"
            "ORDER BY m.seq LIMIT ?",
            (conversation_id, after_seq, limit),
        )
        if not rows:
            return Emptied(0, 0, None)
        numbers = [row[0] for row in rows]
        ids = json.dumps(numbers)
        freed, named = self._bytes_of(ids), self._files_of(ids)
        self.unindex_messages(numbers)
        self._keep_only_notes(numbers, ids)
        self.db.execute(
            "UPDATE messages SET sender = NULL, channel = NULL, skeleton = CASE WHEN role = 'tool' AND answers IS NOT "
            "NULL THEN json_object('role', role, 'tool_call_id', answers, 'content', ?2) ELSE "
            "json_object('role', role, 'content', ?2) END WHERE message_id IN (SELECT value FROM json_each(?1))",
            (ids, notice),
        )
        self.reindex_messages(numbers)
        self.db.execute(
            "INSERT INTO removed_messages (message_id, conversation_id, removal_id, whole) "
            "SELECT value, ?2, ?3, 1 FROM json_each(?1) WHERE true ON CONFLICT (message_id) DO UPDATE SET "
            "removal_id = excluded.removal_id, whole = 1",
            (ids, conversation_id, removal_id),
        )
        self._hide_uncovered(conversation_id, ids)
        return Emptied(len(numbers), freed, rows[-1][1], named)

    def delete_conversation(self, conversation_id: int) -> None:
        self._hand_over_files(conversation_id)
        self._unindex_all(conversation_id)
        within = "(SELECT summary_id FROM summaries WHERE conversation_id = ?)"
        for statement in (
            "DELETE FROM context_items WHERE conversation_id = ?",
            f"DELETE FROM summary_parents WHERE summary_id IN {within}",
            f"DELETE FROM summary_messages WHERE summary_id IN {within}",
            "DELETE FROM summaries WHERE conversation_id = ?",
            "DELETE FROM messages WHERE conversation_id = ?",
            "DELETE FROM session_runs WHERE conversation_id = ?",
            "DELETE FROM conversations WHERE conversation_id = ?",
        ):
            self.db.execute(statement, (conversation_id,))

    def drop_unused_files(
        self, conversation_id: int, among: Collection[str] | None = None
    ) -> list[FileRecord]:
        records = [
            file_record(row)
            for row in self._all(
                f"SELECT {FILE_COLUMNS} FROM large_files f WHERE conversation_id = ? AND NOT EXISTS "
                "(SELECT 1 FROM message_parts p WHERE p.file_id = f.file_id)",
                (conversation_id,),
            )
        ]
        if not records:
            return []
        named = self._named_in_lane(conversation_id)
        unused = [
            record
            for record in records
            if record.file_id not in named and (among is None or record.file_id in among)
        ]
        self.db.executemany(
            "DELETE FROM large_files WHERE file_id = ?", [(record.file_id,) for record in unused]
        )
        return unused

    def unreferenced(self, records: Sequence[FileRecord]) -> list[FileRecord]:
        digests = json.dumps([record.sha256 for record in records])
        needed = {
            row[0]
            for row in self._all(
                "SELECT sha256 FROM large_files WHERE sha256 IN (SELECT value FROM json_each(?))", (digests,)
            )
        }
        needed |= needed_by_others(Path(self.location), {one.sha256 for one in records} - needed)
        free = [record for record in records if record.sha256 not in needed]
        self.db.executemany("DELETE FROM file_blobs WHERE sha256 = ?", [(record.sha256,) for record in free])
        return free

    def _keep_only_notes(self, numbers: Sequence[int], ids: str) -> None:
        """Deletes all parts but this package's own notes, which are numbered anew."""
        chosen = "part_id >= ? AND part_id < ? AND message_id IN (SELECT value FROM json_each(?))"
        within = (min(numbers) << PART_ID_SHIFT, (max(numbers) + 1) << PART_ID_SHIFT, ids)
        notes = self._all(
            f"SELECT message_id, metadata FROM message_parts WHERE {chosen} AND type = 'compaction' ORDER BY part_id",
            within,
        )
        self.db.execute(f"DELETE FROM message_parts WHERE {chosen}", within)
        for message_id, rows in groupby(notes, key=lambda row: int(row[0])):
            insert_notes(self.db, message_id, 0, [row[1] for row in rows])

    def _bytes_of(self, ids: str) -> int:
        row = self._one(
            f"SELECT coalesce(sum(coalesce((SELECT sum({_PART_BYTES}) FROM message_parts p WHERE {_PARTS_OF} "
            "AND p.type <> 'compaction'), 0) + coalesce(length(CAST(m.skeleton AS BLOB)), 0)), 0) "
            "FROM json_each(?) ids CROSS JOIN messages m WHERE m.message_id = ids.value",
            (ids,),
        )
        return int(row[0])

    def _files_of(self, ids: str) -> frozenset[str]:
        rows = self._all(
            f"SELECT DISTINCT {_SLICE_FILE} FROM json_each(?) ids CROSS JOIN message_parts p "
            "CROSS JOIN json_each(p.metadata, '$.slices') s WHERE p.part_id >= ids.value * 65536 "
            "AND p.part_id < (ids.value + 1) * 65536 AND p.file_id IS NOT NULL",
            (ids,),
        )
        return frozenset(row[0] for row in rows)

    def _hide_uncovered(self, conversation_id: int, ids: str) -> None:
        chosen = "message_id IN (SELECT value FROM json_each(?))"
        self.db.execute(
            f"UPDATE messages AS m SET hidden = 1 WHERE {chosen} AND NOT {_COVERED}",
            (ids,),
        )
        freed = self._one(
            f"SELECT coalesce(sum(tokens), 0) FROM context_items WHERE conversation_id = ? AND {chosen}",
            (conversation_id, ids),
        )[0]
        self.db.execute(
            f"UPDATE context_items SET tokens = 0 WHERE conversation_id = ? AND {chosen}",
            (conversation_id, ids),
        )
        self.db.execute(
            "UPDATE conversations SET raw_tokens = raw_tokens - ? WHERE conversation_id = ?",
            (freed, conversation_id),
        )

    def _hand_over_files(self, conversation_id: int) -> None:
        """Records that other conversations refer to go to one of those."""
        for (file_id,) in self._all(
            "SELECT file_id FROM large_files WHERE conversation_id = ?", (conversation_id,)
        ):
            heir = self._one(
                "SELECT m.conversation_id FROM message_parts p JOIN messages m USING (message_id) "
                "WHERE p.file_id = ? AND m.conversation_id <> ? LIMIT 1",
                (file_id, conversation_id),
            ) or self._names_it(conversation_id, file_id)
            if heir is not None:
                self.db.execute(
                    "UPDATE large_files SET conversation_id = ? WHERE file_id = ?", (heir[0], file_id)
                )

    def _names_it(self, conversation_id: int, file_id: str) -> Any:
        """Another conversation of the lane with a text of which only a later slice lies in the file."""
        return self._one(
            f"SELECT m.conversation_id {_SLICES} AND m.conversation_id <> ?1 AND {_SLICE_FILE} = ?2 LIMIT 1",
            (conversation_id, file_id),
        )

    def _named_in_lane(self, conversation_id: int) -> set[str]:
        """Every payload that a message of the lane refers to: a payload's id belongs to one lane."""
        rows = self._all(f"SELECT DISTINCT {_SLICE_FILE} {_SLICES}", (conversation_id,))
        return {row[0] for row in rows}

    def _unindex_all(self, conversation_id: int) -> None:
        messages = self._all("SELECT message_id FROM messages WHERE conversation_id = ?", (conversation_id,))
        for start in range(0, len(messages), _BATCH):
            self.unindex_messages([row[0] for row in messages[start : start + _BATCH]])
        summaries = self._all(
            "SELECT summary_id FROM summaries WHERE conversation_id = ?", (conversation_id,)
        )
        self.unindex_summaries([row[0] for row in summaries])
