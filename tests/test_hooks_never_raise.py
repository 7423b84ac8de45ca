"""Whatever a host hands to a hook, the hook comes back, and what can be encoded goes on to the model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from messages import assistant, user
from small_talk import turns

from lcm_plugin import CompletionRequest, LcmConfig, LcmPlugin, Reset, Session, Turn

KEY = Session("agent:main:main", "run-1")


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[LcmPlugin]:
    made = LcmPlugin(LcmConfig(database=str(tmp_path / "lcm.db")))
    yield made
    made.close()


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[LcmPlugin]:
    """Its database is a folder, so that every hook falls back."""
    made = LcmPlugin(LcmConfig(database=str(tmp_path)))
    yield made
    made.close()


def nested(depth: int) -> Any:
    value: Any = "end"
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {"role": "user", "content": "round and round"}
    value["me"] = value
    return value


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


ODD: dict[str, Callable[[], Any]] = {
    "nesting of 990": lambda: user(nested(990)),
    "nesting of 5,000": lambda: user(nested(5_000)),
    "cycle": cyclic,
    "huge number": lambda: user(10**5000),
    "datetime": lambda: user(datetime(2026, 5, 1)),
    "hostile": lambda: user(Hostile()),
    "calls are a number": lambda: assistant("x", tool_calls=5),
    "lone surrogate": lambda: user("a\ud83d"),
    "arguments of a looping model": lambda: assistant(
        None,
        tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": "[" * 3_000}}],
    ),
    "no message": lambda: 7,
    "no role": lambda: {"content": "x"},
}


@pytest.mark.long
@pytest.mark.parametrize("mode", ["sync", "append"])
@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_an_odd_message_is_stored_shown_and_not_doubled(
    plugin: LcmPlugin, make: Callable[[], Any], mode: Any
) -> None:
    odd, listing = make(), [user("before")]
    for message in (odd, assistant("after"), user("and now?")):
        listing.append(message)
        given = listing if mode == "sync" else [message]
        context = plugin.before_turn(Turn(KEY, given, mode=mode, window=32_000))
        plugin.after_turn(Turn(KEY, given, mode=mode, window=32_000))
    kept = plugin.engine.messages(KEY)
    assert len(kept) == (4 if mode == "sync" else 3)
    assert kept[-2:] == [assistant("after"), user("and now?")]
    assert context is not None
    assert context.messages[-1]["content"] == "and now?"
    json.dumps(context.messages, ensure_ascii=False).encode()


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_the_fallback_does_not_fail(broken: LcmPlugin, make: Callable[[], Any]) -> None:
    own = [user("before"), make()]
    context = broken.before_turn(Turn(KEY, own, window=32_000))
    assert context is not None
    assert all(one is other for one, other in zip(context.messages, own, strict=True))
    assert context.tokens > 0
    broken.after_turn(Turn(KEY, own, window=32_000))


@pytest.mark.parametrize("messages", [None, 5, object()])
def test_a_list_that_is_none_is_answered_with_nothing(plugin: LcmPlugin, messages: Any) -> None:
    assert plugin.before_turn(Turn(KEY, messages, window=32_000)) is None
    plugin.after_turn(Turn(KEY, messages))


def test_a_stack_that_is_nearly_used_up_loses_no_message(plugin: LcmPlugin) -> None:
    plugin.before_turn(Turn(KEY, [user("first")], mode="append"))

    def deeper(left: int) -> None:
        if left:
            deeper(left - 1)
        else:
            plugin.after_turn(Turn(KEY, [user(nested(80))], mode="append"))

    deeper(sys.getrecursionlimit() - 120)
    plugin.before_turn(Turn(KEY, [user("last")], mode="append"))
    assert [str(m["content"]).strip("[']") for m in plugin.engine.messages(KEY)] == ["first", "end", "last"]


class Cancelled(BaseException):
    """As asyncio's CancelledError is none of Exception's."""


@pytest.mark.parametrize("error", [Cancelled(), SystemExit(1)])
def test_a_completer_that_raises_what_it_may_not_ends_no_hook(tmp_path: Path, error: BaseException) -> None:
    def ending(request: CompletionRequest) -> str:
        raise error

    config = LcmConfig(database=str(tmp_path / "lcm.db"), fresh_tail_count=4, leaf_chunk_tokens=600)
    plugin = LcmPlugin(config, completer=ending)
    plugin.after_turn(Turn(KEY, turns(30), mode="append", window=2_000))
    assert plugin.before_turn(
        Turn(KEY, [user("x")], mode="append", window=2_000, metadata={"overflow": True})
    )
    assert plugin.before_reset(Reset(KEY, "new"))
    answer = plugin.lcm_call_tool(KEY, "lcm_expand_query", {"prompt": "lamp"})
    assert answer is not None
    assert "evidence" in answer
    plugin.close()


def test_a_host_whose_listener_is_cancelled_gets_its_context(tmp_path: Path) -> None:
    import pluggy

    from lcm_plugin import hookimpl
    from lcm_plugin.plugin import register

    class Listener:
        @hookimpl
        def lcm_event(self, event: Any) -> None:
            raise Cancelled

    manager = pluggy.PluginManager("lcm")
    plugin = register(manager, LcmConfig(database=str(tmp_path / "lcm.db")))
    manager.register(Listener())
    assert manager.hook.before_turn(turn=Turn(KEY, [user("one")], window=8_000)).messages == [user("one")]
    plugin.close()
