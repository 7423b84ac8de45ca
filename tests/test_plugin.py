"""The pluggy plugin: what a host's hook calls do, and that nothing ever leaves them."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pluggy
import pytest
from messages import assistant, call, result, user

from lcm_plugin import CompletionRequest, Engine, LcmConfig, LcmPlugin, Reset, Session, Turn, hookimpl
from lcm_plugin.events import Event
from lcm_plugin.hookspecs import HostHooks, PluginHooks
from lcm_plugin.plugin import register
from lcm_plugin.recall.catchup import BACKGROUND_LAG

KEY = Session("agent:main:main", "run-1")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[tuple[pluggy.PluginManager, LcmPlugin]]:
    manager = pluggy.PluginManager("lcm")
    plugin = register(manager, LcmConfig(database=str(tmp_path / "lcm.db")))
    yield manager, plugin
    plugin.close()


def turn(messages: list[dict[str, Any]], **fields: Any) -> Turn:
    return Turn(KEY, messages, window=32_000, **fields)


def test_a_turn_is_stored_and_answered_with_a_context(host: tuple[pluggy.PluginManager, LcmPlugin]) -> None:
    manager, plugin = host
    history = [user("hello"), assistant("hi"), user("how are you?")]
    context = manager.hook.before_turn(turn=turn(history))
    assert context.messages == history
    manager.hook.after_turn(turn=turn([*history, assistant("fine")]))
    assert plugin.engine.messages(KEY) == [*history, assistant("fine")]


def test_a_delta_host_gets_the_whole_context(host: tuple[pluggy.PluginManager, LcmPlugin]) -> None:
    manager, _ = host
    manager.hook.before_turn(turn=turn([user("one")], mode="append"))
    manager.hook.after_turn(turn=turn([assistant("uno")], mode="append"))
    context = manager.hook.before_turn(turn=turn([user("two")], mode="append"))
    assert [message["content"] for message in context.messages] == ["one", "uno", "two"]


def test_a_host_that_only_asks_for_contexts_is_indexed_too(
    host: tuple[pluggy.PluginManager, LcmPlugin],
) -> None:
    manager, plugin = host
    context = manager.hook.before_turn(
        turn=turn([user(f"row {number}") for number in range(BACKGROUND_LAG)], mode="append")
    )
    assert not plugin.engine.evaluate(KEY, budget=32_000).due, context.tokens
    assert plugin.engine.wait_idle(60)
    with plugin.engine.store.read() as reader:
        assert reader.index_state().message_lag == 0


def test_what_a_delta_host_says_before_the_database_can_be_opened_is_stored_when_it_can(
    tmp_path: Path,
) -> None:
    heard: list[Event] = []

    class Listener:
        @hookimpl
        def lcm_event(self, event: Event) -> None:
            heard.append(event)

    manager = pluggy.PluginManager("lcm")
    (tmp_path / "away").write_text("where the folder will be")
    plugin = register(manager, LcmConfig(database=str(tmp_path / "away" / "lcm.db")))
    manager.register(Listener())
    manager.hook.before_turn(turn=turn([user("one")], mode="append"))
    manager.hook.after_turn(turn=turn([assistant("uno")], mode="append"))
    assert [event.fields["messages"] for event in heard if event.name == "ingest.waiting"] == [1, 2]
    (tmp_path / "away").unlink()
    context = manager.hook.before_turn(turn=turn([user("two")], mode="append"))
    assert [message["content"] for message in context.messages] == ["one", "uno", "two"]
    assert [message["content"] for message in plugin.engine.messages(KEY)] == ["one", "uno", "two"]
    plugin.close()


def test_a_hook_called_twice_with_the_same_delta_stores_it_once(
    host: tuple[pluggy.PluginManager, LcmPlugin],
) -> None:
    manager, plugin = host
    asked = turn([user("ok")], mode="append")
    for _ in range(2):
        manager.hook.before_turn(turn=asked)
    answered = turn([*asked.messages, assistant("ok")], mode="append")
    for _ in range(2):
        manager.hook.after_turn(turn=answered)
    again = turn([user("ok")], mode="append")
    manager.hook.before_turn(turn=again)
    assert [message["role"] for message in plugin.engine.messages(KEY)] == ["user", "assistant", "user"]


def test_registering_opens_and_writes_nothing(tmp_path: Path) -> None:
    manager = pluggy.PluginManager("lcm")
    register(manager, LcmConfig(database=str(tmp_path / "lcm.db")))
    assert manager.hook.lcm_tools() is not None
    assert list(tmp_path.iterdir()) == []


def test_the_entry_point_finds_the_plugin() -> None:
    manager = pluggy.PluginManager("lcm")
    manager.add_hookspecs(HostHooks)
    manager.add_hookspecs(PluginHooks)
    assert manager.load_setuptools_entrypoints("lcm.plugins") >= 1
    assert [point.value for point in entry_points(group="lcm.plugins", name="lcm")] == [
        "lcm_plugin.plugin:plugin"
    ]
    manager.check_pending()


def test_every_hook_implementation_matches_its_spec(host: tuple[pluggy.PluginManager, LcmPlugin]) -> None:
    manager, plugin = host
    manager.check_pending()
    implemented = {caller.name for caller in manager.get_hookcallers(plugin) or ()}
    assert implemented == {name for name in vars(HostHooks) if not name.startswith("_")}


class Unusable:
    """A database path that is a folder."""

    def __init__(self, folder: Path) -> None:
        self.manager = pluggy.PluginManager("lcm")
        self.events: list[Event] = []
        self.plugin = register(self.manager, LcmConfig(database=str(folder)))
        self.manager.register(self)

    @hookimpl
    def lcm_event(self, event: Event) -> None:
        self.events.append(event)


def test_a_failing_store_leaves_the_host_its_own_list(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Unusable(tmp_path)
    hook, history = broken.manager.hook, [user("hello"), assistant("hi"), user("more")]
    assert hook.before_turn(turn=turn(history)).messages == history
    assert hook.before_turn(turn=turn(history[-1:], mode="append")) is None
    hook.after_turn(turn=turn(history))
    hook.session_end(session=KEY, reason="shutdown")
    assert not hook.before_reset(reset=Reset(KEY, "new")).ok
    assert not hook.lcm_run_command(session=KEY, text="/lcm").ok
    assert "error" in hook.lcm_call_tool(session=KEY, name="lcm_grep", arguments={"pattern": "x"})
    names = [event.name for event in broken.events]
    assert names.count("hook.failed") == len(caplog.records) == 7
    assert names.count("ingest.waiting") == len(names) - 7 == 1


def test_what_is_no_message_does_not_hold_up_the_others(
    host: tuple[pluggy.PluginManager, LcmPlugin],
) -> None:
    manager, plugin = host
    history = [user("fine"), {"content": "no role"}, "text", user("and on")]
    context = manager.hook.before_turn(turn=turn(history))
    assert context.messages[-1] == user("and on")
    kept = plugin.engine.messages(KEY)
    assert (kept[0], kept[3]) == (history[0], history[3])
    assert "a message needs a role" in str(kept[1])
    assert "no role" in str(kept[1])
    manager.hook.before_turn(turn=turn([*history, assistant("noted")]))
    assert len(plugin.engine.messages(KEY)) == 5


def test_a_delta_that_met_a_locked_database_is_stored_next_time(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    manager = pluggy.PluginManager("lcm")
    plugin = register(manager, LcmConfig(database=str(path), busy_timeout_ms=50))
    manager.hook.before_turn(turn=turn([user("one")], mode="append"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    manager.hook.after_turn(turn=turn([assistant("uno")], mode="append"))
    other.execute("ROLLBACK")
    other.close()
    manager.hook.before_turn(turn=turn([user("two")], mode="append"))
    assert [message["content"] for message in plugin.engine.messages(KEY)] == ["one", "uno", "two"]
    plugin.close()


def test_the_hosts_model_writes_the_summaries(tmp_path: Path) -> None:
    asked: list[CompletionRequest] = []

    class Host:
        @hookimpl
        def lcm_complete(self, request: CompletionRequest) -> str:
            asked.append(request)
            return "They counted words from one to sixty and agreed on the amber lantern as the sign. " * 3

    manager = pluggy.PluginManager("lcm")
    config = LcmConfig(database=str(tmp_path / "lcm.db"), fresh_tail_count=4, leaf_chunk_tokens=1_000)
    plugin = register(manager, config)
    manager.register(Host())
    history = [user(f"word {n} " + "amber lantern " * 20) for n in range(40)]
    manager.hook.after_turn(turn=Turn(KEY, history, window=8_000))
    assert plugin.engine.wait_idle(60)
    assert asked
    text = str(plugin.engine.assemble(KEY, 8_000).messages[0]["content"])
    assert "agreed on the amber lantern" in text
    plugin.close()


def test_a_closed_plugin_opens_again(host: tuple[pluggy.PluginManager, LcmPlugin]) -> None:
    manager, plugin = host
    manager.hook.before_turn(turn=turn([user("one")]))
    plugin.close()
    context = manager.hook.before_turn(turn=turn([user("one"), assistant("uno"), user("two")]))
    assert len(context.messages) == 3


def test_disabled_means_the_host_keeps_its_list(tmp_path: Path) -> None:
    manager = pluggy.PluginManager("lcm")
    plugin = register(manager, LcmConfig(database=str(tmp_path / "lcm.db"), enabled=False))
    history = [user("hello")]
    assert manager.hook.before_turn(turn=turn(history)).messages == history
    assert plugin.engine.messages(KEY) == []
    plugin.close()


def test_the_engines_context_survives_tool_calls(host: tuple[pluggy.PluginManager, LcmPlugin]) -> None:
    manager, _ = host
    history = [user("list"), call("c1"), result("c1", "a b c")]
    context = manager.hook.before_turn(turn=turn(history))
    assert context.messages == history


def run_python(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split("\n")


def test_importing_is_fast() -> None:
    code = "import time; start = time.process_time(); import lcm_plugin; print(time.process_time() - start)"
    assert min(float(run_python(code)[0]) for _ in range(3)) < 0.3


def test_importing_the_engine_loads_no_extra() -> None:
    heavy = "('litellm', 'psycopg', 'sqlite_utils', 'openai', 'typer', 'tiktoken')"
    code = f"import sys; from lcm_plugin import Engine, LcmConfig; print([n for n in {heavy} if n in sys.modules])"
    assert run_python(code)[0] == "[]"


def test_importing_the_engine_loads_few_modules_and_no_commands_without_the_collector() -> None:
    code = (
        "import gc, sys, lcm_plugin\n"
        "count = lambda: sum(one['collections'] for one in gc.get_stats())\n"
        "gc.collect(); before = count()\n"
        "from lcm_plugin import Engine\n"
        "runs = count() - before\n"
        "own = [name for name in sys.modules if name.startswith('lcm_plugin.')]\n"
        "print(len(own), sum('.commands' in name for name in own), runs <= 1, gc.isenabled())"
    )
    own, *rest = run_python(code)[0].split()
    assert int(own) <= 250
    assert rest == ["0", "True", "True"]
    code = "import sys, lcm_plugin; print(sum(name.startswith('lcm_plugin') for name in sys.modules))"
    assert run_python(code)[0] == "2"


def test_public_names_are_exactly_all() -> None:
    import lcm_plugin

    assert sorted(lcm_plugin.__all__) == lcm_plugin.__all__
    for name in lcm_plugin.__all__:
        assert getattr(lcm_plugin, name) is not None
    with pytest.raises(AttributeError):
        _ = lcm_plugin.nothing  # type: ignore[attr-defined]


def test_engine_is_the_type_it_says(engine: Engine, open_engine: Callable[..., Engine]) -> None:
    with open_engine("other") as other:
        assert isinstance(other, Engine)
    assert engine.wait_idle(60)


def test_a_delta_that_was_refused_is_new_when_it_comes_again(tmp_path: Path) -> None:
    plugin = LcmPlugin(LcmConfig(database=str(tmp_path / "lcm.db")))
    said = user("The harbour is closed.")
    nameless = Turn(Session(""), [said], mode="append", window=8_000)
    assert plugin.before_turn(nameless) is None
    asked = Turn(Session("agent:main:main"), [said], mode="append", window=8_000)
    for _ in range(2):
        plugin.before_turn(asked)
    assert plugin.engine.messages(asked.session) == [said]
    plugin.close()
