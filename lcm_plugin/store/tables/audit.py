"""Reads of the integrity checker that both databases answer alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lcm_plugin.store.integrity import DAY_MS, LANE_IDLE_DAYS, ONE_RUN_IDLE_DAYS, Breach, is_json
from lcm_plugin.store.records import BY_PERSON
from lcm_plugin.store.session_keys import is_cron, is_single_run
from lcm_plugin.store.tables.audit_rules import in_conversation, rules
from lcm_plugin.store.transaction import Transaction

_JSON_RULES = {"message_unreadable": False, "message_quarantined": True}


class AuditTable(Transaction):
    """The rules between rows, and what the checker needs to go on."""

    # What the database can tell of JSON before Python, which wrote it, parses it and has the last word: a condition on
    # ``messages m``, and a read of ``message_parts p`` in the columns of a `Breach` and the text.
    suspect_skeleton: str
    suspect_parts: str

    def audit(self, name: str, *, conversation_id: int | None = None, now: int = 0) -> Iterator[Breach]:
        if name in _JSON_RULES:
            yield from self.unreadable_json(conversation_id, hidden=_JSON_RULES[name])
            return
        if name == "lane_stale":
            yield from self.stale_lanes(conversation_id, now)
            return
        for row in self.stream(rules(self.sql)[name], here=conversation_id, now=now):
            yield Breach(*row)

    def stale_lanes(self, conversation_id: int | None, now: int) -> Iterator[Breach]:
        """Open conversations that nobody used for long; scheduled jobs and single runs sooner than others."""
        query = (
            "SELECT v.conversation_id, v.session_key, v.updated_at FROM conversations v "
            f"WHERE {in_conversation('v.conversation_id')} AND v.active AND v.updated_at > 0 AND v.updated_at < :since"
        )
        for of, key, used_at in self.stream(
            query, here=conversation_id, since=now - ONE_RUN_IDLE_DAYS * DAY_MS
        ):
            idle = now - used_at
            if idle > LANE_IDLE_DAYS * DAY_MS or is_cron(key) or is_single_run(key):
                yield Breach(of, key, f"last used {idle // DAY_MS} days ago")

    def unreadable_json(self, conversation_id: int | None, *, hidden: bool) -> Iterator[Breach]:
        """Messages, hidden ones or the others, whose JSON does not parse."""
        skeletons = (
            "SELECT m.conversation_id, 'msg_' || m.message_id, 'its skeleton is not JSON', m.skeleton FROM messages m "
            f"WHERE {in_conversation('m.conversation_id')} AND m.hidden = :hidden AND {self.suspect_skeleton}"
        )
        query = f"{skeletons} UNION ALL {self.suspect_parts}"
        for *found, text in self.stream(query, here=conversation_id, hidden=hidden):
            if not is_json(text):
                yield Breach(*found)

    def message_identities(self, conversation_id: int) -> Iterator[tuple[int, int]]:
        query = "SELECT seq, identity FROM messages WHERE conversation_id = :here AND withdrawn_at IS NULL ORDER BY seq"
        return ((seq, identity) for seq, identity in self.stream(query, here=conversation_id))

    def stale_summaries(self, conversation_id: int, refs: Sequence[str]) -> Sequence[str]:
        rows = self.all(
            "WITH RECURSIVE stale (id) AS (SELECT summary_id FROM summaries WHERE conversation_id = :here "
            f"AND summary_id {self.sql.any_of('refs')} "
            "UNION SELECT l.summary_id FROM stale JOIN summary_parents l ON l.parent_summary_id = stale.id "
            "JOIN summaries s ON s.summary_id = l.summary_id WHERE s.level <> :person) "
            "SELECT summary_id FROM summaries JOIN stale ON id = summary_id ORDER BY depth, summary_rowid",
            here=conversation_id,
            refs=self.sql.array(refs),
            person=BY_PERSON,
        )
        return [row[0] for row in rows]

    def file_digests(self) -> Iterator[str]:
        query = f"SELECT DISTINCT {self.sql.bytewise('sha256')} AS digest FROM large_files ORDER BY digest"
        for (digest,) in self.stream(query):
            yield digest
