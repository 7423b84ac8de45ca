"""The rows of maps and their items, for both databases."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_plugin.store.maps.records import ItemState, MapItem, MapRecord, MapState, NewItem, Settlement
from lcm_plugin.store.transaction import Transaction

# Types that both databases know.
MAPS_SCHEMA = """
CREATE TABLE maps (
    map_id text NOT NULL PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    prompt text NOT NULL,
    answer_schema text NOT NULL,
    model text NOT NULL,
    options text NOT NULL,
    source text NOT NULL,
    created_at bigint NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    updated_at bigint NOT NULL,
    items bigint NOT NULL,
    done bigint NOT NULL,
    failed bigint NOT NULL,
    tokens_in bigint NOT NULL,
    tokens_out bigint NOT NULL,
    cost bigint NOT NULL
);
CREATE INDEX maps_conversation ON maps (conversation_id, created_at);
CREATE INDEX maps_running ON maps (created_at) WHERE state = 'running';
CREATE TABLE map_items (
    map_id text NOT NULL REFERENCES maps ON DELETE CASCADE,
    place bigint NOT NULL,
    conversation_id bigint NOT NULL,
    ref text NOT NULL,
    content text NOT NULL,
    item_key text NOT NULL,
    tokens bigint NOT NULL,
    state text NOT NULL,
    answer text,
    error text NOT NULL DEFAULT '',
    attempts bigint NOT NULL DEFAULT 0,
    tokens_in bigint NOT NULL DEFAULT 0,
    tokens_out bigint NOT NULL DEFAULT 0,
    cost bigint NOT NULL DEFAULT 0,
    model text NOT NULL DEFAULT '',
    owner text,
    lease_until bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (map_id, place)
);
CREATE INDEX map_items_todo ON map_items (map_id, state, place);
CREATE INDEX map_items_equal ON map_items (item_key);
CREATE INDEX map_items_conversation ON map_items (conversation_id, map_id, place);
"""
_MAP = (
    "map_id, conversation_id, prompt, answer_schema, model, options, source, created_at, state, reason, updated_at, "
    "items, done, failed, tokens_in, tokens_out, cost"
)
_ITEM = "map_id, place, ref, content, item_key, tokens, state, answer, error, attempts, tokens_in, tokens_out, cost, model"
_ADD = (
    "INSERT INTO map_items (map_id, place, conversation_id, ref, content, item_key, tokens, state, answer, model) "
    "VALUES (:map, :place, :here, :ref, :content, :item_key, :tokens, "
    "CASE WHEN EXISTS (SELECT 1 FROM map_items WHERE item_key = :item_key AND state = 'done') THEN 'done' ELSE 'open' END, "
    "(SELECT answer FROM map_items WHERE item_key = :item_key AND state = 'done' LIMIT 1), "
    "coalesce((SELECT model FROM map_items WHERE item_key = :item_key AND state = 'done' LIMIT 1), ''))"
)
# The joined texts are no columns of an index, so that the rows are found by their key: a planner without statistics
# takes the index of states, and reads all open items of the map for each answer.
_ANSWER_EQUAL = (
    "UPDATE map_items SET state = 'done', error = '', answer = :answer, model = :model "
    "WHERE item_key = (SELECT item_key FROM map_items WHERE map_id = :map AND place = :place) "
    "AND map_id || '' = :map AND state || '' = 'open'"
)
# Open items are looked through for one that is not equal to any that is asked about, up to so many at a time.
_WIDEST_LOOK = 2_000


class MapTable(Transaction):
    """Reads and changes of maps."""

    def map(self, map_id: str) -> MapRecord | None:
        row = self.one(f"SELECT {_MAP} FROM maps WHERE map_id = :map", map=map_id)
        return MapRecord(*row) if row else None

    def maps(self, conversation_ids: Sequence[int] | None, *, limit: int = 50) -> list[MapRecord]:
        chosen, values = "", {}
        if conversation_ids is not None:
            chosen = f"WHERE conversation_id {self.sql.any_of('ids')} "
            values = {"ids": self.sql.array(conversation_ids)}
        rows = self.all(
            f"SELECT {_MAP} FROM maps {chosen}ORDER BY created_at DESC, map_id LIMIT :limit",
            limit=limit,
            **values,
        )
        return [MapRecord(*row) for row in rows]

    def running_maps(self, *, limit: int = 16) -> list[MapRecord]:
        rows = self.all(
            f"SELECT {_MAP} FROM maps WHERE state = 'running' ORDER BY created_at LIMIT :limit", limit=limit
        )
        return [MapRecord(*row) for row in rows]

    def map_items(
        self, map_id: str, *, after: int = 0, limit: int, state: ItemState | None = None
    ) -> list[MapItem]:
        chosen = "" if state is None else " AND state = :state"
        rows = self.all(
            f"SELECT {_ITEM} FROM map_items WHERE map_id = :map AND place > :after{chosen} ORDER BY place LIMIT :limit",
            map=map_id,
            after=after,
            limit=limit,
            **({} if state is None else {"state": state}),
        )
        return [MapItem(*row) for row in rows]

    def map_holders(self, map_id: str) -> list[str]:
        rows = self.all(
            "SELECT DISTINCT owner FROM map_items WHERE map_id = :map AND state = 'running'", map=map_id
        )
        return [row[0] for row in rows if row[0]]

    def add_map(self, record: MapRecord) -> None:
        self.run(
            f"INSERT INTO maps ({_MAP}) VALUES (:map, :here, :prompt, :schema, :model, :options, :source, :at, :state, "
            "'', :at, 0, 0, 0, 0, 0, 0)",
            map=record.map_id,
            here=record.conversation_id,
            prompt=record.prompt,
            schema=record.answer_schema,
            model=record.model,
            options=record.options,
            source=record.source,
            at=record.created_at,
            state=record.state,
        )

    def add_map_items(self, record: MapRecord, after: int, items: Sequence[NewItem]) -> None:
        shared = {"map": record.map_id, "here": record.conversation_id}
        self.run_many(
            _ADD,
            [
                shared
                | {
                    "place": after + number,
                    "ref": item.ref,
                    "content": item.content,
                    "item_key": item.item_key,
                    "tokens": item.tokens,
                }
                for number, item in enumerate(items, 1)
            ],
        )
        self.run(
            "UPDATE maps SET items = items + :added, done = done + (SELECT count(*) FROM map_items "
            "WHERE map_id = :map AND state = 'done' AND place > :after) WHERE map_id = :map",
            added=len(items),
            after=after,
            map=record.map_id,
        )

    def claim_map_items(self, map_id: str, owner: str, now: int, lease_ms: int, limit: int) -> list[MapItem]:
        self._lock(map_id)
        keys = self._keys_asked_about(map_id, now)
        places = self._free_places(map_id, now, "state = 'open'", keys, limit)
        if len(places) < limit:
            late = "state = 'running' AND lease_until < :now"
            places += self._free_places(map_id, now, late, keys, limit - len(places))
        rows = self.all(
            "UPDATE map_items SET state = 'running', owner = :owner, lease_until = :until WHERE map_id = :map "
            f"AND place {self.sql.any_of('places')} RETURNING {_ITEM}",
            owner=owner,
            until=now + lease_ms,
            map=map_id,
            places=self.sql.array(places),
        )
        return sorted((MapItem(*row) for row in rows), key=lambda item: item.place)

    def _lock(self, map_id: str) -> None:
        """Workers take turns: two at once could ask about equal items, or count an answer twice."""
        if self.lock_row:
            self.one(f"SELECT 1 FROM maps WHERE map_id = :map{self.lock_row}", map=map_id)

    def _keys_asked_about(self, map_id: str, now: int) -> set[str]:
        rows = self.all(
            "SELECT item_key FROM map_items WHERE map_id = :map AND state = 'running' AND lease_until >= :now",
            map=map_id,
            now=now,
        )
        return {row[0] for row in rows}

    def _free_places(self, map_id: str, now: int, free: str, keys: set[str], limit: int) -> list[int]:
        """The first free items whose key is not in ``keys``, one of each key, which is added."""
        window = limit
        while True:
            rows = self.all(
                f"SELECT place, item_key FROM map_items WHERE map_id = :map AND {free} ORDER BY place LIMIT :window",
                map=map_id,
                window=window,
                **({"now": now} if ":now" in free else {}),
            )
            first = {key: place for place, key in reversed(rows) if key not in keys}
            if len(first) >= limit or len(rows) < window or window >= _WIDEST_LOOK:
                break
            # Equal items wait for the answer of the one that is asked about: look behind them.
            window = min(_WIDEST_LOOK, window * 8)
        chosen = sorted((place, key) for key, place in first.items())[:limit]
        keys.update(key for _, key in chosen)
        return [place for place, _ in chosen]

    def release_map_items(self, map_id: str, owner: str) -> int:
        return self.run(
            "UPDATE map_items SET state = 'open', owner = NULL, lease_until = 0 "
            "WHERE map_id = :map AND state = 'running' AND owner = :owner",
            map=map_id,
            owner=owner,
        )

    def settle_map_items(self, map_id: str, settled: Sequence[Settlement], now: int) -> None:
        self._lock(map_id)
        found = self.sql.looked_up(
            self.sql.given("places"), "map_items i", "i.map_id = :map AND i.place = places.value"
        )
        rows = self.all(
            f"SELECT i.place, i.state {found}",
            map=map_id,
            places=self.sql.array([one.place for one in settled]),
        )
        before = {place: state for place, state in rows if state != "done"}
        changed = [one for one in settled if one.place in before]
        self._settle(map_id, changed)
        answered = [one for one in changed if one.state == "done"]
        done = len(answered) + self._settle_equal(map_id, answered)
        failed = sum((one.state == "failed") - (before[one.place] == "failed") for one in changed)
        self.run(
            "UPDATE maps SET done = done + :done, failed = failed + :failed, tokens_in = tokens_in + :tokens_in, "
            "tokens_out = tokens_out + :tokens_out, cost = cost + :cost, updated_at = :now WHERE map_id = :map",
            done=done,
            failed=failed,
            tokens_in=sum(one.tokens_in for one in settled),
            tokens_out=sum(one.tokens_out for one in settled),
            cost=sum(one.cost for one in settled),
            now=now,
            map=map_id,
        )

    def _settle(self, map_id: str, settled: Sequence[Settlement]) -> None:
        self.run_many(
            "UPDATE map_items SET state = :state, answer = :answer, error = :error, attempts = attempts + :attempts, "
            "tokens_in = tokens_in + :tokens_in, tokens_out = tokens_out + :tokens_out, cost = cost + :cost, "
            "model = :model, owner = NULL, lease_until = 0 WHERE map_id = :map AND place = :place",
            [
                {
                    "map": map_id,
                    "place": one.place,
                    "state": one.state,
                    "answer": one.answer,
                    "error": one.error,
                    "attempts": one.attempts,
                    "tokens_in": one.tokens_in,
                    "tokens_out": one.tokens_out,
                    "cost": one.cost,
                    "model": one.model,
                }
                for one in settled
            ],
        )

    def _settle_equal(self, map_id: str, answered: Sequence[Settlement]) -> int:
        """An answer is that of every equal item that waits in the map; returns how many there are."""
        return self.run_many(
            _ANSWER_EQUAL,
            [
                {"map": map_id, "place": one.place, "answer": one.answer, "model": one.model}
                for one in answered
            ],
        )

    def reopen_failed_items(self, map_id: str) -> int:
        opened = self.run(
            "UPDATE map_items SET state = 'open', attempts = 0 WHERE map_id = :map AND state = 'failed'",
            map=map_id,
        )
        self.run("UPDATE maps SET failed = 0 WHERE map_id = :map", map=map_id)
        return opened

    def set_map_state(self, map_id: str, state: MapState, reason: str, options: str, now: int) -> None:
        self.run(
            "UPDATE maps SET state = :state, reason = :reason, options = :options, updated_at = :now WHERE map_id = :map",
            map=map_id,
            state=state,
            reason=reason,
            options=options,
            now=now,
        )

    def remove_map(self, map_id: str) -> None:
        self.run("DELETE FROM map_items WHERE map_id = :map", map=map_id)
        self.run("DELETE FROM maps WHERE map_id = :map", map=map_id)

    def replace_map_text(self, record: MapRecord) -> None:
        self.run(
            "UPDATE maps SET prompt = :prompt, answer_schema = :schema, source = :source, reason = :reason "
            "WHERE map_id = :map",
            map=record.map_id,
            prompt=record.prompt,
            schema=record.answer_schema,
            source=record.source,
            reason=record.reason,
        )

    def replace_map_item(self, item: MapItem) -> None:
        self.run(
            "UPDATE map_items SET content = :content, answer = :answer, error = :error, ref = :ref "
            "WHERE map_id = :map AND place = :place",
            map=item.map_id,
            place=item.place,
            content=item.content,
            answer=item.answer,
            error=item.error,
            ref=item.ref,
        )
