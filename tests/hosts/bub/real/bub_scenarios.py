"""Runs of the real framework in a process of its own: ``python -m bub_scenarios NAME OPTIONS.json``."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bub.channels.message import ChannelMessage
from bub.framework import BubFramework


class Spent:
    """How long the host waited for our hooks, in seconds."""

    def __init__(self) -> None:
        self.by_hook: dict[str, float] = {}

    def watch(self, framework: BubFramework) -> None:
        """Measures every hook of the plugin from now on."""
        for name in framework.hook_report():
            for one in getattr(framework.plugin_manager.hook, name).get_hookimpls():
                if one.plugin_name == "lcm" and name != "provide_lifespan":
                    one.function = self._measured(name, one.function)

    def _measured(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            value = function(*arguments, **named)
            self._add(name, start)
            if name == "build_tape_context":
                return type(value)(anchor=value.anchor, select=self._measured("select", value.select))
            return self._awaited(name, value) if inspect.iscoroutine(value) else value

        return timed

    async def _awaited(self, name: str, coroutine: Any) -> Any:
        start = time.perf_counter()
        try:
            return await coroutine
        finally:
            self._add(name, start)

    def _add(self, name: str, start: float) -> None:
        self.by_hook[name] = self.by_hook.get(name, 0.0) + time.perf_counter() - start


@asynccontextmanager
async def running(spent: Spent | None = None) -> AsyncIterator[BubFramework]:
    """The framework with all plugins, as the host's own commands start it."""
    framework = BubFramework()
    framework.load_hooks()
    assert framework._plugin_status["lcm"].is_success, framework._plugin_status["lcm"].detail
    if spent is not None:
        spent.watch(framework)
    async with framework.running():
        yield framework


async def say(framework: BubFramework, text: str, session: str = "cli:local", **more: Any) -> str:
    """One turn."""
    channel, chat = session.split(":")
    message = ChannelMessage(session_id=session, channel=channel, chat_id=chat, content=text, **more)
    return (await framework.process_inbound(message)).model_output


async def talk(options: dict[str, Any]) -> Any:
    """Turns in one process, one after the other; the answers or errors, and how long the hooks took."""
    spent = Spent()
    answers = []
    async with running(spent) as framework:
        for text in options["turns"]:
            try:
                answers.append(await say(framework, text, options.get("session", "cli:local")))
            except Exception as error:  # noqa: BLE001 - the test looks at it
                answers.append(f"{type(error).__name__}: {error}")
    return {"answers": answers, "spent": spent.by_hook}


async def edited(options: dict[str, Any]) -> Any:
    """Turns in one process; the tape's file is cut back to where it was before the turn ``at``, then more turns."""
    answers: list[str] = []
    sizes: list[int] = []
    async with running() as framework:

        def tape() -> Path:
            (path,) = [p for p in Path.home().glob(".bub/tapes/*.jsonl") if "__sidecar__" not in p.name]
            return path

        for text in options["turns"]:
            sizes.append(tape().stat().st_size if sizes else 0)
            answers.append(await say(framework, text))
        whole = tape().read_bytes()
        tape().write_bytes(whole[: sizes[options["at"]]])
        answers += [await say(framework, text) for text in options["then"]]
        tape().write_bytes(whole + tape().read_bytes()[sizes[options["at"]] :])
        answers += [await say(framework, text) for text in options["restored"]]
    return answers


async def history(options: dict[str, Any]) -> Any:
    """Turns between which the tape's file is cut back to an earlier turn, or is again what it was on another way."""
    said: list[str] = []
    kept: list[tuple[bytes, list[str]]] = []
    ways: list[str] = []

    def tape() -> Path:
        (path,) = [p for p in Path.home().glob(".bub/tapes/*.jsonl") if "__sidecar__" not in p.name]
        return path

    async def turn(framework: BubFramework, text: str) -> None:
        said.append(text)
        ways.append(text)
        await say(framework, text)
        kept.append((tape().read_bytes(), list(ways)))

    steps = list(options["steps"])
    while steps:
        async with running() as framework:
            # A process knows of a tape what it saw of it.
            await turn(framework, f"turn asked as step {len(said)}")
            while steps:
                kind, where = steps.pop(0)
                if kind == "restart":
                    break
                if kind in ("back", "branch") and kept:
                    before, asked = kept[where % len(kept)]
                    if kind == "branch" or asked == ways[: len(asked)]:
                        tape().write_bytes(before)
                        ways[:] = asked
                more = f'\nCALL lcm_describe {{"id": "msg_9999{len(said)}"}}' if kind == "tools" else ""
                await turn(framework, f"{kind} asked as step {len(said)}{more}")
    async with running() as framework:
        await turn(framework, options["last"])
    return {"list": ways, "said": said}


