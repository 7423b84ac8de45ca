"""How long the hooks of a coding agent take, and what its server costs at rest.

    python benchmarks/agent_hooks.py [claude-code|codex|gemini-cli] [turns]

Starts the server as Claude Code and Codex do, over stdin and stdout, with a database of 2,000 stored turns of the
project. Each turn: a prompt's hook, then the log gains a turn, then the hook at its end. Gemini CLI's hooks are a process
each, which asks the server, or does all by itself where none runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.hosts.agents.capture import Capture
from lcm_plugin.hosts.agents.plugin_files import hook_line

STORED_TURNS = 2_000
REST_SECONDS = 20.0
"""Instead of the five minutes after which a server gives memory back."""
SERVER = """
import sys
import lcm_plugin.hosts.mcp.rest as rest
from lcm_plugin.hosts.agents.__main__ import main
rest.REST_SECONDS = float(sys.argv[1])
main(sys.argv[2:])
"""
OTHER, SESSION = "11111111-2222-4333-8444-555555555555", "5b0f5f0e-6c3e-4c57-9f3b-1d2c3b4a5f60"
CITIES = ("Lisbon", "Oslo", "Quito", "Hanoi", "Nairobi", "Perth", "Riga", "Lima", "Turin", "Osaka")


class Log:
    """A log as Claude Code writes it."""

    def __init__(self, folder: Path, session: str) -> None:
        self.path = folder / f"{session}.jsonl"
        self._session = session
        self._count = 0

    def turn(self, asked: str, answered: str) -> None:
        blocks = [{"type": "text", "text": answered}]
        with self.path.open("a") as file:
            for role, content in (("user", asked), ("assistant", blocks)):
                parent = f"{self._session}-{self._count}" if self._count else None
                self._count += 1
                record = {"parentUuid": parent, "uuid": f"{self._session}-{self._count}", "type": role}
                message = {"role": role, "content": content}
                about = {"sessionId": self._session, "cwd": str(self.path.parent), "isSidechain": False}
                stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                file.write(json.dumps(record | about | {"message": message, "timestamp": stamp}) + "\n")


class CodexLog:
    """A log as Codex writes it."""

    def __init__(self, folder: Path, session: str) -> None:
        self.path = folder / f"rollout-2026-11-28T10-00-00-{session}.jsonl"
        self._count = 0
        self._add("session_meta", {"id": session, "cwd": str(folder), "cli_version": "0.171.0"})

    def turn(self, asked: str, answered: str) -> None:
        for role, kind, text in (("user", "input_text", asked), ("assistant", "output_text", answered)):
            content = [{"type": kind, "text": text}]
            self._add("response_item", {"type": "message", "role": role, "content": content})

    def _add(self, kind: str, payload: dict[str, Any]) -> None:
        self._count += 1
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        record = {"timestamp": stamp, "ordinal": self._count - 1, "type": kind, "payload": payload}
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")


class GeminiLog:
    """A log as Gemini CLI writes it."""

    def __init__(self, folder: Path, session: str) -> None:
        self.session = session
        self.path = folder / f"session-2026-11-28T10-00-{session}.jsonl"
        self._count = 0
        self._add({"sessionId": session, "projectHash": "0" * 64, "startTime": self._now(), "kind": "main"})

    def turn(self, asked: str, answered: str) -> None:
        for kind, content in (("user", [{"text": asked}]), ("gemini", answered)):
            self._count += 1
            name = f"00000000-0000-4000-8000-{self._count:012}"
            self._add({"id": name, "timestamp": self._now(), "type": kind, "content": content})

    def _add(self, record: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    @staticmethod
    def _now() -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def store_history(folder: Path, database: Path) -> None:
    """The project's other session: as many turns as a long one has."""
    log = Log(folder, OTHER)
    for number in range(STORED_TURNS):
        city = CITIES[number % len(CITIES)]
        log.turn(
            f"Station {number}: what did the pump in {city} need on round {number}?",
            f"In {city} pump {number} needed valve V-{number * 7 % 9973}; it runs again. " * 4,
        )
    with Engine.open(LcmConfig(database=str(database))) as engine:
        Capture(engine, "claude-code").store([log.path])


