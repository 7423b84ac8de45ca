"""Bringing the index up to date before a search, within a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from lcm_plugin.errors import ServerAway, StoreError
from lcm_plugin.events import EventBus
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.search import IndexUnusable

BATCH = 500
SECONDS = 0.3
BACKGROUND_BATCH, BACKGROUND_LAG = 100, 100
# So many rows of a bulk ingest start the work in the background, where no turn does; a search leaves as many to it.
BULK = 1_000


def rows_behind(store: Store) -> int:
    """How many rows no index holds yet; 0 where rows are indexed as they are stored."""
    if not store.indexes_late:
        return 0
    with store.read() as reader:
        state = reader.index_state()
    return state.message_lag + state.summary_lag if state.available else 0


def index_in_background(store: Store, events: EventBus, stop: Callable[[], bool]) -> int:
    """Indexes what is pending once enough has gathered, in batches that keep no turn waiting."""
    try:
        if rows_behind(store) < BACKGROUND_LAG:
            return 0
    except ServerAway as error:
        events.emit("search.index_waits", level=logging.DEBUG, reason=str(error))
        return 0
    return index_all(store, events, batch=BACKGROUND_BATCH, stop=stop)


def index_all(
    store: Store,
    events: EventBus,
    seconds: float | None = None,
    *,
    batch: int = BATCH,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Indexes what is pending, batch by batch, each in its own transaction; returns how many rows.

    It stops quietly when the time is over, when another process writes, or when the store is read-only:
    what is not indexed can be scanned. An index that cannot be written is thrown away, so that the next
    call builds it again.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    done = 0
    if not rows_behind(store):
        return 0
    while not stop() and (deadline is None or time.monotonic() < deadline):
        try:
            with store.write() as writer:
                indexed = writer.index_pending(batch)
        except IndexUnusable as error:
            reset_index(store, events, str(error))
            return done
        except StoreError as error:
            events.emit("search.index_waits", level=logging.DEBUG, reason=str(error))
            return done
        done += indexed
        if not indexed:
            return done
    return done


def reset_index(store: Store, events: EventBus, reason: str) -> None:
    """Throws a broken index away; it is built again from the tables."""
    events.emit("search.index_reset", level=logging.WARNING, reason=reason)
    try:
        with store.write() as writer:
            writer.reset_index()
    except StoreError as error:
        events.emit("search.index_broken", level=logging.ERROR, reason=str(error))
