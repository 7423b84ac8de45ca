"""The one core engine of this process: opened at first use, shared by every agent, closed at exit."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lcm_plugin.errors import ConfigError, StoreBusy, StoreError
from lcm_plugin.events import log_failure
from lcm_plugin.forks import FreshLocks, join
from lcm_plugin.hosts.hermes.completer import AuxiliaryCompleter
from lcm_plugin.hosts.hermes.lanes import Lanes, LiveEngines
from lcm_plugin.hosts.hermes.outbox import PATIENCE, Outbox
from lcm_plugin.hosts.hermes.settings import hermes_config
from lcm_plugin.types import Session

if TYPE_CHECKING:
    from lcm_plugin.config import LcmConfig
    from lcm_plugin.engine import Engine
    from lcm_plugin.maintenance.hook_health import HookHealth

logger = logging.getLogger("lcm_plugin.hermes")

_RETRY_SECONDS = 30.0
_BUSY_SECONDS = 0.5
_TELL_AGAIN_SECONDS = 600.0
_BRIEF = 0.05
_EXIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Overhead:
    """What the host adds to its list, as the core counts; ``seen`` is what it was counted of."""

    tokens: int = 0
    seen: tuple[object, ...] = ()


class Runtime(FreshLocks):
    """What the host's copies of the engine share. Making one opens and writes nothing.

    ``patience`` is how many seconds a hook may wait for the database. ``broken``: the newest list could not
    be stored, for a reason that waiting does not mend; ``problem`` tells which.
    """

    def __init__(
        self,
        load_config: Callable[[], LcmConfig] = hermes_config,
        completer: AuxiliaryCompleter | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.completer = completer or AuxiliaryCompleter()
        self.lanes = Lanes(self.stored_key, lambda: self._engine is not None)
        self.live = LiveEngines()
        self.outbox = Outbox(patience)
        self.problem = ""
        self.broken = False
        self.times = Times()
        self.overheads: dict[tuple[str, str], Overhead] = {}
        self._patience = patience
        self._load_config = load_config
        self._config: LcmConfig | None = None
        self._engine: Engine | None = None
        self._lock = threading.RLock()
        join(self)
        self._retry_at = 0.0
        self._opener: threading.Thread | None = None
        self._busy = False
        self._told: dict[str, float] = {}
        self._health: HookHealth | None = None

    def engine(self) -> Engine | None:
        """The core; None while it cannot be opened, which is logged once and tried again later.

        It is opened on a thread of its own, since a locked database can take longer than a hook may;
        only the first caller waits for it.
        """
        with self._lock:
            if self._engine is not None or time.monotonic() < self._retry_at:
                return self._engine
            patience = _BRIEF
            if self._opener is None or not self._opener.is_alive():
                patience = _BRIEF if self._busy else self._patience
                self._opener = threading.Thread(target=self._open, name="lcm-open", daemon=True)
                self._opener.start()
            opener = self._opener
        opener.join(patience)
        with self._lock:
            return self._engine

    @property
    def health(self) -> HookHealth:
        """How often each hook failed in a row."""
        if self._health is None:
            from lcm_plugin.maintenance.hook_health import HookHealth

            with self._lock:
                self._health = self._health or HookHealth(
                    self._health_settings, lambda: time.time_ns() // 1_000_000
                )
        return self._health

    @property
    def locked(self) -> bool:
        """Whether the core is not open yet only because another process holds the database's lock."""
        with self._lock:
            opening = self._opener is not None and self._opener.is_alive()
            return self._engine is None and (opening or self._busy)

    @property
    def config(self) -> LcmConfig | None:
        """The settings; None when they are wrong, which ``problem`` explains."""
        with self._lock:
            if self._config is None:
                try:
                    self._config = self._load_config()
                except Exception as error:  # noqa: BLE001 - the host must go on, and be told
                    self._failed(f"the settings cannot be used: {error}")
            return self._config

    def close(self) -> None:
        """Stores what is waiting and closes the core. A later call opens it again."""
        self.outbox.drain(_EXIT_SECONDS)
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _open(self) -> None:
        from lcm_plugin import Engine
        from lcm_plugin.config.explain import masked

        config = self.config
        if config is None:
            return
        try:
            engine = Engine.open(config, completer=self.completer)
        except StoreBusy as error:
            with self._lock:
                self._busy, self._retry_at = True, time.monotonic() + _BUSY_SECONDS
            logger.info("LCM: the database is locked: %s", error)
            return
        except Exception as error:  # noqa: BLE001 - the host must go on, and be told
            self._failed(f"the database {masked(config.database_target)} cannot be used: {error}")
            return
        with self._lock:
            engine.hook_health = self.health
            self._engine, self._busy, self.problem = engine, False, ""
        atexit.register(self.close)

    def failed(self, error: BaseException) -> None:
        """The core was opened, and now its store fails, or cannot take a message: the host goes on without it."""
        self.broken = True
        if isinstance(error, StoreError):
            self._failed(str(error))
        else:
            log_failure(logger, "LCM: a message could not be stored", error=error, level=logging.DEBUG)
            self._failed(f"what was said cannot be stored ({type(error).__name__})")

    def works(self) -> None:
        """The newest list was stored, whatever was the matter before."""
        if self.broken:
            self.broken, self.problem = False, ""
            logger.info("LCM works again; what was said meanwhile is stored.")

    def note_turn(self, session: Session) -> None:
        """A turn is over: counts it as failed while nothing can be stored."""
        if self.problem and (self.broken or self._engine is None):
            self.health.failed("turn", session, self.problem)
        else:
            self.health.works("turn", session)

    def _health_settings(self) -> LcmConfig:
        if self._config is None:
            raise ConfigError(self.problem or "the settings are not read yet")
        return self._config

    def _failed(self, why: str) -> None:
        now = time.monotonic()
        with self._lock:
            self._retry_at = now + _RETRY_SECONDS
            self.problem, self._busy = why, False
            told = now - self._told.get(why, -_TELL_AGAIN_SECONDS) < _TELL_AGAIN_SECONDS
            if not told:
                self._told[why] = now
        if not told:
            logger.warning(
                "LCM is not working: %s. Hermes goes on with its own list; nothing is stored.", why
            )

    def stored_key(self, session_id: str) -> str | None:
        """The key under which a session id was stored, by any process; None when it is new."""
        engine = self.engine()
        if engine is None:
            return None
        with engine.store.read() as reader:
            return reader.session_key_of(session_id)

    def keeps(self, session: Session) -> bool:
        """Whether a session or its lane was stored, by any process.

        A session that a compaction made may be new while its lane is not: the process died before its first turn.
        """
        from lcm_plugin.sessions.kinds import find_conversation

        engine = self.engine()
        if engine is None:
            return False
        with engine.store.read() as reader:
            stored = reader.session_key_of(str(session.id)) is not None
            return stored or find_conversation(reader, session) is not None


class Times(FreshLocks):
    """How long the host waited for us, in seconds, and over how many turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        join(self)
        self.by_hook: dict[str, float] = {}
        self.turns = 0

    @contextmanager
    def measure(self, hook: str) -> Iterator[None]:
        """Adds the time of a block to a hook."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            with self._lock:
                self.by_hook[hook] = self.by_hook.get(hook, 0.0) + spent

    def turn(self) -> None:
        """Counts a turn."""
        with self._lock:
            self.turns += 1

    @property
    def per_turn_ms(self) -> float:
        """Milliseconds per turn, summary calls excluded only when they ran in the background."""
        with self._lock:
            return 1000 * sum(self.by_hook.values()) / max(1, self.turns)