async def measure(host: str, folder: Path, database: Path, turns: int) -> dict[str, Any]:
    """Milliseconds of each hook as the host sees them, and the server's memory (MB)."""
    arguments = ["-P", "-c", SERVER, str(REST_SECONDS), host, "--database", str(database)]
    server = StdioServerParameters(command=sys.executable, args=arguments)
    log = CodexLog(folder, SESSION) if host == "codex" else Log(folder, SESSION)
    times: dict[str, list[float]] = {"UserPromptSubmit": [], "Stop": []}
    quoted = 0
    async with stdio_client(server) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
        await session.initialize()

        async def hook(event: str, **more: str) -> str:
            given = {
                "event": event,
                "session": SESSION,
                "transcript": str(log.path),
                "cwd": str(folder),
                **more,
            }
            started = time.perf_counter()
            answer = await session.call_tool("lcm_hook", given)
            times[event].append((time.perf_counter() - started) * 1000)
            return str(answer.content[0].text)

        await asyncio.sleep(3)
        begun = memory_of(str(database))
        for number in range(turns):
            asked = f"Which valve did pump {number * 13 % STORED_TURNS} need?"
            quoted += "recalled" in await hook("UserPromptSubmit", prompt=asked)
            log.turn(asked, f"Answer {number}.")
            await hook("Stop", last=f"Answer {number}.")
        memory = memory_of(str(database))
        await asyncio.sleep(REST_SECONDS + 2)
        rest = memory_of(str(database))
        asked = "Which valve did pump 77 need?"
        await hook("UserPromptSubmit", prompt=asked)
        woken = times["UserPromptSubmit"].pop()
    first = {event: round(values[0]) for event, values in times.items()}
    later = {event: percentiles(values[1:]) for event, values in times.items()}
    return {
        "first ms": first,
        "later ms": later,
        "prompts with quotes": f"{quoted} of {turns}",
        "after a rest ms": round(woken),
        "MB": {"before the first prompt": begun, "after the last": memory, "at rest": rest},
    }


def measure_commands(folder: Path, database: Path, turns: int, *, served: bool) -> dict[str, Any]:
    """Milliseconds of each process that Gemini CLI starts, and the processor time of all of them (s).

    ``served`` is with the session's server, which answers them; else each does all by itself.
    """
    log = GeminiLog(folder, f"{SESSION[:-1]}{int(served)}")
    times: dict[str, list[float]] = {"BeforeAgent": [], "AfterAgent": []}
    line = hook_line("gemini-cli", str(database), windows=False)
    quoted = 0

    def hook(event: str, **more: str) -> str:
        given = {"hook_event_name": event, "session_id": log.session, "transcript_path": str(log.path)}
        started = time.perf_counter()
        ended = subprocess.run(
            ["bash", "-c", line],
            input=json.dumps({**given, "cwd": str(folder), **more}).encode(),
            capture_output=True,
            check=True,
        )
        times[event].append((time.perf_counter() - started) * 1000)
        return ended.stdout.decode()

    command = [
        sys.executable,
        "-P",
        "-m",
        "lcm_plugin.hosts.agents",
        "gemini-cli",
        "--database",
        str(database),
    ]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) if served else None
    time.sleep(3 if served else 0)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for number in range(turns):
        asked = f"Which valve did pump {number * 13 % STORED_TURNS} need?"
        quoted += "recalled" in hook("BeforeAgent", prompt=asked)
        log.turn(asked, f"Answer {number}.")
        hook("AfterAgent")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if server is not None:
        server.communicate(timeout=60)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "first ms": {event: round(values[0]) for event, values in times.items()},
        "later ms": {event: percentiles(values[1:]) for event, values in times.items()},
        "processor s a hook": round(used / turns / 2, 3),
        "prompts with quotes": f"{quoted} of {turns}",
    }


def percentiles(values: list[float]) -> dict[str, int]:
    cuts = statistics.quantiles(values, n=20)
    return {"p50": round(cuts[9]), "p95": round(cuts[18]), "max": round(max(values))}


def memory_of(database: str) -> int:
    """The resident memory of the server with a database, in MB."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            status = (place / "status").read_text()
        except OSError:
            continue
        if SERVER.encode() in words and database.encode() in words:
            return int(status.split("VmRSS:")[1].split()[0]) // 1024
    return 0


def main() -> None:
    host = next((one for one in sys.argv[1:] if not one.isdigit()), "claude-code")
    turns = int(next((one for one in sys.argv[1:] if one.isdigit()), "100"))
    with tempfile.TemporaryDirectory() as name:
        folder, database = Path(name), Path(name) / "lcm.db"
        store_history(folder, database)
        if host == "gemini-cli":
            # Where hooks find their session's server.
            os.environ["XDG_DATA_HOME"] = str(folder / "data")
            for served in (True, False):
                found = measure_commands(folder, database, turns if served else turns // 5, served=served)
                print(json.dumps({"served" if served else "by themselves": found}, indent=1))
        else:
            print(json.dumps(asyncio.run(measure(host, folder, database, turns)), indent=1))


if __name__ == "__main__":
    main()
