"""``lcm_map`` and ``lcm_reduce``: what agents may ask of maps, in few tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lcm_plugin.background import Background
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import InputError
from lcm_plugin.maps.options import MapOptions
from lcm_plugin.maps.schemas import MAP_TOOL, REDUCE_TOOL
from lcm_plugin.maps.service import Maps
from lcm_plugin.maps.source import MapSource
from lcm_plugin.recall.fitting import cost_of, fitting_head, take
from lcm_plugin.recall.tools import MAX_IDS, Names, Roles, check
from lcm_plugin.store.maps.records import ItemState, MapItem, MapRecord
from lcm_plugin.types import Session

WAIT_SECONDS = 30.0
MAP_TOKENS = 300
REDUCE_TOKENS = 1_000
_SAMPLE = 5
_ERRORS = 3
_MOST_ROWS = 200
# Tokens of one value that is shown; of one of a map's sample; of one of a first row that would not fit otherwise.
_SHOWN, _SAMPLED, _NARROW = 60, 24, 8
_REASON = 60
_MORE = 30


class MapArguments(BaseModel):
    """What ``lcm_map`` takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: str = ""
    schema_: dict[str, Any] = Field(default_factory=dict, alias="schema")
    ids: Names = Field(default_factory=list, max_length=MAX_IDS)
    query: str = ""
    roles: Roles = Field(default_factory=list, max_length=20)
    sender: str = ""
    tool_name: str = ""
    since: str = ""
    before: str = ""
    split: Literal["lines", "csv", "json", "markdown"] | None = None
    agentic: bool = False
    handle: str = ""


