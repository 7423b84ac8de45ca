"""Maps: one prompt over many items, worked off in the background or by whoever waits for it, and counted by SQL."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import InputError, NotFound
from lcm_plugin.events import EventBus
from lcm_plugin.maps.answering import Answerer, Meter
from lcm_plugin.maps.contract import Contract
from lcm_plugin.maps.handing import HandingOn
from lcm_plugin.maps.helper_tools import HelperTool, HelperTools, refuse_recursion
from lcm_plugin.maps.options import MICRO, MapOptions
from lcm_plugin.maps.prompts import as_data, rules
from lcm_plugin.maps.runner import PERSON, MapRunner
from lcm_plugin.maps.source import MapSource, Sources
from lcm_plugin.recall.delegation.delegate import Delegate
from lcm_plugin.recall.service import Recall
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.conversations import SessionDirectory
from lcm_plugin.sessions.kinds import open_conversation
from lcm_plugin.store.maps.query import AnswerTables, Result
from lcm_plugin.store.maps.records import ItemState, MapItem, MapRecord, NewItem
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.retry import retry_lost
from lcm_plugin.summarize.completers import Completions
from lcm_plugin.types import Message, Session

LONGEST_PROMPT = 20_000
COLLECTING = "its items were not all read"
SELECT_SECONDS = 20.0
_BATCH = 500
_NO_TOOLS = HelperTools()


@dataclass(frozen=True, slots=True)
class MapPlan:
    """What a map would be: its items, the tokens of their prompts, and what these and full answers cost at most.

    ``usd`` is None when the price is not known.
    """

    items: int
    tokens_in: int
    most_tokens_out: int
    usd: float | None


class Maps:
    """Creates, runs, stops and reads maps. Thread-safe; workers in other processes may share one."""

    def __init__(
        self,
        config: LcmConfig,
        store: Store,
        directory: SessionDirectory,
        recall: Recall,
        sources: Callable[[Maps], Sources],
        completions: Completions,
        count: Callable[[str], int],
        events: EventBus,
        clock: Callable[[], int],
    ) -> None:
        self._config = config
        self._store = store
        self._directory = directory
        self._recall = recall
        self._sources = sources(self)
        self._completions = completions
        self._count = count
        self._events = events
        self._clock = clock
        self._tools: dict[str, HelperTools] = {}

    def map(
        self,
        session: Session,
        source: MapSource,
        prompt: str,
        schema: Mapping[str, Any],
        *,
        model: str = "",
        options: MapOptions | None = None,
        parallel: int | None = None,
        tools: Sequence[HelperTool] = (),
    ) -> MapRecord:
        """Asks a model about each item of a source, stores the answers, and returns the map when it ended.

        ``tools`` are for the helpers of an agentic map. Raises `InputError` for what cannot be a map, and without a
        model.
        """
        record = self.create(session, source, prompt, dict(schema), model, options, tools=tools)
        return self.run(record.map_id, parallel=parallel)

    def plan(
        self, session: Session, source: MapSource, prompt: str, schema: Any, model: str, options: MapOptions
    ) -> MapPlan:
        """What a map would cost, without making it."""
        contract = self._checked(prompt, schema)
        options = self._priced(options, model)
        items = tokens = 0
        for _, content in self._sources.items(session, source):
            items += 1
            tokens += self._count(content)
        sent = rules(prompt, contract.text, agentic=options.agentic), as_data("")
        tokens += items * sum(self._count(str(message["content"])) for message in sent)
        most = items * options.max_tokens
        usd = options.cost(tokens, most) / MICRO if options.price else None
        return MapPlan(items, tokens, most, usd)

    def create(
        self,
        session: Session,
        source: MapSource,
        prompt: str,
        schema: Any,
        model: str = "",
        options: MapOptions | None = None,
        most_items: int | None = None,
        *,
        tools: Sequence[HelperTool] = (),
    ) -> MapRecord:
        """Stores a map with all its items, ready to be worked off. An equal item's answer is taken over.

        Raises `InputError` for a bad prompt, schema or source, for no items or more than ``most_items``, and for a
        session that may not be written to; then nothing is stored.
        """
        refuse_recursion()
        contract = self._checked(prompt, schema)
        helpers = HelperTools(tools)
        options = replace(self._priced(options or MapOptions(), model), tools=helpers.names)
        record = self._begun(session, source, prompt, contract, model, options)
        if tools:
            self._tools[record.map_id] = helpers
        try:
            added = self._add_items(record, contract, self._sources.items(session, source), most_items)
            if not added:
                raise InputError(f"there are no items: {source}")
        except BaseException:
            with self._store.write() as writer:
                writer.remove_map(record.map_id)
            self._tools.pop(record.map_id, None)
            raise
        self._set_state(record, "running", "")
        self._events.emit(
            "map.created",
            conversation_id=record.conversation_id,
            session_key=session.key,
            map_id=record.map_id,
            items=added,
        )
        return self.get(record.map_id)

    def get(self, map_id: str) -> MapRecord:
        """A map by its id; `NotFound` for another."""
        with self._store.read() as reader:
            return _known(reader, map_id)

    def find(self, session: Session, map_id: str) -> MapRecord:
        """A map that a session may read; `NotFound` for another."""
        with self._store.read() as reader:
            return self.find_in(reader, session, map_id)

    def find_in(self, reader: Reader, session: Session, map_id: str) -> MapRecord:
        """The same within a transaction."""
        record = reader.map(map_id.strip())
        scope = self._recall.scope(reader, session, True, None)
        if record is None or record.conversation_id not in scope:
            raise NotFound(
                f"{map_id.strip()[:40]} was not found among the maps of the conversations you can search"
            )
        return record

    def listed(self, session: Session | None = None, limit: int = 50) -> list[MapRecord]:
        """The newest maps of what a session may read, or of the whole database."""
        with self._store.read() as reader:
            if session is None:
                return reader.maps(None, limit=limit)
            scope = self._recall.scope(reader, session, True, None)
            return reader.maps(scope.conversation_ids, limit=limit)

    def first_items(self, map_id: str, state: ItemState, most: int) -> list[MapItem]:
        """The first items in a state."""
        with self._store.read() as reader:
            return reader.map_items(map_id, limit=most, state=state)

    def items(self, map_id: str, after: int = 0) -> Iterator[MapItem]:
        """A map's items behind a place, in order and in pages."""
        while True:
            with self._store.read() as reader:
                page = reader.map_items(map_id, after=after, limit=_BATCH)
            yield from page
            if len(page) < _BATCH:
                return
            after = page[-1].place

    def run(
        self,
        map_id: str,
        *,
        parallel: int | None = None,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[MapRecord], object] = lambda record: None,
        tools: Sequence[HelperTool] = (),
    ) -> MapRecord:
        """Works a map off in this thread, until it is done, stopped, or ``stop`` says so.

        ``tools`` are the helpers' tools of a map that another process made. Raises `InputError` without them, and when
        no model is set.
        """
        refuse_recursion()
        record = self.get(map_id)
        if tools:
            self._tools[map_id] = HelperTools(tools)
        if missing := self._missing_tools(record):
            raise InputError(
                f"{map_id} needs the helper tools {', '.join(missing)}: give them to engine.maps.run"
            )
        if not self.is_answerable(record):
            raise InputError(
                "no model answers maps: set mapModel or summaryModel, name a model, or give a completer"
            )
        options = MapOptions.load(record.options)
        contract = Contract(json.loads(record.answer_schema))
        answerer = Answerer(
            record,
            options,
            contract,
            self._completions,
            self._count,
            self._delegated(record) if options.agentic else None,
        )
        runner = MapRunner(
            self._store,
            self._events,
            self._clock,
            answerer,
            options,
            parallel or self._config.map_parallel,
        )
        return runner.run(map_id, lambda: stop() or self._completions.cancelled, progress)

    def work_off(self, stop: Callable[[], bool]) -> int:
        """Works the running maps off and returns how many; those that no model here can answer are left to others."""
        with self._store.read() as reader:
            waiting = [one for one in reader.running_maps() if self._may_write(reader, one)]
        waiting = [one for one in waiting if self.is_answerable(one)]
        for record in waiting:
            if not stop():
                self.run(record.map_id, stop=stop)
        return len(waiting)

    def is_due(self) -> bool:
        """Whether a map waits that a model here can answer."""
        with self._store.read() as reader:
            return any(self.is_answerable(record) for record in reader.running_maps())

    def resume(
        self,
        map_id: str,
        *,
        budget_tokens: int | None = None,
        budget_usd: float | None = None,
        failed_too: bool = True,
    ) -> MapRecord:
        """Lets a map go on, with other limits when they are given; items that failed are tried again."""
        record = self.get(map_id)
        if record.reason == COLLECTING:
            raise InputError(f"{map_id} cannot go on: {COLLECTING}; make it again")
        options = MapOptions.load(record.options)
        options = replace(
            options,
            budget_tokens=options.budget_tokens if budget_tokens is None else budget_tokens,
            budget_usd=options.budget_usd if budget_usd is None else budget_usd,
        )
        if failed_too and record.failed:
            with self._store.write() as writer:
                writer.reopen_failed_items(map_id)
        self._set_state(replace(record, options=options.dump()), "running", "")
        return self.get(map_id)

    def stop(self, map_id: str) -> MapRecord:
        """Stops a map: calls under way are finished and stored, no others begin."""
        record = self.get(map_id)
        if record.state == "running":
            self._set_state(record, "stopped", PERSON)
        return self.get(map_id)

    def remove(self, map_id: str) -> None:
        """Deletes a map with its items and answers."""
        with self._store.write() as writer:
            _known(writer, map_id)
            writer.remove_map(map_id)

    def reduce(self, records: Sequence[MapRecord], sql: str, most_rows: int) -> Result:
        """The first rows of a SELECT over the answers of maps, in tables ``answers_1`` …; ``answers`` is the first.

        Raises `InputError` for anything but one SELECT.
        """
        with AnswerTables() as tables:
            for number, record in enumerate(records, 1):
                columns = Contract(json.loads(record.answer_schema)).columns
                tables.add(f"answers_{number}", columns, map(_as_row, self.items(record.map_id)))
            tables.alias("answers", "answers_1")
            return tables.select(sql, most_rows, SELECT_SECONDS)

    def _checked(self, prompt: str, schema: Any) -> Contract:
        if not prompt.strip():
            raise InputError("prompt is empty: say what each item is to be judged by")
        if len(prompt) > LONGEST_PROMPT:
            raise InputError(f"prompt has {len(prompt):,} characters; {LONGEST_PROMPT:,} are allowed")
        return Contract(schema)

    def _priced(self, options: MapOptions, model: str) -> MapOptions:
        """The options with the model's price, where it is known and none was given."""
        known = self._completions.price(model, "map") if options.price is None else None
        return replace(options, price_in=known[0], price_out=known[1]) if known else options

    def _begun(
        self,
        session: Session,
        source: MapSource,
        prompt: str,
        contract: Contract,
        model: str,
        options: MapOptions,
    ) -> MapRecord:
        if not session.name:
            raise InputError("a session needs a key or an id")
        access = self._directory.access(session)
        if access is not Access.FULL:
            raise InputError(f"the session is {access}: nothing of it may be written, so it can have no map")
        keyed, now = self._directory.keyed(session), self._clock()
        map_id = f"map_{secrets.token_hex(8)}"

        def add() -> MapRecord:
            with self._store.write() as writer:
                conversation = open_conversation(writer, keyed, now)
                record = MapRecord(
                    map_id,
                    conversation.conversation_id,
                    prompt,
                    contract.text,
                    model,
                    options.dump(),
                    str(source),
                    now,
                    "stopped",
                )
                writer.add_map(record)
                writer.set_map_state(map_id, "stopped", COLLECTING, record.options, now)
                return record

        return retry_lost(add)

    def _add_items(
        self, record: MapRecord, contract: Contract, items: Iterator[tuple[str, str]], most: int | None
    ) -> int:
        added, key = 0, self._key_maker(record, contract)
        while batch := list(islice(items, _BATCH)):
            if most is not None and added + len(batch) > most:
                raise InputError(f"more than {most:,} items (mapMaxItems): narrow the source")
            new = [NewItem(ref, content, key(content), self._count(content)) for ref, content in batch]
            with self._store.write() as writer:
                writer.add_map_items(record, added, new)
            added += len(batch)
        return added

    def _key_maker(self, record: MapRecord, contract: Contract) -> Callable[[str], str]:
        """Equal for equal questions to one model. What an agentic item looks up differs by conversation."""
        options = MapOptions.load(record.options)
        routes = self._completions.routes("map", record.model)
        model = routes[0].name if routes else record.model
        reads = [record.conversation_id, *options.tools] if options.agentic else 0
        shared = hashlib.sha256(json.dumps([record.prompt, contract.text, model, reads]).encode())

        def key(content: str) -> str:
            digest = shared.copy()
            digest.update(content.encode("utf-8", "surrogatepass"))
            return digest.hexdigest()[:32]

        return key

    def _delegated(self, record: MapRecord) -> Callable[[Meter, list[Message], MapOptions], str]:
        """A helper that may read what the map's session may."""
        with self._store.read() as reader:
            conversation = reader.conversation(record.conversation_id)
            session = (
                Session(conversation.session_key, conversation.session_id)
                if conversation
                else Session("", "")
            )
            scope = self._recall.scope(reader, session, False, None)
        helpers = self._helper_tools(record)

        def ask(meter: Meter, messages: list[Message], options: MapOptions) -> str:
            delegate = Delegate(self._recall, session, self._config, meter, self._count)
            return delegate.reply(
                messages,
                scope,
                HandingOn(
                    helpers, meter, lambda refs: self._recall.read_texts(refs, scope), options, self._count
                ),
                max_tokens=options.max_tokens,
                token_cap=options.read_tokens,
                seconds=options.seconds,
            )

        return ask

    def is_answerable(self, record: MapRecord) -> bool:
        """Whether a model is set or given here that answers a map's items, and the tools that its helpers use."""
        return bool(self._completions.routes("map", record.model)) and not self._missing_tools(record)

    def _helper_tools(self, record: MapRecord) -> HelperTools:
        return self._tools.get(record.map_id, _NO_TOOLS)

    def _missing_tools(self, record: MapRecord) -> list[str]:
        given = self._helper_tools(record).names
        return [name for name in MapOptions.load(record.options).tools if name not in given]

    def _may_write(self, reader: Reader, record: MapRecord) -> bool:
        conversation = reader.conversation(record.conversation_id)
        if conversation is None:
            return False
        return self._directory.access_of_key(conversation.session_key) is Access.FULL

    def _set_state(self, record: MapRecord, state: Any, reason: str) -> None:
        with self._store.write() as writer:
            writer.set_map_state(record.map_id, state, reason, record.options, self._clock())


def _known(reader: Reader, map_id: str) -> MapRecord:
    record = reader.map(map_id)
    if record is None:
        raise NotFound(f"there is no map {map_id[:40]}")
    return record


def _as_row(item: MapItem) -> tuple[tuple[Any, ...], Any]:
    answer = json.loads(item.answer) if item.answer is not None else None
    return (item.place, item.ref, item.content, item.state, item.error), answer
