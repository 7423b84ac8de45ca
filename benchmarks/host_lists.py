"""What a turn costs in a host that hands over its whole list, at 200 to 10,000 messages.

    python benchmarks/host_lists.py langchain|pydantic_ai|loop [--sizes 200,2000,4000,10000] [--turns 9] [--json]

Run it with the host installed (``loop`` needs none: it calls the plugin's hooks with a list of dicts). Each turn is a
user's message and an answer. *ours* is the CPU time of the threads that run our hooks, in milliseconds per turn, the
median; *host* is the process' CPU time of the whole turn, ours and background threads included. LangChain runs with a
checkpointer in memory, so that each turn begins with a state made anew from what was saved; ``kept`` is the same
without one, where the caller hands over its own list.
"""

from __future__ import annotations

import argparse
import functools
import json
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from lcm_plugin import LcmConfig, Session
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import Turn

SIZES = (200, 2_000, 4_000, 10_000)
WINDOW = 128_000
_WORDS = "the pump at the north gate lost pressure again and the valve behind it was replaced on monday "


class Clock:
    """Adds up what the thread spends inside the functions that it wraps."""

    def __init__(self) -> None:
        self.spent = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **named: Any) -> Any:
            started = time.thread_time()
            try:
                return function(*args, **named)
            finally:
                self.spent += time.thread_time() - started

        return timed

    def take(self) -> float:
        """Milliseconds since the last time."""
        spent, self.spent = self.spent, 0.0
        return 1_000 * spent


