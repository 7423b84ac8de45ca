"""The host's context engine, mapped to the core.

`HermesEngine` has every method the host calls; `bind.py` adds the host's base class, which exists only
inside the host. The host registers one and gives each agent a deep copy: a copy is unbound, shares the
process's one core, and costs nothing.

The host owns the list of messages and calls ``compress`` to get a smaller one. Nothing here decides
what is new, what is summarised or what fits: that is asked of the core.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from lcm_plugin.errors import StoreBusy, StoreConflict, StoreError
from lcm_plugin.events import log_failure
from lcm_plugin.hosts.hermes.builtin import HostCompressor
from lcm_plugin.hosts.hermes.counters import Counters, positive
from lcm_plugin.hosts.hermes.messages import FOLD, Merges, from_host, inherited, pins_beside, quoted_in
from lcm_plugin.hosts.hermes.pieces import pieces_of, replies_of
from lcm_plugin.hosts.hermes.provider import provider_compacts
from lcm_plugin.hosts.hermes.runtime import Runtime
from lcm_plugin.hosts.hermes.seen import SeenList
from lcm_plugin.hosts.hermes.settings import most_answer_chars, profile_name
from lcm_plugin.hosts.hermes.shrink import DEFAULT_SHARE, Shrinker
from lcm_plugin.sessions.access import Access
from lcm_plugin.types import IngestMode, IngestReport, Message, Session

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.hosts.hermes.outbox import Job

logger = logging.getLogger("lcm_plugin.hermes")

T = TypeVar("T")
_order = itertools.count(1)
_HOST, _PROVIDER = "host", "provider"


class HermesEngine(Counters):
    """One agent's view of the core. Every method may be called from any thread, and none raises.

    Attributes without a leading underscore that are not documented here are read or written by the
    host: its counters, its threshold, what it shows.
    """

    name = "lcm"

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self.runtime = runtime
        self.seen = SeenList(lambda: Merges(self._pieces, self._replies))
        self.shrinker = Shrinker(self, runtime)
        self.bound_at = 0
        self.gateway_key = ""
        self.platform = ""
        self.model = self.base_url = self.provider = self.api_mode = ""
        self.api_key: Any = ""
        self.context_length = 0
        self.threshold_percent = DEFAULT_SHARE
        self.threshold_tokens = 0
        self._session_id = ""
        self._session_db: Any = None
        self._host = HostCompressor()

    def __deepcopy__(self, memo: dict[int, Any]) -> HermesEngine:
        return type(self)(self.runtime)

    # the host's sessions

    @property
    def session_id(self) -> str:
        """The host's id of the bound session, or an empty string."""
        return self._session_id

    @property
    def session(self) -> Session | None:
        """The core's lane of the bound session."""
        if not self._session_id:
            return None
        platform = self.platform or "cli"
        return self.runtime.lanes.session(self._session_id, platform, profile_name(), self._session_db)

    def bind_session_state(self, session_db: Any = None, session_id: str = "") -> None:
        """The agent is in this session: told at its start, and after /new, /resume and /branch."""
        if session_db is not None:
            self._session_db = session_db
        if session_id:
            self._go_to(session_id)
        self.bound_at = next(_order)
        self.runtime.live.add(self)

    def on_session_start(self, session_id: str, **context: Any) -> None:
        """A session begins, or goes on after a compaction, perhaps under another id."""
        if context.get("boundary_reason") == "compression":
            self._continue_as(str(context.get("old_session_id") or ""), session_id)
            return
        self.platform = str(context.get("platform") or "cli")
        self.gateway_key = str(context.get("conversation_id") or "")
        self.bind_session_state(session_id=session_id)

    def on_session_reset(self) -> None:
        """The agent leaves its session; the host binds the next one. What is stored stays as it is."""
        self._reset_counters()
        self._reset_outcome()
        self._go_to("")

    def on_session_end(self, session_id: str, messages: list[Message]) -> None:
        """Stores what is left; ends nothing, since the host calls this at every compaction too."""
        with self.runtime.times.measure("on_session_end"):
            if session_id == self._session_id and messages and not self.seen.is_stale(messages):
                self.store(messages)

    def _continue_as(self, old_id: str, new_id: str) -> None:
        if old_id and new_id and old_id != new_id:
            self._guarded(lambda: self.session)
            self.runtime.lanes.continue_as(old_id, new_id)
            if self._session_id == old_id:
                self._session_id = new_id

    def _go_to(self, session_id: str) -> None:
        if session_id != self._session_id:
            self.seen.leave()
            self.shrinker.forget()
            self.shrinker.follow_window()
        self._session_id = session_id

    # a turn

    def get_active_compression_failure_cooldown(self, **_: Any) -> None:
        """Asked by the agent's loop before every model call; a compaction is never held back here."""
        self.runtime.live.enter(self)

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        """Never: the host's estimate is good enough to ask whether anything can be compacted."""
        return False

    def before_request(self, messages: Sequence[Any], request: Mapping[str, Any]) -> None:
        """Before each model call: stores what is new."""
        with self.runtime.times.measure("pre_api_request"):
            self.store(messages)
            engine = self.runtime.engine()
            if engine is not None:
                self._guarded(lambda: self.shrinker.before_request(request, engine, self.seen.listing))

    def sends(self, request: Mapping[str, Any]) -> None:
        """Each request as it goes out, whole: learns what the host adds to the list."""
        with self.runtime.times.measure("llm_execution"):
            engine = self.runtime.engine()
            if engine is not None:
                self._guarded(lambda: self.shrinker.measure(request, engine))

    def after_turn(self, messages: Sequence[Any]) -> None:
        """After a turn: stores it and lets the core start the compaction that is due."""
        with self.runtime.times.measure("post_llm_call"):
            self.runtime.times.turn()
            if self.store(messages) is not None and not self.runtime.broken:
                self._guarded(self._end_turn)
            session = self._guarded(lambda: self.session)
            self.runtime.note_turn(session or Session("", self._session_id))

    def after_cut_turn(self) -> None:
        """After a turn without an answer (an interrupt, an error): the host has its list on disk."""
        with self.runtime.times.measure("on_session_end_hook"):
            self.store(self._guarded(self._recorded) or ())

    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        """Takes the provider's counts; an empty dict means that it gave none."""
        self.runtime.live.enter(self)
        self.awaiting_real_usage_after_compression = False
        if not usage:
            return
        prompt = self._count(usage)
        engine, session = self.runtime.engine(), self._guarded(lambda: self.session)
        if engine is not None and session is not None:
            self._guarded(lambda: self.shrinker.answered(engine, session, prompt))

    def refused(self, error: str) -> None:
        """The provider refused a request as too long; the host calls `compress` next."""
        self.shrinker.refused(error)

    # compaction

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether the list is over the threshold (the larger of the two counts) and can be made smaller."""
        with self.runtime.times.measure("should_compress"):
            self.runtime.live.enter(self)
            tokens = self._size(positive(prompt_tokens) or self.last_prompt_tokens)
            if not self.threshold_tokens or tokens < self.threshold_tokens:
                return False
            return not self.shrinker.is_refused(tokens) and bool(
                self._guarded(lambda: self._can_shrink(tokens))
            )

    def should_compress_preflight(self, messages: Sequence[Any]) -> bool:
        """Asked by newer hosts with the list; `should_compress` has the answer."""
        return False

    def has_content_to_compress(self, messages: Sequence[Any]) -> bool:
        """Whether ``/compress`` may have something to do."""
        return bool(messages)

    def compress(
        self,
        messages: list[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
        memory_context: str = "",
        **_: Any,
    ) -> list[Message]:
        """A smaller list, or the very same one when there is none; the input is never changed."""
        with self.runtime.times.measure("compress"):
            self.runtime.live.enter(self)
            self._reset_outcome()
            tokens = self._size(current_tokens)
            try:
                smaller = self._compress(messages, tokens, focus_topic, force)
            except Exception as error:  # noqa: BLE001 - the host must go on
                log_failure(logger, "LCM could not compact; the list stays as it is", error=error)
                self._reset_outcome(aborted=f"{type(error).__name__}: {error}")
                self.shrinker.refuse(tokens)
                return messages
            if smaller is None:
                self.shrinker.refuse(tokens)
                return messages
            self._made_smaller()
            self.seen.compacted(messages)
            return smaller

    def _can_shrink(self, tokens: int) -> bool:
        engine, session = self.runtime.engine(), self.session
        left_to = self._left_to(engine, session)
        if left_to or engine is None or session is None:
            return left_to == _HOST
        return self.shrinker.can_shrink(engine, session, self.seen.listing, tokens)

    def _compress(
        self, messages: list[Message], tokens: int, focus: str | None, force: bool
    ) -> list[Message] | None:
        job = self.store(messages, "whole" if force and self._is_all_of(messages) else "sync")
        engine, session = self.runtime.engine(), self._guarded(lambda: self.session)
        if job is not None and not job.stored and not self.runtime.broken:
            self._reset_outcome(aborted=f"not stored: {job.error or 'the database is locked'}")
            return None
        left_to = self._left_to(engine, session)
        if left_to == _HOST:
            return self._host.compress(self, messages, tokens, focus, force)
        if left_to or job is None or engine is None or session is None:
            return None
        run = job.result.run if isinstance(job.result, IngestReport) else None
        shrunk = self.shrinker.shrink(engine, session, self.seen.listing, run, focus, force)
        self._last_summary_error = shrunk.trouble or None
        return shrunk.messages

    # recall

    def quotes_for(self, said: str, messages: Sequence[Any]) -> str | None:
        """Pins and old messages that fit what the user just said, of those not in the host's list; None for none."""
        with self.runtime.times.measure("recall"):
            return self._guarded(lambda: self._quotes_for(said, messages)) or None

    def _quotes_for(self, said: str, messages: Sequence[Any]) -> str:
        engine, session = self.runtime.engine(), self.session
        if engine is None or session is None or not _keeps(engine, session):
            return ""
        beside = pins_beside(engine.pins(session), messages)
        if engine.config.active_recall != "off":
            free, shown = self.context_length - positive(self.last_prompt_tokens), from_host(messages[:-1])
            quoted = quoted_in(messages)
            beside.append(engine.quotes_for(session, said, shown, self.context_length, free, quoted))
        return FOLD.join(filter(None, beside))

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Our tools as bare functions, as the host wants them."""
        from lcm_plugin.recall.tools import tool_schemas

        config = self.runtime.config
        schemas = tool_schemas(config)
        return [dict(schema.get("function", schema)) for schema in schemas]

    def handle_tool_call(self, name: str, args: Mapping[str, Any], **context: Any) -> str:
        """Runs a recall tool on the bound session; the answer is JSON text, errors included."""
        with self.runtime.times.measure("tools"):
            self.runtime.live.enter(self)
            if context.get("messages"):
                self.store(context["messages"])
            answer = self._guarded(lambda: self._call_tool(name, dict(args or {})))
            failure = self.runtime.problem or "see the log"
            return json.dumps(answer or {"error": f"{name} failed: {failure}"}, ensure_ascii=False)

    def _call_tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        engine, session = self.runtime.engine(), self.session
        if engine is None:
            return {"error": f"LCM is not working: {self.runtime.problem}"}
        if session is None:
            return {"error": "no session is bound, so there is nothing to search"}
        return engine.call_tool(session, name, arguments, most_answer_chars(name, self.context_length))

    # the model

    def update_model(
        self,
        model: str,
        context_length: int,
        base_url: str = "",
        api_key: Any = "",
        provider: str = "",
        api_mode: str = "",
        **_: Any,
    ) -> None:
        """The agent's model or window changed: the threshold follows, and summaries go the same way."""
        self.model, self.base_url, self.provider, self.api_mode = model, base_url, provider, api_mode
        self.api_key = api_key
        self.context_length = int(context_length or 0)
        self.shrinker.forget()
        self.shrinker.follow_window()
        runtime = {
            "model": model,
            "base_url": base_url,
            "api_key": api_key,
            "provider": provider,
            "api_mode": api_mode,
        }
        self.runtime.completer.use_runtime(runtime)

    # what people see

    def get_status(self) -> dict[str, Any]:
        """The host's fields, and ours."""
        shown = positive(self.last_prompt_tokens)
        session = self._guarded(lambda: self.session)
        return {
            "last_prompt_tokens": shown,
            "threshold_tokens": self.threshold_tokens,
            "context_length": self.context_length,
            "usage_percent": min(100, 100 * shown / self.context_length) if self.context_length else 0,
            "compression_count": self.compression_count,
            "compactions": self.compactions,
            "engine": self.name,
            "session_id": self._session_id,
            "session_key": session.key if session else "",
            "waiting_to_be_stored": self.runtime.outbox.waiting,
            "hook_ms_per_turn": round(self.runtime.times.per_turn_ms, 2),
            "problem": self.runtime.problem or self._last_summary_error or "",
        }

    # inside

    def store(self, messages: Sequence[Any], mode: IngestMode = "sync") -> Job | None:
        """Hands the list over to be stored and waits a moment; None when nothing can be stored."""
        opened = self.runtime.engine() is not None
        listing = self.seen.look(messages)
        if not listing or not self._session_id or not self._can_be_stored():
            return None
        session = self._guarded(lambda: self.session)
        if session is None:
            return None
        shown = [] if opened else [dict(one) if isinstance(one, dict) else one for one in self.seen.raw]
        job = self.runtime.outbox.put(
            lambda: self._ingest(session, shown or listing, mode, merged=not opened)
        )
        if job.error is not None:
            self.runtime.failed(job.error)
        elif job.stored:
            self.runtime.works()
        return job

    def _can_be_stored(self) -> bool:
        engine = self.runtime.engine()
        return self.runtime.locked if engine is None else engine.config.enabled

    def _ingest(
        self, session: Session, listing: list[Message], mode: IngestMode, *, merged: bool = False
    ) -> IngestReport:
        """Stores a list; ``merged``: it came before the store was open, which knows merged messages and the lane."""
        engine = self.runtime.engine()
        if engine is None:
            raise StoreBusy(self.runtime.problem or "the database is still being opened")
        if merged:
            session = self.runtime.lanes.session(
                str(session.id), self.platform or "cli", profile_name(), self._session_db
            )
            listing = from_host(listing, Merges(self._pieces, self._replies))
        known = self.runtime.keeps(session)
        return engine.ingest(session, listing if known else inherited(listing), mode)

    def _is_all_of(self, messages: Sequence[Any]) -> bool:
        """Whether the host's own records end as the list does: not when it is the older part of its list."""
        recorded = self._guarded(self._recorded) or ()
        if not recorded or not messages:
            return False
        return bool(_words(recorded[-1]) == _words(messages[-1]))

    def _pieces(self, said: str) -> tuple[str, ...] | None:
        engine, session = self.runtime.engine(), self.session
        if not (engine and session):
            return None
        return self._guarded(lambda: pieces_of(engine, session, said, self._recorded))

    def _replies(self, reply: Message) -> Sequence[Message] | None:
        engine, session = self.runtime.engine(), self.session
        if not (engine and session):
            return None
        return self._guarded(lambda: replies_of(engine, session, reply, self._recorded))

    def _recorded(self) -> Sequence[Message]:
        load = getattr(self._session_db, "get_messages_as_conversation", lambda session_id: ())
        return load(self._session_id) if self._session_id else ()

    def _end_turn(self) -> None:
        engine, session = self.runtime.engine(), self.session
        if engine is not None and session is not None and not self._left_to(engine, session):
            self.shrinker.start_due(engine, session)

    def _left_to(self, engine: Engine | None, session: Session | None) -> str:
        """Who compacts in our place, an empty string for nobody. Nothing is prepared for what a provider compacts."""
        if self.runtime.broken or engine is None or session is None:
            return _HOST
        left = provider_compacts(self.api_mode, self.seen.listing)
        engine.leave_to_host(session, left)
        if left:
            return _PROVIDER
        return "" if _keeps(engine, session) and not engine.captures_only(session) else _HOST

    def _guarded(self, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except StoreError as error:
            if not isinstance(error, (StoreBusy, StoreConflict)):
                self.runtime.failed(error)
            return None
        except Exception as error:  # noqa: BLE001 - the host must go on
            log_failure(logger, "LCM: a call from the host failed; the host goes on", error=error)
            return None


def _words(message: Any) -> tuple[Any, ...]:
    return tuple(message.get(key) for key in ("role", "content", "tool_call_id"))


def _keeps(engine: Engine, session: Session) -> bool:
    """Whether the settings let us keep this session; others the host compacts as it would without us."""
    return engine.config.enabled and engine.access(session) is Access.FULL
