"""What runs inside the host's process: each function is one scenario and returns JSON values.

Run as ``python -m scenarios <name> <file with options>`` with the home in HERMES_HOME.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

SMALL_TOOLSETS = ["context_engine", "todo"]


def make_agent(url: str, **options: Any) -> Any:
    """An agent of the host as its own programs build it, with few tools."""
    from hermes_state import SessionDB
    from run_agent import AIAgent

    settings = {
        "base_url": url,
        "api_key": "sk-fake",
        "provider": "custom",
        "model": "fake-model",
        "enabled_toolsets": SMALL_TOOLSETS,
        "quiet_mode": True,
        "platform": "cli",
        "session_db": SessionDB(),
        "skip_context_files": True,
        "skip_memory": True,
        # Without a listener the host shows a spinner, and waits half a second for its end at each tool call.
        "tool_progress_callback": lambda *_, **__: None,
    }
    return AIAgent(**{**settings, **options})


def engine_of(agent: Any) -> dict[str, Any]:
    """Which engine serves an agent, and its status."""
    engine = agent.context_compressor
    return {"class": type(engine).__name__, "status": engine.get_status()}


def loop(
    url: str,
    turns: list[str],
    in_place: bool = True,
    history: list[dict[str, Any]] | None = None,
    session_id: str | None = None,
    resume: bool = False,
    settle: bool = False,
    watch: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Says the turns one after the other to one agent, as a chat program does; ``/lcm …`` is the chat's command.

    ``resume`` begins with what the host has of the session; ``watch`` asks for ``/lcm status`` after each turn.
    With ``settle`` each turn is followed by a wait for what runs in the background, another look at the status, and a
    wait for the time at which a compaction that was put off may be tried again.
    """
    if resume:
        from hermes_state import SessionDB

        session_id = SessionDB().resolve_resume_session_id(session_id)
    if session_id is not None:
        options["session_id"] = session_id
    agent = make_agent(url, **options)
    if resume:
        history = agent._session_db.get_messages_as_conversation(session_id, repair_alternation=True)
    agent.compression_in_place = in_place
    compress = agent.context_compressor.compress
    calls: list[dict[str, Any]] = []
    answers: list[str] = []

    def watched(messages: list[dict[str, Any]], *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        result = compress(messages, *args, **kwargs)
        calls.append(
            {
                "turn": len(answers) + 1,
                "before": len(messages),
                "after": len(result),
                "noop": result is messages,
            }
        )
        return result

    watched.__signature__ = __import__("inspect").signature(compress)  # type: ignore[attr-defined]
    agent.context_compressor.compress = watched
    messages: list[dict[str, Any]] = history or []
    statuses: list[str] = []
    ids = [agent.session_id]
    started = time.perf_counter()
    for text in turns:
        if isinstance(text, str) and text.startswith("/lcm "):
            statuses.append(slash(text.removeprefix("/lcm ")))
            continue
        result = agent.run_conversation(text, conversation_history=messages)
        messages = result["messages"]
        answers.append(result["final_response"])
        if agent.session_id != ids[-1]:
            ids.append(agent.session_id)
        if watch:
            statuses.append(slash("status"))
        if settle:
            engine = agent.context_compressor.runtime.engine()
            engine.wait_idle(30)
            statuses += [slash("status")] if watch else []
            _until_tried_again(engine)
    return {
        "engine": engine_of(agent),
        "answers": answers,
        "compress": calls,
        "session_ids": ids,
        "statuses": statuses,
        "list": len(messages),
        "warning": getattr(agent, "_compression_warning", None),
        "seconds": time.perf_counter() - started,
        "hooks": hook_times(agent),
    }


def _until_tried_again(engine: Any) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with engine.store.read() as reader:
            debt = reader.debt(1)
        if debt is None or debt.state != "deferred" or debt.next_attempt_at <= time.time() * 1_000:
            return
        time.sleep(0.05)


def canaries(
    url: str,
    turns: list[str],
    taken_back: list[int],
    planted: int,
    after: int,
    results: list[str],
    questions: list[str],
    others: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Says turns until ``after`` compactions came behind the first ``planted`` ones, then asks the questions.

    ``others`` are sessions of their own, by their ids, in each of which one text was said before.
    The tool ``look_up`` returns the result with the number that the model calls it with. Of the turns whose numbers are in
    ``taken_back`` the host's list loses what they added.
    """
    from tools.registry import registry

    number_schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    schema = {"name": "look_up", "description": "Looks something up.", "parameters": number_schema}
    registry.register("look_up", "canaries", schema, lambda given, **_: results[given["number"]])
    for name, text in (others or {}).items():
        make_agent(url, session_id=name).run_conversation(text, conversation_history=[])
    agent = make_agent(url, enabled_toolsets=[*SMALL_TOOLSETS, "canaries"])
    messages: list[dict[str, Any]] = []
    said, first = 0, 0
    for text in turns:
        compactions = agent.context_compressor.compactions
        if said == planted:
            first = compactions
        if said >= planted and compactions - first >= after:
            break
        before = [dict(message) for message in messages]
        messages = agent.run_conversation(text, conversation_history=messages)["messages"]
        if said in taken_back:
            messages = before
        said += 1
    compactions = agent.context_compressor.compactions - first
    for question in questions:
        messages = agent.run_conversation(question, conversation_history=messages)["messages"]
    return {"said": said, "compactions": compactions}


def slash(arguments: str) -> str:
    """What ``/lcm`` answers in a chat."""
    from hermes_cli.plugins import get_plugin_manager

    return str(get_plugin_manager()._plugin_commands["lcm"]["handler"](arguments))


def hook_times(agent: Any) -> dict[str, float]:
    """Seconds that the host waited for each hook of ours, and the milliseconds per turn."""
    if not hasattr(agent.context_compressor, "runtime"):
        return {}
    times = agent.context_compressor.runtime.times
    return {**times.by_hook, "per_turn_ms": times.per_turn_ms}


def killed(url: str, turns: list[str], **options: Any) -> None:
    """Says the turns and dies without a goodbye, as SIGKILL does."""
    agent = make_agent(url, **options)
    messages: list[dict[str, Any]] = []
    for text in turns:
        messages = agent.run_conversation(text, conversation_history=messages)["messages"]
    sys.stdout.write("RESULT " + json.dumps({"session_id": agent.session_id}) + "\n")
    sys.stdout.flush()
    os._exit(9)


def killed_in_call(url: str, turns: list[str], last: str) -> None:
    """Dies while the model is being asked."""
    agent = make_agent(url)
    messages: list[dict[str, Any]] = []
    for text in turns:
        messages = agent.run_conversation(text, conversation_history=messages)["messages"]

    def die(*_: Any, **__: Any) -> None:
        print("RESULT {}", flush=True)
        os._exit(9)

    agent._interruptible_streaming_api_call = agent._interruptible_api_call = die
    agent.run_conversation(last, conversation_history=messages)


def interrupted(url: str, first: str, second: str) -> dict[str, Any]:
    """The user interrupts the first turn before the model answers, then says something else."""
    agent = make_agent(url)
    real = agent._interruptible_streaming_api_call

    def stop(*_: Any, **__: Any) -> None:
        agent.interrupt()
        raise InterruptedError("the user pressed a key")

    agent._interruptible_streaming_api_call = stop
    messages = agent.run_conversation(first, conversation_history=[])["messages"]
    agent._interruptible_streaming_api_call = real
    agent.clear_interrupt()
    result = agent.run_conversation(second, conversation_history=messages)
    return {"roles": [message["role"] for message in result["messages"]]}


def registered(url: str) -> dict[str, Any]:
    """Loads the plugins, and nothing else."""
    import cli  # noqa: F401 - what the host has loaded by then
    from hermes_cli.plugins import discover_plugins, get_plugin_context_engine

    before = set(sys.modules)
    discover_plugins()
    return {"engine": get_plugin_context_engine().name, "loaded": sorted(set(sys.modules) - before)}


def doctor(url: str) -> list[str]:
    """What the host check finds."""
    from lcm_plugin.hosts.doctor import Host, check_host

    return [f"{finding.severity} {finding.code}" for finding in check_host(Host.HERMES)]


def skills(url: str) -> list[str]:
    """The names of the plugin's skills whose file can be read."""
    from hermes_cli.plugins import discover_plugins, get_plugin_manager

    discover_plugins()
    found = get_plugin_manager()._plugin_skills
    return [name for name, skill in found.items() if skill["path"].read_text()]


def collected(url: str) -> dict[str, Any]:
    """Loads the plugin as the host's folder ``plugins/context_engine`` would, which offers less."""
    from plugins.context_engine import _EngineCollector

    from lcm_plugin.hosts.hermes import register

    collector = _EngineCollector()
    register(collector)
    return {"engine": collector.engine.name, "offers_skills": hasattr(collector, "register_skill")}


def copies(url: str, count: int) -> dict[str, Any]:
    """Copies the registered engine as the host does for each agent, and starts each as it does."""
    import copy

    from hermes_cli.plugins import discover_plugins, get_plugin_context_engine

    agent = make_agent(url)
    agent.run_conversation("hello", conversation_history=[])
    discover_plugins()
    registered_engine = get_plugin_context_engine()
    started = time.perf_counter()
    made = [copy.deepcopy(agent.context_compressor) for _ in range(count)]
    copied = time.perf_counter() - started
    unbound = [made[0].session_id, registered_engine.session_id]
    started = time.perf_counter()
    for number, engine in enumerate(made):
        engine.update_model("fake-model", 64_000, base_url=url, api_key="sk-fake", provider="custom")
        engine.bind_session_state(session_db=agent._session_db, session_id=f"request-{number}")
        engine.get_tool_schemas()
        engine.on_session_start(f"request-{number}", platform="api_server", conversation_id=None)
    return {
        "milliseconds_to_copy": 1000 * copied / count,
        "milliseconds_to_start": 1000 * (time.perf_counter() - started) / count,
        "same_runtime": all(engine.runtime is registered_engine.runtime for engine in made),
        "session_ids": unbound,
    }


def stale_end(url: str, turns: list[str]) -> dict[str, Any]:
    """After a compaction the list before it is handed over at a session's end, again and again."""
    agent = make_agent(url)
    messages: list[dict[str, Any]] = []
    older: list[list[dict[str, Any]]] = []
    for text in turns:
        older.append([dict(message) for message in messages])
        messages = agent.run_conversation(text, conversation_history=messages)["messages"]
    engine = agent.context_compressor
    for listing in [*older, messages]:
        engine.on_session_end(agent.session_id, listing)
    return {"compactions": engine.compactions}


def history(url: str, steps: list[tuple[str, int]], last: str) -> dict[str, Any]:
    """A talk of which the host takes turns back, asks again, and goes on from lists that it left."""
    agent, messages = make_agent(url), list[dict[str, Any]]()
    left: list[list[dict[str, Any]]] = []
    said: list[str] = []
    compacted = False

    def say(text: str, listing: list[dict[str, Any]]) -> None:
        nonlocal messages
        said.append(text)
        left.append([dict(message) for message in messages])
        messages = agent.run_conversation(text, conversation_history=[dict(one) for one in listing])[
            "messages"
        ]

    say("the beginning of the talk", [])
    for number, (kind, where) in enumerate(steps):
        asked = [place for place, message in enumerate(messages) if message["role"] == "user"]
        at = asked[where % len(asked)]
        words = f"{kind} asked as step {number}"
        if kind == "tools":
            say(
                f'{words}\nCALL todo {{"todos": [{{"id": "{number}", "content": "x", "status": "pending"}}]}}',
                messages,
            )
        elif kind == "back":
            say(words, messages[:at])
        elif kind == "retry":
            say(messages[at]["content"], messages[:at])
        elif kind == "branch":
            say(words, left[where % len(left)])
        elif kind == "restart":
            agent = make_agent(url, session_id=agent.session_id)
        elif kind == "compact":
            engine = agent.context_compressor
            result = engine.runtime.engine().compact(engine.session, force=True, budget=1_000)
            compacted |= result.compacted
        else:
            say(words, messages)
    say(last, messages)
    return {"list": messages, "said": said, "compacted": compacted}


def sub_agent(url: str, before: str, task: str, after: str) -> dict[str, Any]:
    """An owner's turn, a child's turn in the same thread with the same records, an owner's turn."""
    owner = make_agent(url)
    messages = owner.run_conversation(before, conversation_history=[])["messages"]
    child = make_agent(
        url, platform="subagent", parent_session_id=owner.session_id, session_db=owner._session_db
    )
    child._session_init_model_config["_delegate_from"] = owner.session_id
    child.run_conversation(task, conversation_history=[])
    owner.run_conversation(after, conversation_history=messages)
    return {"owner": owner.session_id, "child": child.session_id}


def background_review(url: str, turns: list[str]) -> dict[str, Any]:
    """The host's own review of a conversation, on its own thread, under the owner's session id."""
    from agent.background_review import spawn_background_review_thread

    agent = make_agent(url)
    messages: list[dict[str, Any]] = []
    for text in turns:
        messages = agent.run_conversation(text, conversation_history=messages)["messages"]
        target, _ = spawn_background_review_thread(
            agent, list(messages), review_memory=True, review_skills=True
        )
        review = threading.Thread(target=target)
        review.start()
        review.join()
    return {}


def gateway_compress(url: str, turns: list[str], after: str) -> dict[str, Any]:
    """A second agent on the same session compacts it, as ``/compress`` does in the gateway."""
    from agent.model_metadata import estimate_request_tokens_rough
    from hermes_state import SessionDB

    owner = make_agent(url)
    messages: list[dict[str, Any]] = []
    for text in turns:
        messages = owner.run_conversation(text, conversation_history=messages)["messages"]
    records = SessionDB()
    helper = make_agent(
        url, session_id=owner.session_id, session_db=records, enabled_toolsets=["memory"], max_iterations=4
    )
    history = records.get_messages_as_conversation(owner.session_id)
    smaller, _ = helper._compress_context(
        history, "", approx_tokens=estimate_request_tokens_rough(history), force=True
    )
    restored = records.get_messages_as_conversation(owner.session_id, repair_alternation=True)
    again = make_agent(url, session_id=owner.session_id, session_db=records)
    again.run_conversation(after, conversation_history=restored)
    return {"before": len(history), "after": len(smaller)}


def under_lock(url: str, turns: list[str], session_id: str) -> dict[str, Any]:
    """Talks, ends and compacts while another process holds the write lock; leaves when it is gone.

    The file ``done-under-lock`` tells that process that there is nothing more to see.
    """
    from hermes_state import SessionDB

    records = SessionDB()
    agent = make_agent(url, session_id=session_id, session_db=records)
    messages = records.get_messages_as_conversation(session_id)
    for text in turns:
        messages = agent.run_conversation(text, conversation_history=messages)["messages"]
    engine = agent.context_compressor
    started = time.perf_counter()
    engine.on_session_end(agent.session_id, messages)
    end_seconds = time.perf_counter() - started
    unchanged = engine.compress(messages, current_tokens=60_000) is messages
    problem = engine.get_status()["problem"]
    waiting = engine.runtime.outbox.waiting
    Path("done-under-lock").touch()
    engine.runtime.outbox.drain(30)
    return {
        "waiting": waiting,
        "end_seconds": end_seconds,
        "compress_unchanged": unchanged,
        "problem": problem,
    }


def lowered_threshold(url: str, turns: list[str]) -> dict[str, Any]:
    """The host lowers the threshold to what its summary model can read."""
    agent = make_agent(url)
    engine = agent.context_compressor
    engine.threshold_tokens = 16_000
    engine.threshold_percent = 16_000 / engine.context_length
    asked: list[int] = []
    real = engine.should_compress

    def watched(prompt_tokens: int | None = None) -> bool:
        answer = real(prompt_tokens)
        if answer:
            asked.append(prompt_tokens or 0)
        return bool(answer)

    engine.should_compress = watched
    messages: list[dict[str, Any]] = []
    for text in turns:
        messages = agent.run_conversation(text, conversation_history=messages)["messages"]
    return {"asked_at": max(asked, default=1 << 30), "compactions": engine.compactions}


def main() -> None:
    """Runs the scenario that the command line names."""
    name, options = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    result = globals()[name](**options)
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
