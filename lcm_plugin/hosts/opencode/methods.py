"""What the plugin in opencode calls: the context of a model call, what to store, what to quote."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from lcm_plugin.assembly.recalled import InView
from lcm_plugin.forks import FreshLocks, join
from lcm_plugin.hosts.agents.calls import HookCall
from lcm_plugin.hosts.agents.passages import Passages
from lcm_plugin.hosts.agents.resume import resume_pack
from lcm_plugin.hosts.opencode.messages import is_compaction, plan, to_core
from lcm_plugin.hosts.opencode.view import Quoted
from lcm_plugin.hosts.stdio.lines import Method
from lcm_plugin.hosts.stdio.methods import Params
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.identity import host_id_of
from lcm_plugin.messages.usage import usage_of
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import IngestMode, Message, Session, Turn

HOST = "opencode"
# The system prompt and the tools of an agent that does not say yet what its calls cost.
_ASSUMED_OVERHEAD = 12_000
_SESSIONS = 64


class SessionParams(Params):
    """A session by the host's id, and what the host knows of it."""

    session: str
    directory: str = ""
    title: str = ""
    parent: str = ""


class CallParams(SessionParams):
    """The model of a call, and the tokens that it takes."""

    limit: int | None = Field(default=None)
    model: str | None = None


class ContextParams(CallParams):
    """The list of a model call."""

    messages: list[dict[str, Any]]


class StoreParams(SessionParams):
    """Messages that are whole now."""

    messages: list[dict[str, Any]]


class PromptParams(CallParams):
    """What a person typed, and the messages before it that have parts of ours where no context was asked for yet."""

    prompt: str
    messages: list[dict[str, Any]] | None = None


class OpencodeMethods(FreshLocks):
    """The methods for one opencode. Contexts come from here unless the setting ``captureOnly`` leaves them to the host."""

    def __init__(self, plugin: LcmPlugin) -> None:
        self._plugin = plugin
        self._passages = Passages(HOST, lambda: plugin.engine)
        self._quoted = Quoted()
        self._lock = threading.Lock()
        self._sent: LruCache[str, int] = LruCache(_SESSIONS)
        self._overhead: LruCache[str, int] = LruCache(_SESSIONS)
        self._compacted: set[str] = set()
        join(self)

    def all(self) -> dict[str, Method]:
        """The methods by name."""
        return {
            "opencode.context": self._context,
            "opencode.store": self._store,
            "opencode.recall": self._recall,
            "opencode.idle": self._idle,
            "opencode.compacted": self._compaction,
        }

    def _context(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Stores the list of a call. ``plan`` is what to send instead of it; null for the list as it is."""
        given = ContextParams.model_validate(params)
        core = to_core(given.messages)
        self._quoted.learn(given.session, given.messages)
        mode: IngestMode = "state" if self._says_what_is_gone(given, core) else "append"
        turn = self._turn(
            given, model=given.model, window=given.limit, messages=core, mode=mode, recall=False
        )
        if self._captures_only(given):
            self._plugin.record(turn.session, core, mode)
            return {"plan": None}
        context = self._plugin.before_turn(turn)
        if context is None or not context.messages:
            return {"plan": None}
        with self._lock:
            self._sent.put(given.session, context.tokens)
        if context.messages == core:
            return {"plan": None}
        return {"plan": plan(context.messages, core)}

    def _says_what_is_gone(self, given: ContextParams, core: Sequence[Message]) -> bool:
        """Whether a list says what the host took back: one that begins behind a compaction may have nothing in common."""
        if not any(is_compaction(one) for one in given.messages):
            return True
        with self._plugin.engine.store.read() as reader:
            found = reader.find_conversation(_session(given))
            ids = [name for message in core if (name := host_id_of(message))]
            return found is None or bool(reader.known_host_ids([found.conversation_id], ids))

    def _store(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = StoreParams.model_validate(params)
        for one in given.messages:
            self._learn(given.session, one["info"])
        turn = self._turn(given, messages=to_core(given.messages), mode="append")
        return {"stored": self._plugin.record(turn.session, turn.messages, turn.mode)}

    def _recall(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = PromptParams.model_validate(params)
        call = HookCall("UserPromptSubmit", given.session, cwd=given.directory, prompt=given.prompt)
        if given.messages is not None:
            self._quoted.learn(given.session, given.messages)
        shown = None if self._captures_only(given) else lambda: self._shown(given)
        text = "" if given.parent else self._passages.for_prompt(call, shown)
        self._passages.delivered(given.session, text)
        with self._lock:
            due = given.session in self._compacted
            self._compacted.discard(given.session)
        pack = resume_pack(self._plugin.engine, _session(given)) if due else ""
        return {"text": "\n\n".join(filter(None, (pack, text)))}

    def _shown(self, given: CallParams) -> InView:
        """What the context shows that will be made for a prompt, without the prompt."""
        overhead = self._overhead_of(given.session, given.limit)
        context = self._plugin.engine.look_ahead(
            _session(given), given.limit, overhead, given.model, recall=False
        )
        return self._quoted.view(given.session, context)

    def _idle(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A turn is over: what is due is compacted."""
        given = SessionParams.model_validate(params)
        self._plugin.after_turn(self._turn(given, mode="append"))
        return {}

    def _compaction(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The host compacted: so does the context that is made here, or a resume pack is due."""
        given = SessionParams.model_validate(params)
        if not self._captures_only(given):
            self._plugin.engine.compact(_session(given), force=True)
            return {}
        self._passages.compacted(given.session)
        with self._lock:
            self._compacted.add(given.session)
        return {}

    def _captures_only(self, given: SessionParams) -> bool:
        return self._plugin.engine.captures_only(_session(given))

    def _turn(self, given: SessionParams, **more: Any) -> Turn:
        named = {"title": given.title, "project": given.directory, "source": HOST}
        about = {name: value for name, value in named.items() if value}
        return Turn(
            _session(given),
            more.pop("messages", ()),
            overhead_tokens=self._overhead_of(given.session, more.get("window")),
            metadata=about,
            **more,
        )

    def _overhead_of(self, session: str, window: int | None) -> int:
        with self._lock:
            overhead = self._overhead.get(session) or _ASSUMED_OVERHEAD
        # Usage that is far from what was counted must not leave a context without room.
        return min(overhead, window // 2) if window else overhead

    def _learn(self, session: str, info: Mapping[str, Any]) -> None:
        """What the provider counted beyond the context is what the host adds to it."""
        tokens = info.get("tokens") or {}
        cache = tokens.get("cache") or {}
        used = usage_of({"prompt_tokens": (tokens.get("input") or 0) + (cache.get("read") or 0)})
        with self._lock:
            sent = self._sent.get(session)
            if used is not None and sent is not None and used.prompt_tokens > sent:
                self._overhead.put(session, used.prompt_tokens - sent)


def _session(given: SessionParams) -> Session:
    return Session(f"agent:{HOST}:{given.session}", given.session)
