"""What retention removes, and the records of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

from lcm_plugin.store.postgres.rewriting import INSERT_NOTE, note_rows
from lcm_plugin.store.postgres.transaction import PostgresStatements as Handle
from lcm_plugin.store.postgres.vectors import PostgresVectors
from lcm_plugin.store.records import FileRecord
from lcm_plugin.store.removal_base import Emptied, Footprint, Removal, RemovalKind
from lcm_plugin.store.tables.files import FILE_COLUMNS

_BATCH = 500
_REMOVAL = "r.removal_id, r.kind, r.created_at, r.requested_by, r.conversations, r.messages, r.summaries, r.files, r.bytes"
_PART_BYTES = (
    "octet_length(p.text) + coalesce(octet_length(p.exact), 0) + coalesce(octet_length(p.metadata::text), 0)"
)
_COVERED = (
    "EXISTS (SELECT FROM summary_messages l WHERE l.conversation_id = m.conversation_id "
    "AND l.message_id = m.message_id)"
)
_SLICE_FILE = "s.value->>2"
_SLICES = (
    "FROM conversations here JOIN conversations c ON c.session_key = here.session_key "
    "JOIN message_parts p ON p.conversation_id = c.conversation_id AND p.file_id IS NOT NULL "
    "CROSS JOIN json_array_elements(p.metadata->'slices') s (value) WHERE here.conversation_id = %(here)s"
)


class RemovalQueries(Handle):
    """What there is to remove, and what was removed."""

    def footprint(self, conversation_id: int) -> Footprint:
        messages, uncovered, emptied, skeletons = self._one(
            f"SELECT count(*), count(*) FILTER (WHERE NOT {_COVERED}), count(t.message_id), coalesce(sum("
            "octet_length(m.skeleton)) FILTER (WHERE t.message_id IS NULL), 0) FROM messages m "
            "LEFT JOIN removed_messages t ON t.conversation_id = m.conversation_id AND t.message_id = m.message_id "
            "AND t.whole WHERE m.conversation_id = %s",
            (conversation_id,),
        )
        parts = self._one(
            f"SELECT coalesce(sum({_PART_BYTES}), 0) FROM message_parts p WHERE p.conversation_id = %s",
            (conversation_id,),
        )[0]
        summaries, contents = self._one(
            "SELECT count(*), coalesce(sum(octet_length(content)), 0) FROM summaries WHERE conversation_id = %s",
            (conversation_id,),
        )
        files, payloads = self._one(
            "SELECT count(*), coalesce(sum(byte_size), 0) FROM large_files WHERE conversation_id = %s",
            (conversation_id,),
        )
        return Footprint(
            messages, uncovered, emptied, summaries, files, skeletons + parts, contents, int(payloads)
        )

    def text_bytes(self) -> int:
        row = self._one(
            f"SELECT (SELECT coalesce(sum({_PART_BYTES}), 0) FROM message_parts p) + "
            "(SELECT coalesce(sum(octet_length(skeleton)), 0) FROM messages) + "
            "(SELECT coalesce(sum(octet_length(content)), 0) FROM summaries)"
        )
        return int(row[0])

    def removals(self, *, limit: int = 100) -> list[Removal]:
        rows = self._all(f"SELECT {_REMOVAL} FROM removals r ORDER BY r.removal_id DESC LIMIT %s", (limit,))
        return [Removal(*row) for row in rows]

    def removals_of(self, message_ids: Sequence[int]) -> dict[int, Removal]:
        rows = self._all(
            f"SELECT t.message_id, {_REMOVAL} FROM removed_messages t JOIN removals r USING (removal_id) "
            "WHERE t.message_id = ANY(%s)",
            (list(message_ids),),
        )
        return {row[0]: Removal(*row[1:]) for row in rows}

    def removed_below(self, summary_id: str) -> int:
        row = self._one(
            "WITH RECURSIVE below (id) AS (SELECT %s::text UNION SELECT l.parent_summary_id FROM below "
            "JOIN summary_parents l ON l.summary_id = below.id) SELECT count(*) FROM below "
            "JOIN summary_messages l ON l.summary_id = below.id JOIN removed_messages t "
            "ON t.conversation_id = l.conversation_id AND t.message_id = l.message_id WHERE t.whole",
            (summary_id,),
        )
        return int(row[0])

    def former_identities(self, conversation_ids: Sequence[int]) -> dict[int, int]:
        rows = self._all(
            "SELECT t.former_identity, m.identity FROM removed_messages t "
            "JOIN messages m USING (conversation_id, message_id) "
            "WHERE t.conversation_id = ANY(%s) AND t.former_identity IS NOT NULL",
            (list(conversation_ids),),
        )
        return dict(rows)


class RemovalChanges(RemovalQueries, PostgresVectors):
    """Removing texts, conversations and payload records."""

    def begin_removal(self, kind: RemovalKind, requested_by: str, now: int) -> int:
        row = self._one(
            "INSERT INTO removals (kind, created_at, requested_by) VALUES (%s, %s, %s) RETURNING removal_id",
            (kind, now, requested_by),
        )
        return int(row[0])

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
        self._run(
            "UPDATE removals SET conversations = conversations + %s, messages = messages + %s, "
            "summaries = summaries + %s, files = files + %s, bytes = bytes + %s WHERE removal_id = %s",
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
            "SELECT m.message_id, m.seq FROM messages m WHERE m.conversation_id = %s AND m.seq > %s AND NOT EXISTS "
            "(SELECT FROM removed_messages t WHERE t.conversation_id = m.conversation_id "
            f"AND t.message_id = m.message_id AND t.whole) {only}ORDER BY m.seq LIMIT %s",
            (conversation_id, after_seq, limit),
        )
        if not rows:
            return Emptied(0, 0, None)
        chosen: dict[str, Any] = {"here": conversation_id, "ids": [row[0] for row in rows]}
        freed, named = self._bytes_of(chosen), self._files_of(chosen)
        self._keep_only_notes(chosen)
        self.forget_vectors(chosen["ids"])
        self._run(
            "UPDATE messages SET sender = NULL, channel = NULL, skeleton = CASE WHEN role = 'tool' "
            "AND answers IS NOT NULL THEN json_build_object('role', role, 'tool_call_id', answers, "
            "'content', %(notice)s::text) ELSE json_build_object('role', role, 'content', %(notice)s::text) END::text "
            "WHERE conversation_id = %(here)s AND message_id = ANY(%(ids)s)",
            {**chosen, "notice": notice},
        )
        self._run(
            "INSERT INTO removed_messages (conversation_id, message_id, removal_id, whole) "
            "SELECT %(here)s, id, %(removal)s, true FROM unnest(%(ids)s::bigint[]) id "
            "ON CONFLICT (conversation_id, message_id) DO UPDATE SET removal_id = excluded.removal_id, whole = true",
            {**chosen, "removal": removal_id},
        )
        self._hide_uncovered(chosen)
        return Emptied(len(rows), freed, rows[-1][1], named)

    def delete_conversation(self, conversation_id: int) -> None:
        for table in (
            "context_items",
            "summary_parents",
            "summary_messages",
            "summaries",
            "messages",
            "session_runs",
        ):
            self._run(f"DELETE FROM {table} WHERE conversation_id = %s", (conversation_id,))
        # Payloads are held at the end only, since hosts that store some wait for it.
        self._hand_over_files(conversation_id)
        self._run("DELETE FROM conversations WHERE conversation_id = %s", (conversation_id,))

    def drop_unused_files(
        self, conversation_id: int, among: Collection[str] | None = None
    ) -> list[FileRecord]:
        if (
            self._one("SELECT 1 FROM large_files WHERE conversation_id = %s LIMIT 1", (conversation_id,))
            is None
        ):
            return []
        # A turn writes the row of its run before it stores payloads: in that order here, too, so that none waits for
        # the other.
        self._all("SELECT FROM session_runs WHERE conversation_id = %s FOR UPDATE", (conversation_id,))
        self.hold_files()
        rows = self._all(
            f"SELECT {FILE_COLUMNS} FROM large_files f WHERE conversation_id = %s AND NOT EXISTS "
            "(SELECT FROM message_parts p WHERE p.file_id = f.file_id)",
            (conversation_id,),
        )
        records = [FileRecord(*row) for row in rows]
        if not records:
            return []
        named = {
            row[0] for row in self._all(f"SELECT DISTINCT {_SLICE_FILE} {_SLICES}", {"here": conversation_id})
        }
        unused = [
            record
            for record in records
            if record.file_id not in named and (among is None or record.file_id in among)
        ]
        self._run(
            "DELETE FROM large_files WHERE conversation_id = %s AND file_id = ANY(%s)",
            (conversation_id, [record.file_id for record in unused]),
        )
        return unused

    def unreferenced(self, records: Sequence[FileRecord]) -> list[FileRecord]:
        self.hold_files()
        digests = [record.sha256 for record in records]
        needed = {
            row[0] for row in self._all("SELECT sha256 FROM large_files WHERE sha256 = ANY(%s)", (digests,))
        }
        free = [record for record in records if record.sha256 not in needed]
        self._run("DELETE FROM file_blobs WHERE sha256 = ANY(%s)", ([record.sha256 for record in free],))
        return free

    def _keep_only_notes(self, chosen: Mapping[str, Any]) -> None:
        """Deletes all parts but this package's own notes, which are numbered anew."""
        within = "conversation_id = %(here)s AND message_id = ANY(%(ids)s)"
        notes = self._all(
            f"SELECT message_id, metadata::text FROM message_parts WHERE {within} AND type = 'compaction' "
            "ORDER BY message_id, ordinal",
            dict(chosen),
        )
        self._run(f"DELETE FROM message_parts WHERE {within}", dict(chosen))
        for message_id, rows in groupby(notes, key=lambda row: int(row[0])):
            self._many(INSERT_NOTE, note_rows(chosen["here"], message_id, 0, [row[1] for row in rows]))

    def _bytes_of(self, chosen: Mapping[str, Any]) -> int:
        row = self._one(
            f"SELECT (SELECT coalesce(sum({_PART_BYTES}), 0) FROM message_parts p WHERE p.conversation_id = %(here)s "
            "AND p.message_id = ANY(%(ids)s) AND p.type <> 'compaction') + (SELECT coalesce(sum(octet_length(skeleton)), "
            "0) FROM messages WHERE conversation_id = %(here)s AND message_id = ANY(%(ids)s))",
            dict(chosen),
        )
        return int(row[0])

    def _files_of(self, chosen: Mapping[str, Any]) -> frozenset[str]:
        rows = self._all(
            f"SELECT DISTINCT {_SLICE_FILE} FROM message_parts p CROSS JOIN json_array_elements(p.metadata->'slices') "
            "s (value) WHERE p.conversation_id = %(here)s AND p.message_id = ANY(%(ids)s) AND p.file_id IS NOT NULL",
            dict(chosen),
        )
        return frozenset(row[0] for row in rows)

    def _hide_uncovered(self, chosen: Mapping[str, Any]) -> None:
        self._run(
            "UPDATE messages m SET hidden = true WHERE m.conversation_id = %(here)s AND m.message_id = ANY(%(ids)s) "
            f"AND NOT {_COVERED}",
            dict(chosen),
        )
        freed = self._one(
            "SELECT coalesce(sum(tokens), 0) FROM context_items WHERE conversation_id = %(here)s "
            "AND message_id = ANY(%(ids)s)",
            dict(chosen),
        )[0]
        self._run(
            "UPDATE context_items SET tokens = 0 WHERE conversation_id = %(here)s AND message_id = ANY(%(ids)s)",
            dict(chosen),
        )
        self._run(
            "UPDATE conversations SET raw_tokens = raw_tokens - %(freed)s WHERE conversation_id = %(here)s",
            {**chosen, "freed": freed},
        )

    def _hand_over_files(self, conversation_id: int) -> None:
        """Records that other conversations refer to go to one of those."""
        self.hold_files()
        for (file_id,) in self._all(
            "SELECT file_id FROM large_files WHERE conversation_id = %s", (conversation_id,)
        ):
            values = {"here": conversation_id, "file": file_id}
            heir = self._one(
                "SELECT conversation_id FROM message_parts WHERE file_id = %(file)s "
                "AND conversation_id <> %(here)s LIMIT 1",
                values,
            ) or self._one(
                f"SELECT p.conversation_id {_SLICES} AND p.conversation_id <> %(here)s "
                f"AND {_SLICE_FILE} = %(file)s LIMIT 1",
                values,
            )
            if heir is not None:
                self._run(
                    "UPDATE large_files SET conversation_id = %s WHERE conversation_id = %s AND file_id = %s",
                    (heir[0], conversation_id, file_id),
                )
