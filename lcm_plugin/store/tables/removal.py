"""What retention removes, and the records of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

from lcm_plugin.store.records import FileRecord
from lcm_plugin.store.removal import Emptied, Footprint, Removal, RemovalKind
from lcm_plugin.store.tables.files import FILE_COLUMNS, file_record
from lcm_plugin.store.tables.indexes import DerivedIndexes
from lcm_plugin.store.tables.messages import MessageTable
from lcm_plugin.store.tables.pins import PinTable

_BATCH = 500
_REMOVAL = "r.removal_id, r.kind, r.created_at, r.requested_by, r.conversations, r.messages, r.summaries, r.files, r.bytes"


class RemovalTable(MessageTable, DerivedIndexes, PinTable):
    """What there is to remove, removing it, and what was removed."""

    def footprint(self, conversation_id: int) -> Footprint:
        octets = self.sql.octets
        messages, uncovered, emptied, skeletons = self.one(
            f"SELECT count(*), count(*) FILTER (WHERE NOT {self._covered()}), count(t.message_id), coalesce(sum("
            f"{octets('m.skeleton')}) FILTER (WHERE t.message_id IS NULL), 0) FROM messages m "
            "LEFT JOIN removed_messages t ON t.conversation_id = m.conversation_id AND t.message_id = m.message_id "
            "AND t.whole WHERE m.conversation_id = :here",
            here=conversation_id,
        )
        parts = self.one(
            f"SELECT coalesce(sum({self._part_octets()}), 0) FROM messages m CROSS JOIN message_parts p "
            f"WHERE m.conversation_id = :here AND {self._parts_of_m()}",
            here=conversation_id,
        )[0]
        summaries, contents = self.one(
            f"SELECT count(*), coalesce(sum({octets('content')}), 0) + (SELECT coalesce(sum({octets('content')}), 0) "
            "FROM summary_texts WHERE conversation_id = :here) FROM summaries WHERE conversation_id = :here",
            here=conversation_id,
        )
        files, payloads = self.one(
            "SELECT count(*), coalesce(sum(byte_size), 0) FROM large_files WHERE conversation_id = :here",
            here=conversation_id,
        )
        texts = int(skeletons) + int(parts)
        return Footprint(messages, uncovered, emptied, summaries, files, texts, int(contents), int(payloads))

    def text_bytes(self) -> int:
        row = self.one(
            f"SELECT (SELECT coalesce(sum({self._part_octets()}), 0) FROM message_parts p) + "
            f"(SELECT coalesce(sum({self.sql.octets('skeleton')}), 0) FROM messages) + "
            f"(SELECT coalesce(sum({self.sql.octets('content')}), 0) FROM summaries) + "
            f"(SELECT coalesce(sum({self.sql.octets('content')}), 0) FROM summary_texts)"
        )
        return int(row[0])

    def removals(self, *, limit: int = 100) -> list[Removal]:
        rows = self.all(
            f"SELECT {_REMOVAL} FROM removals r ORDER BY r.removal_id DESC LIMIT :limit", limit=limit
        )
        return [Removal(*row) for row in rows]

    def removed_below(self, summary_id: str) -> int:
        row = self.one(
            "WITH RECURSIVE below (id) AS (SELECT CAST(:summary AS text) UNION SELECT l.parent_summary_id FROM below "
            "JOIN summary_parents l ON l.summary_id = below.id) SELECT count(*) FROM below "
            "JOIN summary_messages l ON l.summary_id = below.id "
            f"JOIN removed_messages t ON t.message_id = l.message_id{self.sql.same_owner('t', 'l')} WHERE t.whole",
            summary=summary_id,
        )
        return int(row[0])

    def former_identities(self, conversation_ids: Sequence[int]) -> dict[int, int]:
        rows = self.all(
            "SELECT t.former_identity, m.identity FROM removed_messages t CROSS JOIN messages m "
            f"WHERE t.conversation_id {self.sql.any_of('ids')} AND t.former_identity IS NOT NULL "
            "AND m.conversation_id = t.conversation_id AND m.message_id = t.message_id",
            ids=self.sql.array(conversation_ids),
        )
        return dict(rows)

    def begin_removal(self, kind: RemovalKind, requested_by: str, now: int) -> int:
        row = self.one(
            "INSERT INTO removals (kind, created_at, requested_by) VALUES (:kind, :now, :by) RETURNING removal_id",
            kind=kind,
            now=now,
            by=requested_by,
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
        self.run(
            "UPDATE removals SET conversations = conversations + :conversations, messages = messages + :messages, "
            "summaries = summaries + :summaries, files = files + :files, bytes = bytes + :bytes "
            "WHERE removal_id = :removal",
            conversations=conversations,
            messages=messages,
            summaries=summaries,
            files=files,
            bytes=bytes_removed,
            removal=removal_id,
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
        rows = self.all(
            "SELECT m.message_id, m.seq FROM messages m WHERE m.conversation_id = :here AND m.seq > :after "
            "AND NOT EXISTS (SELECT 1 FROM removed_messages t WHERE t.conversation_id = m.conversation_id "
            f"AND t.message_id = m.message_id AND t.whole) {f'AND {self._covered()} ' if covered_only else ''}"
            "ORDER BY m.seq LIMIT :limit",
            here=conversation_id,
            after=after_seq,
            limit=limit,
        )
        if not rows:
            return Emptied(0, 0, None)
        numbers = [row[0] for row in rows]
        chosen = {"here": conversation_id, "ids": self.sql.array(numbers)}
        freed, named = self._bytes_of(chosen), self._files_of(chosen)
        self.unindex_messages(numbers)
        self._keep_only_notes(chosen, numbers)
        content = "CAST(:notice AS text)"
        answer = self.sql.json_object(role="role", tool_call_id="answers", content=content)
        self.run(
            "UPDATE messages SET sender = NULL, channel = NULL, skeleton = CASE WHEN role = 'tool' "
            f"AND answers IS NOT NULL THEN {answer} ELSE {self.sql.json_object(role='role', content=content)} END "
            f"WHERE {self.sql.ids_here('message_id')}",
            **chosen,
            notice=notice,
        )
        self.reindex_messages(numbers)
        self.run(
            "INSERT INTO removed_messages (conversation_id, message_id, removal_id, whole) "
            f"SELECT :here, ids.value, :removal, true FROM {self.sql.given('ids')} WHERE true "
            f"ON CONFLICT ({self.sql.owner}message_id) DO UPDATE SET removal_id = excluded.removal_id, whole = true",
            **chosen,
            removal=removal_id,
        )
        self._hide_uncovered(chosen)
        return Emptied(len(rows), freed, rows[-1][1], named)

    def delete_conversation(self, conversation_id: int) -> None:
        self.unindex_conversation(conversation_id)
        for statement in (
            "DELETE FROM context_items WHERE conversation_id = :here",
            f"DELETE FROM summary_parents WHERE {self.sql.links_here}",
            f"DELETE FROM summary_messages WHERE {self.sql.links_here}",
            "DELETE FROM summaries WHERE conversation_id = :here",
            "DELETE FROM messages WHERE conversation_id = :here",
            "DELETE FROM session_runs WHERE conversation_id = :here",
        ):
            self.run(statement, here=conversation_id)
        # Payloads are held at the end only, since hosts that store some wait for it.
        self._hand_over_files(conversation_id)
        self.hand_over_pins(conversation_id)
        self.run("DELETE FROM conversations WHERE conversation_id = :here", here=conversation_id)

    def drop_unused_files(
        self, conversation_id: int, among: Collection[str] | None = None
    ) -> list[FileRecord]:
        here = {"here": conversation_id}
        if self.one("SELECT 1 FROM large_files WHERE conversation_id = :here LIMIT 1", **here) is None:
            return []
        self.hold_files(conversation_id)
        rows = self.all(
            f"SELECT {FILE_COLUMNS} FROM large_files f WHERE conversation_id = :here AND NOT EXISTS "
            "(SELECT 1 FROM message_parts p WHERE p.file_id = f.file_id)",
            **here,
        )
        if not rows:
            return []
        # A payload's id belongs to one lane, whose messages may refer to it by a later slice only.
        named = {row[0] for row in self.all(f"SELECT DISTINCT {self._slice_file()} {self._slices()}", **here)}
        unused = [
            record
            for record in map(file_record, rows)
            if record.file_id not in named and (among is None or record.file_id in among)
        ]
        self.run(
            f"DELETE FROM large_files WHERE conversation_id = :here AND file_id {self.sql.any_of('ids')}",
            **here,
            ids=self.sql.array([record.file_id for record in unused]),
        )
        return unused

    def unreferenced(self, records: Sequence[FileRecord]) -> list[FileRecord]:
        needed = set(self.known_digests(sorted({record.sha256 for record in records})))
        free = [record for record in records if record.sha256 not in needed]
        self.run(
            f"DELETE FROM file_blobs WHERE sha256 {self.sql.any_of('digests')}",
            digests=self.sql.array([record.sha256 for record in free]),
        )
        # Only files are shared with databases beside this one; blobs are its own.
        needed_there = self.needed_by_others({record.sha256 for record in free})
        return [record for record in free if record.sha256 not in needed_there]

    def known_digests(self, digests: Sequence[str]) -> list[str]:
        self.hold_files()
        rows = self.all(
            f"SELECT DISTINCT sha256 FROM large_files WHERE sha256 {self.sql.any_of('digests')}",
            digests=self.sql.array(digests),
        )
        return [row[0] for row in rows]

    def needed_by_others(self, digests: set[str]) -> set[str]:
        """Which payloads other databases need that keep theirs in the same folder."""
        return set()

    def _keep_only_notes(self, chosen: Mapping[str, Any], numbers: Sequence[int]) -> None:
        """Deletes all parts but this package's own notes, which are numbered anew."""
        mine = self.sql.parts_of(":here", "ids.value")
        notes = self.all(
            f"SELECT p.message_id, p.metadata FROM {self.sql.given('ids')} CROSS JOIN message_parts p "
            f"WHERE {mine} AND p.type = 'compaction' ORDER BY p.message_id, p.ordinal",
            **chosen,
        )
        self.run_many(
            f"DELETE FROM message_parts AS p WHERE {self.sql.parts_of(':here', ':message')}",
            [{"here": chosen["here"], "message": number} for number in numbers],
        )
        for message_id, rows in groupby(notes, key=lambda row: int(row[0])):
            self.insert_notes(chosen["here"], message_id, 0, [row[1] for row in rows])

    def _bytes_of(self, chosen: Mapping[str, Any]) -> int:
        row = self.one(
            f"SELECT coalesce(sum(coalesce((SELECT sum({self._part_octets()}) FROM message_parts p "
            f"WHERE {self._parts_of_m()} AND p.type <> 'compaction'), 0) "
            f"+ coalesce({self.sql.octets('m.skeleton')}, 0)), 0) FROM {self.sql.given('ids')} CROSS JOIN messages m "
            "WHERE m.conversation_id = :here AND m.message_id = ids.value",
            **chosen,
        )
        return int(row[0])

    def _files_of(self, chosen: Mapping[str, Any]) -> frozenset[str]:
        rows = self.all(
            f"SELECT DISTINCT {self._slice_file()} FROM {self.sql.given('ids')} CROSS JOIN message_parts p "
            f"CROSS JOIN {self.sql.json_items('p.metadata', 'slices')} "
            f"WHERE {self.sql.parts_of(':here', 'ids.value')} AND p.file_id IS NOT NULL",
            **chosen,
        )
        return frozenset(row[0] for row in rows)

    def _hide_uncovered(self, chosen: Mapping[str, Any]) -> None:
        here = self.sql.ids_here("message_id")
        self.run(f"UPDATE messages AS m SET hidden = true WHERE {here} AND NOT {self._covered()}", **chosen)
        freed = self.one(f"SELECT coalesce(sum(tokens), 0) FROM context_items WHERE {here}", **chosen)[0]
        self.run(f"UPDATE context_items SET tokens = 0 WHERE {here}", **chosen)
        self.run(
            "UPDATE conversations SET raw_tokens = raw_tokens - :freed WHERE conversation_id = :here",
            freed=int(freed),
            here=chosen["here"],
        )

    def _hand_over_files(self, conversation_id: int) -> None:
        """Records that other conversations refer to go to one of those."""
        self.hold_files()
        for (file_id,) in self.all(
            "SELECT file_id FROM large_files WHERE conversation_id = :here", here=conversation_id
        ):
            values = {"here": conversation_id, "file": file_id}
            heir = self.one(
                "SELECT m.conversation_id FROM message_parts p JOIN messages m ON m.message_id = p.message_id"
                f"{self.sql.same_owner('p', 'm')} WHERE p.file_id = :file AND m.conversation_id <> :here LIMIT 1",
                **values,
            ) or self.one(
                f"SELECT m.conversation_id {self._slices()} AND m.conversation_id <> :here "
                f"AND {self._slice_file()} = :file LIMIT 1",
                **values,
            )
            if heir is not None:
                self.run(
                    "UPDATE large_files SET conversation_id = :heir WHERE conversation_id = :here AND file_id = :file",
                    heir=heir[0],
                    **values,
                )

    def _covered(self) -> str:
        """The condition that a summary covers ``messages m``."""
        same = f"l.message_id = m.message_id{self.sql.same_owner('l', 'm')}"
        return f"EXISTS (SELECT 1 FROM summary_messages l WHERE {same})"

    def _slices(self) -> str:
        """The texts of a conversation's lane of which slices lie in files."""
        return (
            "FROM conversations here CROSS JOIN conversations c CROSS JOIN messages m CROSS JOIN message_parts p "
            f"CROSS JOIN {self.sql.json_items('p.metadata', 'slices')} WHERE here.conversation_id = :here "
            "AND c.session_key = here.session_key AND m.conversation_id = c.conversation_id "
            f"AND {self._parts_of_m()} AND p.file_id IS NOT NULL"
        )

    def _slice_file(self) -> str:
        return self.sql.json_item("e.value", 2, "text")

    def _parts_of_m(self) -> str:
        return self.sql.parts_of("m.conversation_id", "m.message_id")

    def _part_octets(self) -> str:
        octets = self.sql.octets
        metadata = octets("CAST(p.metadata AS text)")
        return f"{octets('p.text')} + coalesce({octets('p.exact')}, 0) + coalesce({metadata}, 0)"