async def killed(options: dict[str, Any]) -> Any:
    """Some turns, then SIGKILL at once; with ``last`` in the middle of that turn's model call."""
    async with running() as framework:
        for text in options["turns"]:
            await say(framework, text)
        if options.get("last"):
            turn = asyncio.create_task(say(framework, options["last"]))
            await asyncio.wait({turn}, timeout=2.0)
        print("RESULT {}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


async def cancelled(options: dict[str, Any]) -> Any:
    """Some turns, one that is cancelled when its model call is about to go out, and more turns."""
    from bub.hooks import hookimpl

    begun = asyncio.Event()

    class Watch:
        @hookimpl(trylast=True)
        def before_llm_call(self, request: Any, state: Any) -> None:
            begun.set()

    async with running() as framework:
        answers = [await say(framework, text) for text in options["turns"]]
        framework.plugin_manager.register(Watch())
        turn = asyncio.create_task(say(framework, options["last"]))
        await begun.wait()
        turn.cancel()
        await asyncio.wait({turn})
        answers.append("cancelled" if turn.cancelled() else "answered")
        answers += [await say(framework, text) for text in options["then"]]
    return answers


async def parallel(options: dict[str, Any]) -> Any:
    """Several sessions at once, each with its turns in order."""

    async def session(name: str, turns: list[str]) -> list[str]:
        return [await say(framework, text, name) for text in turns]

    async with running() as framework:
        names = options["sessions"]
        answers = await asyncio.gather(*(session(name, turns) for name, turns in names.items()))
    return dict(zip(names, answers, strict=True))


async def picture(options: dict[str, Any]) -> Any:
    """A turn with an image, and one after it."""
    from bub.channels.message import MediaItem

    async with running() as framework:
        item = MediaItem(type="image", mime_type="image/png", url=options["url"])
        first = await say(framework, "what is this?", media=[item])
        return [first, await say(framework, "and now?")]


async def registered(options: dict[str, Any]) -> Any:
    """Loads the plugins and does nothing: which files were opened, and how much CPU time ours took."""
    from importlib.metadata import entry_points

    opened: list[str] = []
    events = ("open", "sqlite3.connect", "os.mkdir")
    sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event in events else None)
    framework = BubFramework()
    framework.load_builtin_hooks()
    (entry,) = entry_points(group="bub", name="lcm")
    sys.dont_write_bytecode = True  # on a new machine the interpreter writes what it compiled: not our files
    del opened[:]
    start = time.process_time()
    framework.plugin_manager.register(entry.load()(framework), name="lcm")
    seconds = time.process_time() - start
    code = (".py", ".pyc", ".so", "/usr/share/zoneinfo/UTC")
    return {"seconds": seconds, "files": [name for name in opened if not name.endswith(code)]}


async def other_context(options: dict[str, Any]) -> Any:
    """Another plugin that builds the contexts is registered after ours."""
    from bub.builtin.context import default_tape_context
    from bub.hooks import hookimpl

    class Other:
        @hookimpl
        def build_tape_context(self) -> Any:
            return default_tape_context()

    framework = BubFramework()
    framework.load_hooks()
    framework.plugin_manager.register(Other(), name="other")
    async with framework.running():
        return [await say(framework, text) for text in options["turns"]]


def main() -> None:
    """Runs a scenario and prints its result."""
    scenario = globals()[sys.argv[1]]
    result = asyncio.run(scenario(json.loads(Path(sys.argv[2]).read_text())))
    print(f"RESULT {json.dumps(result)}")


if __name__ == "__main__":
    main()