def talk(count: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Role, text and call of some messages: a question, a call, its result and an answer, over and over."""
    for n in range(count):
        kind = n % 4
        text = f"{n // 4}: " + _WORDS * (2 if kind == 0 else 4)
        call = {"name": "read", "id": f"call_{n // 4}", "args": {"path": f"logs/{n // 4}.txt", "line": n}}
        yield (("user", text, {}), ("call", "", call), ("tool", text, call), ("assistant", text, {}))[kind]


def langchain(folder: Path, size: int, clock: Clock, *, kept: bool = False) -> Iterator[None]:
    from langchain.agents import create_agent
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langgraph.checkpoint.memory import InMemorySaver

    from lcm_plugin.hosts.langchain import LcmMiddleware

    class Timed(LcmMiddleware):
        _prepare = clock.around(LcmMiddleware._prepare)
        _note = clock.around(LcmMiddleware._note)
        _end = clock.around(LcmMiddleware._end)

    about = {"model_name": "fake", "finish_reason": "stop"}
    usage = {"input_tokens": 9_000, "output_tokens": 50, "total_tokens": 9_050}

    def message(n: int, role: str, text: str, call: dict[str, Any]) -> Any:
        if role == "user":
            return HumanMessage(text, id=f"m{n}")
        if role == "tool":
            return ToolMessage(text, tool_call_id=call["id"], name="read", id=f"m{n}")
        made = [call] if call else []
        return AIMessage(text, id=f"m{n}", tool_calls=made, usage_metadata=usage, response_metadata=about)

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

    def answers() -> Iterator[AIMessage]:
        n = 0
        while True:
            yield AIMessage(f"answer {n}", usage_metadata=usage, response_metadata=about)
            n += 1

    with closing(Timed(LcmConfig(database=str(folder / "lcm.db")), window=WINDOW)) as middleware:
        saver = None if kept else InMemorySaver()
        agent = create_agent(Model(messages=answers()), [], middleware=[middleware], checkpointer=saver)
        thread: Any = {"configurable": {"thread_id": "t"}}
        state = [message(n, *one) for n, one in enumerate(talk(size))]
        if not kept:
            agent.update_state(thread, {"messages": state})
            state = []
        for n in range(1_000_000):
            state = agent.invoke({"messages": [*state, HumanMessage(f"question {n}", id=f"q{n}")]}, thread)[
                "messages"
            ]
            if not kept:
                state = []
            middleware.engine.wait_idle(300)
            yield


def pydantic_ai(folder: Path, size: int, clock: Clock) -> Iterator[None]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models.function import FunctionModel

    from lcm_plugin.hosts.pydantic_ai import LcmCapability, capability

    capability._threaded = _in_thread(clock)  # the hooks' work runs on threads

    def message(role: str, text: str, call: dict[str, Any]) -> Any:
        if role == "user":
            return ModelRequest([UserPromptPart(text)])
        if role == "tool":
            return ModelRequest([ToolReturnPart("read", text, call["id"])])
        part = ToolCallPart("read", call["args"], call["id"]) if call else TextPart(text)
        return ModelResponse([part], model_name="fake")

    lcm: LcmCapability[Any] = LcmCapability("agent:bench:main", str(folder / "lcm.db"), window=WINDOW)
    with closing(lcm):
        agent = Agent(
            FunctionModel(lambda messages, info: ModelResponse([TextPart("noted")])), capabilities=[lcm]
        )
        history = [message(*one) for one in talk(size)]
        for n in range(1_000_000):
            history = agent.run_sync(f"question {n}", message_history=history).all_messages()
            lcm.engine.wait_idle(300)
            yield


def _in_thread(clock: Clock) -> Callable[..., Any]:
    import anyio.to_thread

    async def run(function: Callable[..., Any], *args: Any) -> Any:
        return await anyio.to_thread.run_sync(clock.around(function), *args)

    return run


def loop(folder: Path, size: int, clock: Clock) -> Iterator[None]:
    def message(n: int, role: str, text: str, call: dict[str, Any]) -> dict[str, Any]:
        if role == "tool":
            return {"role": "tool", "content": text, "tool_call_id": call["id"]}
        if not call:
            return {"role": role, "content": text}
        function = {"name": call["name"], "arguments": json.dumps(call["args"])}
        calls = [{"id": call["id"], "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    with closing(LcmPlugin(LcmConfig(database=str(folder / "lcm.db")))) as plugin:
        before, after = clock.around(plugin.before_turn), clock.around(plugin.after_turn)
        session = Session("agent:bench:main")
        history = [message(n, *one) for n, one in enumerate(talk(size))]
        for n in range(1_000_000):
            history.append({"role": "user", "content": f"question {n}"})
            before(Turn(session, history, mode="sync", window=WINDOW))
            history.append({"role": "assistant", "content": f"answer {n}"})
            after(Turn(session, history, mode="sync", window=WINDOW))
            plugin.engine.wait_idle(300)
            yield


HOSTS: dict[str, Callable[..., Iterator[None]]] = {
    "langchain": langchain,
    "kept": functools.partial(langchain, kept=True),
    "pydantic_ai": pydantic_ai,
    "loop": loop,
}


def measure(host: str, size: int, turns: int) -> dict[str, Any]:
    """The median of some turns, after two that store the history."""
    ours, whole = [], []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clock = Clock()
        running = stack.enter_context(closing(HOSTS[host](folder, size, clock)))
        for n in range(turns + 2):
            clock.take()
            started = time.process_time()
            next(running)
            if n >= 2:
                whole.append(1_000 * (time.process_time() - started))
                ours.append(clock.take())
    return {
        "host": host,
        "messages": size,
        "ours_ms": round(statistics.median(ours), 2),
        "host_ms": round(statistics.median(whole), 1),
    }


def main() -> None:
    """Prints a row for each size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("host", choices=HOSTS)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    os.environ["LCM_CONFIG"] = str(Path(__file__).with_name("no-settings.json"))
    for size in map(int, given.sizes.split(",")):
        row = measure(given.host, size, given.turns)
        print(
            json.dumps(row)
            if given.json
            else "{host:12} {messages:>7,} {ours_ms:>8.2f} ms ours {host_ms:>9.1f} ms in all".format(**row),
            flush=True,
        )


if __name__ == "__main__":
    main()
