"""The page's program runs as it stands, its configurations parse, and past sessions of Claude Code are found."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from conftest import LCM, Connect

PAGE = (Path(__file__).parents[4] / "docs" / "hosts" / "mcp.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_pages_program_runs(tmp_path: Path) -> None:
    [program] = blocks("python")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    tools, found = done.stdout.splitlines()
    assert tools == "['lcm_grep', 'lcm_describe', 'lcm_expand', 'lcm_status']"
    assert "The **door** **code** is 7261." in json.loads(found)["hits"][0]["snippet"]


def test_the_pages_configurations_start_what_is_there() -> None:
    [toml] = blocks("toml")
    servers = [tomllib.loads(toml)["mcp_servers"]["lcm"]]
    for block in blocks("json"):
        [kept] = json.loads(block).values()
        servers.append(kept["lcm"])
    assert [[server["command"], *server["args"]] for server in servers] == [["lcm", "mcp"]] * 3


def test_past_sessions_of_claude_code_are_searchable_after_an_import(
    tmp_path: Path, connect: Connect
) -> None:
    projects, database = tmp_path / "projects", tmp_path / "lcm.db"
    write_session(projects / "-home-ann-garden" / "0c4f1b1e-2222-4333-8444-555566667777.jsonl")
    done = subprocess.run(
        [LCM, "import", str(projects), "--apply", "--database", str(database)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

    async def work() -> None:
        async with connect("--database", str(database)) as session:
            result = await session.call_tool("lcm_grep", {"pattern": "Which pump did we order?"})
            [first, *_] = json.loads(result.content[0].text)["hits"]
            assert first["session_key"].startswith("agent:claude-code:")
            result = await session.call_tool("lcm_grep", {"pattern": "HP-2217"})
            ids = [
                hit["id"] for hit in json.loads(result.content[0].text)["hits"] if hit["role"] == "assistant"
            ]
            result = await session.call_tool("lcm_describe", {"id": ids[0]})
            assert "We ordered the pump HP-2217." in result.content[0].text

    asyncio.run(asyncio.wait_for(work(), 300))


def write_session(path: Path) -> None:
    """A short session as Claude Code keeps it."""
    path.parent.mkdir(parents=True)
    common = {
        "sessionId": path.stem,
        "cwd": "/home/ann/garden",
        "version": "2.0.0",
        "userType": "external",
        "isSidechain": False,
    }
    said = [("user", "Which pump did we order?"), ("assistant", "We ordered the pump HP-2217.")]
    lines, parent = [], None
    for number, (role, text) in enumerate(said):
        content = text if role == "user" else [{"type": "text", "text": text}]
        lines.append(
            {
                **common,
                "type": role,
                "uuid": f"00000000-0000-4000-8000-00000000000{number}",
                "parentUuid": parent,
                "timestamp": f"2026-03-01T10:00:0{number}.000Z",
                "message": {"role": role, "content": content},
            }
        )
        parent = lines[-1]["uuid"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