class ReduceArguments(BaseModel):
    """What ``lcm_reduce`` takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    handles: Names = Field(min_length=1, max_length=10)
    sql: str = Field(min_length=1)


class MapTools:
    """Answers the tools of maps."""

    def __init__(
        self, maps: Maps, config: LcmConfig, background: Background, count: Callable[[str], int]
    ) -> None:
        self._maps = maps
        self._config = config
        self._background = background
        self._count = count

    def call(self, session: Session, name: str, arguments: object) -> dict[str, Any]:
        """A tool's answer. Raises `InputError` and `NotFound`."""
        if name == MAP_TOOL:
            return self._map(session, check(MapArguments, name, arguments))
        asked = check(ReduceArguments, REDUCE_TOOL, arguments)
        return self._reduce([self._maps.find(session, handle) for handle in asked.handles], asked.sql)

    def describe(self, session: Session, map_id: str, offset: int, cap: int) -> dict[str, Any]:
        """A map and its rows behind a place, as many as ``cap`` tokens hold."""
        record = self._maps.find(session, map_id)
        head: dict[str, Any] = {"id": record.map_id} | self._sums(record)
        about = {
            "prompt": record.prompt,
            "source": record.source,
            "schema": json.loads(record.answer_schema),
        }
        answer = fitting_head(head | about, head, cap, self._count) | {"rows": list[Any]()}
        used = self._tokens(answer)
        for item in self._maps.items(record.map_id, after=offset):
            row = self._row(item, _SHOWN)
            used += self._tokens(row) + 1
            if used > cap and answer["rows"]:
                return answer | {"read_on": {"id": record.map_id, "offset": item.place - 1}}
            answer["rows"].append(row)
        return answer

    def _map(self, session: Session, asked: MapArguments) -> dict[str, Any]:
        if asked.handle:
            record = self._maps.find(session, asked.handle)
        else:
            record = self._created(session, asked)
        if record.state == "running" and self._maps.is_answerable(record):
            key = f"map {record.map_id}"
            self._background.submit(key, lambda: self._work(record.map_id))
            self._background.wait_for(key, WAIT_SECONDS)
            record = self._maps.find(session, record.map_id)
        return self._shown(record)

    def _created(self, session: Session, asked: MapArguments) -> MapRecord:
        if not asked.prompt or not asked.schema_:
            raise InputError(f"{MAP_TOOL}: prompt and schema are needed, or the handle of an earlier map")
        source = MapSource(
            ids=asked.ids,
            query=asked.query,
            roles=asked.roles,
            sender=asked.sender,
            tool_name=asked.tool_name,
            since=asked.since,
            before=asked.before,
            split=asked.split,
        )
        options = MapOptions(agentic=asked.agentic, budget_tokens=self._config.map_max_tokens)
        return self._maps.create(
            session, source, asked.prompt, asked.schema_, "", options, self._config.map_max_items
        )

    def _work(self, map_id: str) -> None:
        self._maps.run(map_id, stop=lambda: self._background.closing)

    def _shown(self, record: MapRecord) -> dict[str, Any]:
        """Handle, sums, a sample and errors, in at most `MAP_TOKENS`."""
        answer = {"handle": record.map_id} | self._sums(record)
        if record.state == "running":
            here = self._maps.is_answerable(record)
            waits = "Still running." if here else "It waits for a worker: no model answers maps here."
            answer["note"] = f"{waits} Call {MAP_TOOL} with this handle to see how far it is."
        elif record.done:
            answer["note"] = (
                f"Count with {REDUCE_TOOL}; read rows with lcm_describe, search them with lcm_grep, file_ids: the handle."
            )
        kinds: tuple[tuple[str, ItemState, int], ...] = (
            ("errors", "failed", _ERRORS),
            ("sample", "done", _SAMPLE),
        )
        for name, state, most in kinds:
            rows: list[dict[str, Any]] = []
            # Errors leave room for a sample.
            room = MAP_TOKENS if name == "sample" else (MAP_TOKENS + self._tokens(answer)) // 2
            for item in self._maps.first_items(record.map_id, state, most):
                rows.append(self._row(item, _SAMPLED))
                if self._tokens(answer | {name: rows}) > room:
                    rows.pop()
                    break
            if rows:
                answer[name] = rows
        return answer

    def _reduce(self, records: list[MapRecord], sql: str) -> dict[str, Any]:
        result = self._maps.reduce(records, sql, _MOST_ROWS)
        unfinished = [one.map_id for one in records if one.left or one.failed]
        answer: dict[str, Any] = {
            "columns": [self._short(name, _SHOWN) for name in result.columns],
            "rows": [],
        }
        if self._tokens(answer) > REDUCE_TOKENS // 2:
            raise InputError(f"sql gives {len(result.columns)} columns, too many to show: name fewer")
        if unfinished:
            answer["notices"] = [
                f"{one.map_id}: {one.left:,} items without an answer, {one.failed:,} failed"
                for one in records
                if one.map_id in unfinished
            ]
        used = self._tokens(answer)
        for number, row in enumerate(result.rows):
            shown = self._fitting(
                row, REDUCE_TOKENS - _MORE - used, (_SHOWN,) if number else (_SHOWN, _NARROW)
            )
            if shown is None:
                answer["more"] = f"rows from {number + 1} on are left out: use LIMIT and OFFSET, or group"
                break
            used += self._tokens(shown) + 1
            answer["rows"].append(shown)
        else:
            if result.more:
                answer["more"] = f"only the first {_MOST_ROWS} rows were read"
        return answer

    def _fitting(self, row: Sequence[Any], room: int, widths: Sequence[int]) -> list[Any] | None:
        """A row, its values cut to the first width with which it fits; None where it does not."""
        for most in widths:
            shown = [self._short(value, most) for value in row]
            if self._tokens(shown) < room:
                return shown
        return None

    def _sums(self, record: MapRecord) -> dict[str, Any]:
        sums: dict[str, Any] = {
            "state": record.state,
            "items": record.items,
            "done": record.done,
            "failed": record.failed,
            "tokens_spent": record.spent,
        }
        return sums | ({"reason": self._short(record.reason, _REASON)} if record.reason else {})

    def _row(self, item: MapItem, most: int) -> dict[str, Any]:
        row: dict[str, Any] = {"place": item.place, "ref": self._short(item.ref, most)}
        if item.answer is not None:
            return row | {"answer": self._short(json.loads(item.answer), most)}
        return row | ({"error": self._short(item.error, most)} if item.error else {"state": item.state})

    def _short(self, value: Any, most: int) -> Any:
        """A value as it is, or the first tokens of a long one."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        piece = take(text, 0, most, self._count).text
        return value if len(piece) == len(text) else f"{piece}…"

    def _tokens(self, value: Any) -> int:
        return cost_of(value, self._count)
