"""The recall tools of one engine: who may look, what is asked, which service answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from lcm_plugin.characters import storable
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import InputError, LcmError, error_code
from lcm_plugin.events import EventBus, log_failure, logger
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.messages.convert import safe_repr
from lcm_plugin.recall.catchup import (
    BACKGROUND_BATCH,
    BULK,
    SECONDS,
    index_all,
    index_in_background,
    reset_index,
    rows_behind,
)
from lcm_plugin.recall.delegation.delegate import Delegate, Delegations
from lcm_plugin.recall.describe import Describer
from lcm_plugin.recall.expand import Expander
from lcm_plugin.recall.filesearch import decode_text
from lcm_plugin.recall.fitting import Count, Receiver
from lcm_plugin.recall.grep import Clockwork, Grep
from lcm_plugin.recall.mapsearch import is_map
from lcm_plugin.recall.results import is_of_others
from lcm_plugin.recall.scope import Grant, Scope, scope_of
from lcm_plugin.recall.semantic.meaning import Semantics
from lcm_plugin.recall.textsearch import THOROUGH, Effort, Patience
from lcm_plugin.recall.tools import (
    TOOL_NAMES,
    DescribeArguments,
    ExpandArguments,
    ExpandQueryArguments,
    GrepArguments,
    check,
)
from lcm_plugin.sessions.access import Access, SessionGate
from lcm_plugin.sessions.kinds import find_conversation
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.summarize.completers import Completions
from lcm_plugin.types import Session

MAX_ERROR_CHARS = 600
# Even the least answer needs some room.
LEAST_ANSWER_CHARS = 1_200
# Of what is searched for, the share that a hit of the session must hold for other sessions to be left alone.
ENOUGH = 0.5
Tool: TypeAlias = Callable[[Session, str, Mapping[str, Any]], dict[str, Any]]
DescribeMap: TypeAlias = Callable[[Session, str, int, int], dict[str, Any]]


class Recall:
    """Answers the four tools. Thread-safe."""

    def __init__(
        self,
        config: LcmConfig,
        store: Store,
        gate: SessionGate,
        payloads: PayloadStore,
        completions: Completions,
        count: Callable[[str], int],
        events: EventBus,
        clock: Callable[[], int],
        semantics: Semantics,
        granted: Callable[[str], frozenset[int]] = lambda session_key: frozenset(),
    ) -> None:
        self._config = config
        self._store = store
        self._gate = gate
        self._payloads = payloads
        self._completions = completions
        self._count = count
        self._events = events
        self._clock = clock
        self.semantics = semantics
        self._granted = granted
        # Goes on in the background with what a search had no time to index.
        self.index_later: Callable[[], object] = lambda: None
        self.is_indexing: Callable[[], bool] = lambda: False
        self._more: dict[str, Tool] = {}
        self._describe_map: DescribeMap | None = None
        self._delegations = Delegations()

    def call(
        self,
        session: Session,
        name: str,
        arguments: Mapping[str, Any],
        grant: Grant | None = None,
        effort: Effort = THOROUGH,
        most_chars: int | None = None,
    ) -> dict[str, Any]:
        """A tool's answer. What goes wrong is told in the answer, as ``error`` and ``error_code``.

        ``grant`` narrows what a delegate may do; it cannot call ``lcm_expand_query``. ``effort`` bounds ``lcm_grep``.
        ``most_chars``: what the receiver takes of the answer's JSON text, beside the setting ``answerMaxChars``.
        """
        started = time.perf_counter()
        limits = [most for most in (most_chars, self._config.answer_max_chars) if most is not None]
        receiver = Receiver(max(LEAST_ANSWER_CHARS, min(limits)) if limits and grant is None else None)
        try:
            answer = self._run(session, name, arguments, grant, effort, receiver)
        except LcmError as error:
            answer = {"error": storable(str(error))[:MAX_ERROR_CHARS], "error_code": error_code(error)}
        except Exception as error:  # noqa: BLE001 - a model that calls a tool always gets an answer
            log_failure(logger, "the tool %s failed", name, error=error)
            answer = {"error": f"the tool failed: {type(error).__name__}", "error_code": "FAILED"}
        self._events.emit(
            "recall.answered",
            session_key=session.key,
            tool=name,
            error_code=answer.get("error_code", ""),
            hits=len(answer.get("hits", ())),
            ms=round((time.perf_counter() - started) * 1000, 3),
        )
        return answer

    def add_tools(self, names: Iterable[str], answer: Tool, describe_map: DescribeMap | None = None) -> None:
        """Adds tools that the settings give agents beside the four; ``describe_map`` lets maps be read as well."""
        self._more |= dict.fromkeys(names, answer)
        self._describe_map = describe_map or self._describe_map

    def catch_up(self, stop: Callable[[], bool]) -> None:
        """Indexes what is pending, and computes vectors where semantic search is on. Work for a thread off the turn."""
        index_in_background(self._store, self._events, stop)
        self.semantics.catch_up(stop)

    def read_texts(self, refs: Sequence[str], scope: Scope) -> dict[str, str]:
        """The texts behind ids of messages, summaries and files in a scope, as they are stored."""
        texts: dict[str, str] = {}
        with self._store.read() as reader:
            numbers = [int(ref.removeprefix("msg_")) for ref in refs if ref.startswith("msg_")]
            rows = reader.search_rows("message", numbers).values()
            texts |= {row.ref: row.text for row in rows if row.conversation_id in scope}
            summaries = reader.summaries([ref for ref in refs if ref.startswith("sum_")])
            texts |= {ref: one.content for ref, one in summaries.items() if one.conversation_id in scope}
            for ref in refs:
                record = reader.file(ref) if ref.startswith("file_") else None
                if record is not None and record.conversation_id in scope:
                    texts[ref] = self._file_text(reader, ref)
        return texts

    def _file_text(self, reader: Reader, file_id: str) -> str:
        try:
            return decode_text(self._payloads.read_file(reader, file_id)) or ""
        except LcmError:
            return ""

    def _run(
        self,
        session: Session,
        name: str,
        arguments: Mapping[str, Any],
        grant: Grant | None,
        effort: Effort,
        receiver: Receiver,
    ) -> dict[str, Any]:
        count, most = receiver.count(self._count), receiver.most_tokens
        if name == "lcm_grep":
            found = check(GrepArguments, name, arguments).within(most)
            return self._grep(session, found, grant, effort, count)
        if name == "lcm_describe":
            return self._describe(
                session, check(DescribeArguments, name, arguments).within(most), grant, count
            )
        if name == "lcm_expand":
            return self._expand(session, check(ExpandArguments, name, arguments).within(most), grant, count)
        if name == "lcm_expand_query" and grant is None:
            return self._expand_query(
                session, check(ExpandQueryArguments, name, arguments).within(most), count
            )
        if name in self._more and grant is None:
            return self._more[name](session, name, arguments)
        known = (*TOOL_NAMES, *self._more) if grant is None else TOOL_NAMES[:3]
        raise InputError(f"there is no tool {safe_repr(name, 80)}; the tools are {', '.join(known)}")

    def _grep(
        self, session: Session, asked: GrepArguments, grant: Grant | None, effort: Effort, count: Count
    ) -> dict[str, Any]:
        self._index()
        with self._store.read() as reader:
            grep, answer = self._search(reader, session, asked, grant, effort, count)
            broken = grep.index_failed and reader.index_state().usable
        if broken:
            reset_index(self._store, self._events, "the full-text index did not answer")
        return answer

    def _index(self) -> None:
        """Indexes what is pending where that takes no longer than a search can wait; else the background does it."""
        behind = rows_behind(self._store)
        if not behind or (behind >= BULK and self.is_indexing()):
            return
        # Of a bulk one batch, which shows whether this process can write at all.
        seconds = SECONDS if behind < BULK else 0.001
        done = index_all(self._store, self._events, seconds, batch=BACKGROUND_BATCH)
        if 0 < done < behind:
            self.index_later()

    def _search(
        self,
        reader: Reader,
        session: Session,
        asked: GrepArguments,
        grant: Grant | None,
        effort: Effort,
        count: Count,
    ) -> tuple[Grep, dict[str, Any]]:
        """Searches the scope of the call, and other sessions where it holds little of what is looked for."""
        own = find_conversation(reader, Session(self._gate.key_of(session, reader), session.id))
        search = partial(
            Grep,
            reader,
            arguments=asked,
            clock=Clockwork(self._clock(), self._config.timezone),
            read_file=self._payloads.read_file,
            count=count,
            own=own.conversation_id if own else None,
            granted_tokens=grant.token_cap if grant else None,
            semantics=self.semantics,
            effort=effort,
            patience=Patience(),
        )
        scope = self.scope(reader, session, asked.all_conversations, asked.conversation_id, grant)
        grep, goes_on = search(scope), is_of_others(asked.cursor)
        answer = {} if goes_on else grep.run()
        if not goes_on and (asked.cursor or grep.best_share >= ENOUGH):
            return grep, answer
        others = self._with_others(reader, session, asked, scope, grant)
        if others is None:
            return grep, answer or grep.run()
        wide = search(others, with_others=True)
        found = wide.run()
        return (wide, found) if goes_on or wide.best_share > grep.best_share else (grep, answer)

    def _with_others(
        self,
        reader: Reader,
        session: Session,
        asked: GrepArguments | ExpandQueryArguments,
        scope: Scope,
        grant: Grant | None,
    ) -> Scope | None:
        """The scope with the other sessions within reach; None where a call names its scope, or when there are none."""
        is_named = "all_conversations" in asked.model_fields_set or asked.conversation_id is not None
        if grant is not None or is_named:
            return None
        others = self.scope(reader, session, False, None, None, with_others=True)
        return others if others.conversation_ids != scope.conversation_ids else None

    def _describe(
        self, session: Session, asked: DescribeArguments, grant: Grant | None, count: Count
    ) -> dict[str, Any]:
        if self._describe_map and grant is None and isinstance(asked.id, str) and is_map(asked.id):
            cap = asked.token_cap or self._config.max_expand_tokens
            return self._describe_map(session, asked.id, asked.offset, cap)
        with self._store.read() as reader:
            scope = self.scope(reader, session, asked.all_conversations, asked.conversation_id, grant)
            return Describer(reader, scope, self._payloads, count, self._config).describe(
                asked, grant.token_cap if grant else None
            )

    def _expand(
        self, session: Session, asked: ExpandArguments, grant: Grant | None, count: Count
    ) -> dict[str, Any]:
        if asked.query and not asked.summary_ids:
            self._index()
        with self._store.read() as reader:
            scope = self.scope(reader, session, asked.all_conversations, asked.conversation_id, grant)
            return Expander(reader, scope, self._payloads, count, self._config).expand(asked, grant)

    def _expand_query(self, session: Session, asked: ExpandQueryArguments, count: Count) -> dict[str, Any]:
        self._index()
        with self._store.read() as reader:
            scope = self.scope(reader, session, asked.all_conversations, asked.conversation_id, None)
            if not asked.summary_ids and self._with_others(reader, session, asked, scope, None) is not None:
                first = GrepArguments(pattern=asked.query or asked.prompt, context=0)
                scope = self._search(reader, session, first, None, THOROUGH, count)[0].scope
        delegate = Delegate(self, session, self._config, self._completions, count)
        with self._delegations.only_one(session):
            return delegate.answer(asked, scope)

    def own_scope(self, reader: Reader, session: Session) -> Scope:
        """What a session may look at by default."""
        return self.scope(reader, session, False, None, None)

    def scope(
        self,
        reader: Reader,
        session: Session,
        all_conversations: bool,
        conversation_id: int | None,
        grant: Grant | None = None,
        with_others: bool = False,
    ) -> Scope:
        """The conversations that a call of a session may look at; raises as `scope_of`."""
        key = self._gate.key_of(session, reader)
        if self._gate.access(session, reader) is Access.NONE:
            key = ""
        return scope_of(
            reader,
            Session(key, session.id),
            self._config.recall_scope,
            all_conversations=all_conversations or grant is not None,
            conversation_id=conversation_id,
            grant=grant,
            granted=self._granted(key),
            is_hidden=lambda other: self._gate.access_of_key(other) is Access.NONE,
            with_others=with_others,
        )
