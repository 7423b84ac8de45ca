"""How long the hooks of a coding agent take, and what its server costs at rest.

    python benchmarks/agent_hooks.py [turns]

Starts the server as Claude Code does, over stdin and stdout, with a database of 2,000 stored turns of the project. Each
turn: a prompt's hook, then the log gains a turn, then the hook at its end.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.hosts.agents.capture import Capture

STORED_TURNS = 2_000
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


async def measure(folder: Path, database: Path, turns: int) -> dict[str, Any]:
    """Milliseconds of each hook as the host sees them, and the server's memory (MB)."""
    arguments = ["-P", "-m", "lcm_plugin.hosts.agents", "claude-code", "--database", str(database)]
    server = StdioServerParameters(command=sys.executable, args=arguments)
    log = Log(folder, SESSION)
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
        idle = memory_of(str(database))
        for number in range(turns):
            asked = f"Which valve did pump {number * 13 % STORED_TURNS} need?"
            quoted += "recalled" in await hook("UserPromptSubmit", prompt=asked)
            log.turn(asked, f"Answer {number}.")
            await hook("Stop", last=f"Answer {number}.")
        memory = memory_of(str(database))
    first = {event: round(values[0]) for event, values in times.items()}
    later = {event: percentiles(values[1:]) for event, values in times.items()}
    return {
        "first ms": first,
        "later ms": later,
        "prompts with quotes": f"{quoted} of {turns}",
        "MB": {"at rest": idle, "after": memory},
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
        if b"lcm_plugin.hosts.agents" in words and database.encode() in words:
            return int(status.split("VmRSS:")[1].split()[0]) // 1024
    return 0


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as name:
        folder, database = Path(name), Path(name) / "lcm.db"
        store_history(folder, database)
        print(json.dumps(asyncio.run(measure(folder, database, turns)), indent=1))


if __name__ == "__main__":
    main()
