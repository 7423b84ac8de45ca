"""A locked database delays what is to be stored; it loses nothing and holds nobody up."""

from __future__ import annotations

import threading

import pytest

from lcm_plugin.errors import InputError, ServerAway, StoreBusy, StoreError
from lcm_plugin.hosts.hermes.outbox import Outbox


def test_work_is_done_before_the_caller_goes_on() -> None:
    done: list[int] = []
    job = Outbox().put(lambda: done.append(1))
    assert done == [1]
    assert job.stored


@pytest.mark.parametrize("error", [StoreBusy, ServerAway])
def test_a_lock_or_a_server_that_is_away_delays_everything_behind_it_in_order(
    error: type[StoreError],
) -> None:
    locked = threading.Event()
    locked.set()
    stored: list[str] = []

    def store(text: str) -> None:
        if locked.is_set():
            raise error("not now")
        stored.append(text)

    outbox = Outbox(patience=0.05)
    jobs = [outbox.put(lambda text=text: store(text)) for text in "abc"]
    assert not any(job.stored for job in jobs)
    assert outbox.waiting == 3
    locked.clear()
    assert outbox.drain(5)
    assert stored == ["a", "b", "c"]
    assert all(job.stored for job in jobs)


def test_what_can_never_be_stored_is_given_up_with_its_reason() -> None:
    def refuse() -> None:
        raise InputError("a role is missing")

    outbox = Outbox()
    job = outbox.put(refuse)
    assert job.done.is_set()
    assert isinstance(job.error, InputError)
    assert outbox.put(lambda: None).stored


def test_draining_gives_up_in_time() -> None:
    def busy() -> None:
        raise StoreBusy("locked")

    outbox = Outbox(patience=0.01)
    outbox.put(busy)
    assert outbox.drain(0.05) is False
