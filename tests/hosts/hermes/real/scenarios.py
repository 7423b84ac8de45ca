"""What runs inside the host's process: each function is one scenario and returns JSON values.

Run as ``python -m scenarios <name> <file with options>`` with the home in HERMES_HOME.
"""

from __future__ import annotations

import json
import os
import sys
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
    pause: float = 0.0,
    **options: Any,
) -> dict[str, Any]:
    """Says the turns one after the other to one agent, as a chat program does."""
    if session_id is not None:
        options["session_id"] = session_id
    agent = make_agent(url, **options)
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
    ids = [agent.session_id]
    started = time.perf_counter()
    for text in turns:
        result = agent.run_conversation(text, conversation_history=messages)
        messages = result["messages"]
        answers.append(result["final_response"])
        if agent.session_id != ids[-1]:
            ids.append(agent.session_id)
        time.sleep(pause)
    return {
        "engine": engine_of(agent),
        "answers": answers,
        "compress": calls,
        "session_ids": ids,
        "list": len(messages),
        "seconds": time.perf_counter() - started,
        "hooks": hook_times(agent),
    }


def hook_times(agent: Any) -> dict[str, float]:
    """Seconds that the host waited for each hook, and the milliseconds per turn."""
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
    from hermes_cli.plugins import discover_plugins, get_plugin_context_engine

    discover_plugins()
    return {"engine": get_plugin_context_engine().name}


def doctor(url: str) -> list[str]:
    """What the host check finds."""
    from lcm_plugin.hosts.hermes.doctor import check_host

    return [f"{finding.severity} {finding.code}" for finding in check_host()]


def skills(url: str) -> list[str]:
    """The names of the plugin's skills whose file can be read."""
    from hermes_cli.plugins import discover_plugins, get_plugin_manager

    discover_plugins()
    found = get_plugin_manager()._plugin_skills
    return [name for name, skill in found.items() if skill["path"].read_text()]


def main() -> None:
    """Runs the scenario that the command line names."""
    name, options = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    result = globals()[name](**options)
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
