"""The bounded cache."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from lcm_plugin.lru import LruCache


def test_what_was_used_longest_ago_makes_room() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_a_value_that_is_none_is_told_from_a_missing_one() -> None:
    cache: LruCache[str, None] = LruCache(2)
    cache.put("a", None)
    assert cache.get("a", "missing") is None
    assert cache.get("b", "missing") == "missing"


def test_the_first_of_two_that_make_the_same_stays() -> None:
    cache: LruCache[str, list[int]] = LruCache(2)
    first = cache.put_new("a", [1])
    assert cache.put_new("a", [1]) is first


def test_a_child_process_does_not_wait_for_a_lock_of_its_parent() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache._lock.acquire()
    cache.after_fork_in_child()
    done = threading.Thread(target=cache.put, args=("a", 1))
    done.start()
    done.join(10)
    assert cache.get("a") == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4))), st.integers(1, 8))
def test_the_weight_never_exceeds_the_bound_except_for_the_newest_alone(
    puts: list[tuple[int, int]], most: int
) -> None:
    cache: LruCache[int, int] = LruCache(most, weigh=lambda value: value)
    for key, weight in puts:
        cache.put(key, weight)
        held = [value for other in range(6) if (value := cache.get(other)) is not None]
        assert sum(held) <= most or held == [weight]
        assert cache.get(key) == weight
