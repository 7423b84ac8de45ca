"""The host's hooks: the moments of a turn, told with the session's id and its list."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lcm_plugin.hosts.hermes.agent import Agent
from lcm_plugin.hosts.hermes.doctor import not_selected, selected_engine
from lcm_plugin.hosts.hermes.settings import host_config
from lcm_plugin.types import Session

if TYPE_CHECKING:
    from lcm_plugin.hosts.hermes.runtime import Runtime

_TOO_LONG = ("context_overflow", "payload_too_large", "long_context_tier")

logger = logging.getLogger("lcm_plugin.hermes")


class Hooks:
    """Finds the engine that a hook is about and tells it; never raises into the host."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._warned = False

    def callbacks(self) -> Mapping[str, Callable[..., str | None]]:
        """Each hook of the host that we listen to."""
        return {
            "pre_llm_call": self.pre_llm_call,
            "pre_api_request": self.pre_api_request,
            "api_request_error": self.api_request_error,
            "post_llm_call": self.post_llm_call,
            "on_session_end": self.on_turn_end,
            "on_session_reset": self.on_session_reset,
            "transform_llm_output": self.transform_llm_output,
        }

    def pre_llm_call(self, **event: Any) -> str | None:
        """Before a turn's first model call: what is returned goes out with the user's message, and stays beside it."""
        engine = self._engine(event)
        said, listing = event.get("user_message"), event.get("conversation_history") or []
        return engine.quotes_for(said, listing) if engine is not None and isinstance(said, str) else None

    def pre_api_request(self, **event: Any) -> None:
        """Before every model call, with the whole list."""
        engine = self._engine(event)
        if engine is not None:
            engine.before_request(event.get("conversation_history") or [], event)

    def llm_execution(self, request: Mapping[str, Any], next_call: Callable[[], Any], **event: Any) -> Any:
        """Around every model call: the only place where the host hands over a request whole."""
        engine = self._engine(event)
        if engine is not None:
            engine.sends(request)
        return next_call()

    def api_request_error(self, **event: Any) -> None:
        """After a model call that failed; the host says of each error what it takes it for."""
        engine = self._engine(event)
        if engine is not None and event.get("reason") in _TOO_LONG:
            engine.refused(str((event.get("error") or {}).get("message") or ""))

    def post_llm_call(self, **event: Any) -> None:
        """After a turn that ended with an answer, with the whole list."""
        engine = self._engine(event)
        if engine is not None:
            engine.after_turn(event.get("conversation_history") or [])

    def transform_llm_output(self, **event: Any) -> str | None:
        """Adds to the answer, once, that nothing can be stored; None leaves it as it is."""
        session_id = str(event.get("session_id") or "")
        engine = self._runtime.live.of_hook(session_id)
        news = self._runtime.health.take_news((engine and engine.session) or Session("", session_id))
        return f"{event.get('response_text') or ''}\n\n{news}" if news else None

    def on_turn_end(self, **event: Any) -> None:
        """After every turn, without the list; of interest when the turn was cut short."""
        if event.get("interrupted") or not event.get("completed", True):
            engine = self._engine(event)
            if engine is not None:
                engine.after_cut_turn()

    def on_session_reset(self, **event: Any) -> None:
        """After /new; hosts that do not bind the engine themselves name the new session here."""
        new_id = str(event.get("new_session_id") or event.get("session_id") or "")
        engine = self._runtime.live.newest_unbound()
        if engine is not None and new_id and event.get("platform") in (None, "", "cli", engine.platform):
            engine.bind_session_state(session_id=new_id)

    def _engine(self, event: Mapping[str, Any]) -> Agent | None:
        engine = self._runtime.live.of_hook(str(event.get("session_id") or ""))
        if engine is None and not self._runtime.live.any():
            self._warn_once()
        return engine

    def _warn_once(self) -> None:
        if not self._warned:
            self._warned = True
            try:
                name = selected_engine(host_config())
            except Exception:  # noqa: BLE001 - the warning matters more than its wording
                name = "another"
            logger.warning("%s", not_selected(name))
