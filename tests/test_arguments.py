"""What a program hands over wrongly: one sentence with the argument, what it may be, and what came."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from messages import user

from lcm_plugin import Engine, LcmPlugin, Memory, Session, Turn
from lcm_plugin.errors import InputError
from lcm_plugin.types import Reset

SESSION = Session("agent:main:main")
A_SESSION = re.escape("a Session of texts, as in Session('agent:main:main')")

MEMORY: dict[str, tuple[dict[str, Any], str]] = {
    "a window in words": ({"window": "big"}, "window must be a whole number, or None, not 'big'"),
    "true as a window": ({"window": True}, "window must be a whole number, or None, not True"),
    "no window": ({"window": 0}, "window must be at least 1 token, not 0"),
    "a negative window": ({"window": -1}, "window must be at least 1 token, not -1"),
    "a number as system": ({"system": 5}, "system must be a text, not 5"),
    "no session": ({"session": None}, "session must be a text, not None"),
    "a number as session": ({"session": 3}, "session must be a text, not 3"),
    "a name as completer": ({"completer": "gpt"}, "completer must be a function that takes a CompletionRequest"),
    "a dict as settings": ({"config": {}}, "config must be an LcmConfig, or None, not of the type dict"),
    "a number as model": ({"model": 3}, "model must be a text, or None, not 3"),
    "bytes as database": ({"database": b"talk.db"}, "database must be a path or a URL, or None, not b'talk.db'"),
    "no name of a database": ({"database": ""}, "database must be a path or a URL, or None, not ''"),
    "a name with NUL": ({"database": "a\0b"}, "database must be a path or a URL, or None, not"),
}  # fmt: skip


@pytest.mark.parametrize("case", MEMORY)
def test_a_memory_names_the_argument_that_is_wrong(tmp_path: Path, case: str) -> None:
    given, said = MEMORY[case]
    with pytest.raises(InputError, match=re.escape(said)):
        Memory(**{"database": tmp_path / "talk.db", **given})
    assert list(tmp_path.iterdir()) == []


USED: dict[str, tuple[Callable[[Memory], object], str]] = {
    "much overhead": (lambda it: it.context(overhead_tokens="much"), "overhead_tokens must be a whole number"),
    "negative overhead": (lambda it: it.context(overhead_tokens=-5), "overhead_tokens must be at least 0, not -5"),
    "a prompt that is none": (lambda it: it.context(prompt=5), "prompt must be a text, or None, not 5"),
    "no answer": (lambda it: it.run_tools(None), "answer must be the message that the model returned, a dict, not NoneType"),
    "a text as answer": (lambda it: it.run_tools("yes"), "answer must be the message that the model returned"),
    "no tool": (lambda it: it.call_tool(None, {}), "name must be a text, not None"),
    "nothing to pin": (lambda it: it.pin(None), "what must be a text, not None"),
    "a number to unpin": (lambda it: it.unpin("pin_1", 5), "names must be a text, not 5"),
}  # fmt: skip


@pytest.mark.parametrize("case", USED)
def test_a_method_of_memory_names_the_argument_that_is_wrong(memory: Memory, case: str) -> None:
    use, said = USED[case]
    with pytest.raises(InputError, match=re.escape(said)):
        use(memory)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Memory(tmp_path_factory.mktemp("talk") / "talk.db") as opened:
        yield opened


CALLED: dict[str, tuple[Callable[[Any], object], str]] = {
    "a key as session": (lambda it: it.ingest("agent:main", [user("x")]), f"session must be {A_SESSION}, not 'agent:main'"),
    "no session": (lambda it: it.messages(None), f"session must be {A_SESSION}, not None"),
    "a session of bytes": (lambda it: it.assemble(Session(b"a")), f"session must be {A_SESSION}, not Session"),
    "a key to check": (lambda it: it.check("agent:main"), f"session must be {A_SESSION}, or None, not 'agent:main'"),
    "no messages": (lambda it: it.ingest(SESSION, None), "messages must be a list of messages, not None"),
    "one message": (lambda it: it.ingest(SESSION, user("x")), "messages must be a list of messages, not of the type dict"),
    "a text as messages": (lambda it: it.ingest(SESSION, "x"), "messages must be a list of messages, not 'x'"),
    "an unknown mode": (lambda it: it.ingest(SESSION, [], mode="merge"), "mode must be one of append, .* not 'merge'"),
    "a budget in words": (lambda it: it.assemble(SESSION, "x"), "budget must be a whole number, or None, not 'x'"),
    "no budget": (lambda it: it.assemble(SESSION, 0), "at least 1 token"),
    "another budget": (lambda it: it.compact(SESSION, budget="x"), "budget must be a whole number, or None, not 'x'"),
    "no depth": (lambda it: it.new_session(SESSION, -2), "the retain depth must be a whole number, -1 .* not -2"),
    "no reason": (lambda it: it.end_session(SESSION, None), "reason must be a text, not None"),
    "no command": (lambda it: it.command(SESSION, None), "text must be a text, not None"),
    "a time in words": (lambda it: it.wait_idle("long"), "timeout must be a number, or None, not 'long'"),
    "no listener": (lambda it: it.subscribe(5), "listener must be a function that takes an Event, not 5"),
}  # fmt: skip


@pytest.mark.parametrize("case", CALLED)
def test_a_method_of_the_engine_names_the_argument_that_is_wrong(engine: Engine, case: str) -> None:
    use, said = CALLED[case]
    with pytest.raises(InputError, match=said):
        use(engine)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"config": "talk.db"}, "config must be an LcmConfig, or None, not 'talk.db'"),
        ({"completer": 5}, "completer must be a function that takes a CompletionRequest, or None, not 5"),
        ({"clock": 5}, "clock must be a function that returns milliseconds, not 5"),
    ],
    ids=str,
)
def test_an_engine_is_not_opened_with_what_it_cannot_use(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        Engine.open(**given)


ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "too few": ({"limit": 0}, "limit = 0: must be at least 1"),
    "too many": ({"limit": 9_999}, "limit = 9999: must be at most 200"),
    "in words": ({"limit": "many"}, "limit = 'many': must be a whole number"),
    "an unknown mode": ({"mode": "fuzzy"}, "mode = 'fuzzy': must be 'full_text' or 'regex'"),
    "a list as pattern": ({"pattern": ["x"]}, "pattern = ['x']: must be a text"),
    "no truth": ({"all_conversations": "maybe"}, "all_conversations = 'maybe': must be true or false"),
    "one role as text": ({"roles": 5}, "roles = 5: must be a list"),
}


@pytest.mark.parametrize("case", ASKED)
def test_a_tool_names_its_argument_in_plain_words(engine: Engine, case: str) -> None:
    given, said = ASKED[case]
    answer = engine.call_tool(SESSION, "lcm_grep", {"pattern": "x", **given})
    assert answer == {"error": f"lcm_grep: {said}", "error_code": "INVALID_ARGUMENTS"}


HOOKS: dict[str, Callable[[LcmPlugin], object]] = {
    "no turn": lambda it: it.before_turn(None),
    "a dict as turn": lambda it: it.after_turn({"session": SESSION}),
    "a key as session": lambda it: it.before_turn(Turn("agent:main", [user("x")], mode="append")),
    "no text": lambda it: it.lcm_run_command(SESSION, None),
    "parts as text": lambda it: it.lcm_run_command(SESSION, [{"type": "text", "text": "/lcm"}]),
    "no reset": lambda it: it.before_reset(SimpleNamespace()),
}


@pytest.mark.parametrize("case", HOOKS)
def test_no_hook_raises_whatever_it_is_called_with(
    engine: Engine, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    with caplog.at_level(logging.WARNING, "lcm_plugin"):
        assert HOOKS[case](LcmPlugin(engine=engine)) is None or case == "no reset"
    assert all("as session" in record.getMessage() for record in caplog.records)
    assert bool(caplog.records) == ("text" not in case)


def test_an_unknown_reset_resets_nothing(engine: Engine) -> None:
    engine.ingest(SESSION, [user("The door code is 4711.")])
    answer = LcmPlugin(engine=engine).before_reset(Reset(SESSION, "old"))
    assert answer is not None
    assert not answer.ok
    assert len(engine.context_items(SESSION)) == 1


def test_a_window_that_is_no_number_is_none(engine: Engine) -> None:
    turn = Turn(SESSION, [user("Hello")], window="large")
    context = LcmPlugin(engine=engine).before_turn(turn)
    assert context is not None
    assert context.prefix_epoch, "it was assembled"


def test_a_method_keeps_its_name_words_and_signature() -> None:
    assert Engine.ingest.__name__ == "ingest"
    assert (Engine.ingest.__doc__ or "").startswith("Stores what is new")
