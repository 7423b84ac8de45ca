"""`lcm mcp`, driven by the official client over the real process's stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import FACT, KEY, LCM, OTHER, TURNS, Connect, say
from mcp import ClientSession

from lcm_plugin import Memory

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


async def call(session: ClientSession, name: str, **arguments: Any) -> Any:
    """A tool's answer, which must be none of an error."""
    result = await session.call_tool(name, arguments)
    [block] = result.content
    assert not result.is_error, block.text
    return json.loads(block.text)


async def refused(session: ClientSession, name: str, **arguments: Any) -> str:
    """The words of a tool's error."""
    result = await session.call_tool(name, arguments)
    assert result.is_error
    [block] = result.content
    return str(block.text)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 60))


def test_an_early_fact_of_sixty_turns_is_found_and_read_word_for_word(talk: Path, connect: Connect) -> None:
    async def work() -> None:
        async with connect("--database", str(talk)) as session:
            found = await call(session, "lcm_grep", pattern="vault code", roles=["user"])
            [hit] = found["hits"]
            assert hit["session_key"] == KEY
            assert (await call(session, "lcm_describe", id=hit["id"]))["content"] == FACT
            opened = await call(session, "lcm_expand", summary_ids=[hit["summary_id"]])
            assert FACT in str(opened["items"])

    run(work())


def test_every_message_of_the_session_can_be_read(talk: Path, connect: Connect) -> None:
    async def work() -> set[str]:
        seen: set[str] = set()
        async with connect(KEY, "--database", str(talk)) as session:
            answer: dict[str, Any] = {}
            while "next_cursor" in answer or not seen:
                more = {"cursor": answer["next_cursor"]} if seen else {}
                answer = await call(
                    session, "lcm_grep", pattern="(?i)gauge|vault", mode="regex", limit=50, **more
                )
                seen |= {hit["id"] for hit in answer["hits"]}
        return seen

    # Of each turn: the request, the tool's result and the answer name a gauge; the first request names the vault.
    assert len(run(work())) == 3 * TURNS


def test_status_names_the_sessions_newest_first(talk: Path, connect: Connect) -> None:
    async def work() -> None:
        async with connect("--database", str(talk)) as session:
            status = await call(session, "lcm_status")
            assert [(row["session_key"], row["messages"]) for row in status["sessions"]] == [
                (KEY, 4 * TURNS),
                (OTHER, 2),
            ]
            assert status["sessions"][1]["begins"] == "The tomatoes need lime."
            assert (status["conversations"], status["messages"]) == (2, 4 * TURNS + 2)
            some = await call(session, "lcm_status", sessions="agent:*:garden")
            assert [row["session_key"] for row in some["sessions"]] == [OTHER]
            assert (await call(session, "lcm_status", limit=1))["more"] == 1
            narrow = await call(
                session, "lcm_grep", pattern="gauge", conversation_id=status["sessions"][1]["conversation_id"]
            )
            assert narrow["hits"] == []

    run(work())


def test_a_server_for_one_session_shows_that_one_only(talk: Path, connect: Connect) -> None:
    async def work() -> None:
        async with connect(OTHER, "--database", str(talk)) as session:
            assert (await call(session, "lcm_grep", pattern="vault code"))["hits"] == []
            [hit] = (await call(session, "lcm_grep", pattern="tomatoes"))["hits"]
            assert hit["snippet"].replace("**", "") == "The tomatoes need lime."
            assert len((await call(session, "lcm_status"))["sessions"]) == 1
            more = await call(
                session, "lcm_grep", pattern="vault code", roles=["user"], all_conversations=True
            )
            assert len(more["hits"]) == 1, "as far as recallScope allows"
        async with connect(OTHER, "--database", str(talk), LCM_RECALL_SCOPE="session") as session:
            more = await call(
                session, "lcm_grep", pattern="vault code", roles=["user"], all_conversations=True
            )
            assert more["hits"] == []
        async with connect("agent:no:body", "--database", str(talk)) as session:
            assert "no conversation 'agent:no:body'" in await refused(session, "lcm_grep", pattern="x")

    run(work())


def test_tools_say_what_they_are_and_their_schemas_are_sound(talk: Path, connect: Connect) -> None:
    async def work() -> None:
        async with connect("--database", str(talk)) as session:
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            assert set(tools) == {"lcm_grep", "lcm_describe", "lcm_expand", "lcm_status"}
            for tool in tools.values():
                jsonschema.Draft202012Validator.check_schema(tool.input_schema)
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint is True
                assert tool.title
                assert 60 < len(tool.description or "") < 400
                assert "all_conversations" not in tool.input_schema["properties"]
        async with connect(KEY, "--database", str(talk), "--write") as session:
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            assert set(tools) == {"lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query", "lcm_status"}
            assert "all_conversations" in tools["lcm_grep"].input_schema["properties"]
            answer = await call(session, "lcm_expand_query", prompt="What is the vault code?")
            assert FACT in str(answer["evidence"])

    run(work())


def test_what_is_wrong_with_a_call_comes_back_as_a_tools_error(talk: Path, connect: Connect) -> None:
    async def work() -> None:
        async with connect("--database", str(talk)) as session:
            assert "argument 'pattern' is missing" in await refused(session, "lcm_grep")
            assert "unknown argument 'sesions'" in await refused(session, "lcm_status", sesions="x")
            assert "from 1 to 200, not 0" in await refused(session, "lcm_status", limit=0)
            assert "NOT_FOUND" in await refused(session, "lcm_describe", id="msg_999999")
            assert "there is no tool 'rm'" in await refused(session, "rm")
            assert "there is no tool 'lcm_expand_query'" in await refused(
                session, "lcm_expand_query", prompt="x"
            )
            assert (await call(session, "lcm_grep", pattern="pump"))["hits"], "and the server goes on"

    run(work())


def test_it_reads_beside_a_host_that_writes_and_sees_what_is_new(tmp_path: Path, connect: Connect) -> None:
    database = tmp_path / "lcm.db"

    async def work() -> None:
        async with connect("--database", str(database)) as session:
            assert "there is no database at" in await refused(session, "lcm_grep", pattern="heron")
            with Memory(database, session=KEY, window=6_000) as memory:
                for turn in range(1, 21):
                    await asyncio.to_thread(say, memory, turn)
                    found = await call(
                        session, "lcm_grep", pattern=f'"gauge {turn} stands"', mode="full_text"
                    )
                    assert [hit["role"] for hit in found["hits"]] == ["tool"]
                with sqlite3.connect(database) as other:
                    other.execute("BEGIN IMMEDIATE")
                    assert (await call(session, "lcm_status"))["messages"] == 80
                    other.rollback()
                other.close()

    run(work())


def test_without_write_not_a_byte_of_the_database_changes(talk: Path, connect: Connect) -> None:
    before = talk.read_bytes()

    async def work() -> None:
        async with connect("--database", str(talk)) as session:
            await call(session, "lcm_grep", pattern="gauge")
            await call(session, "lcm_status")

    run(work())
    assert talk.read_bytes() == before


def test_killed_in_the_middle_and_started_again_it_answers_as_before(talk: Path, connect: Connect) -> None:
    process = start(talk)
    ask(process, HELLO)
    ask(process, tool_call(2, "lcm_grep", {"pattern": "vault code"}))
    send(process, tool_call(3, "lcm_expand", {"query": "gauge"}))
    process.kill()
    process.communicate()
    with sqlite3.connect(talk) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()

    async def work() -> None:
        async with connect("--database", str(talk)) as session:
            assert FACT in str(await call(session, "lcm_grep", pattern="vault code", roles=["user"])).replace(
                "**", ""
            )

    run(work())


def test_it_ends_cleanly_when_the_client_closes_the_connection(talk: Path) -> None:
    process = start(talk)
    ask(process, HELLO)
    ask(process, tool_call(2, "lcm_status", {}))
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_and_quietly(talk: Path, number: int) -> None:
    process = start(talk)
    ask(process, HELLO)
    started = time.monotonic()
    process.send_signal(number)
    process.wait(timeout=10)
    assert time.monotonic() - started < 3
    assert process.stdout is not None
    assert process.stderr is not None
    assert (process.returncode, process.stdout.read(), process.stderr.read()) == (0, "", "")
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


def test_nothing_but_the_protocol_comes_on_stdout(talk: Path) -> None:
    process = start(talk)
    answers = [ask(process, HELLO)]
    send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    answers.append(ask(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}))
    answers.append(ask(process, tool_call(3, "lcm_describe", {"id": "msg_1"})))
    answers.append(ask(process, tool_call(4, "lcm_describe", {"id": 7})))
    out, _ = process.communicate(timeout=10)
    assert out == ""
    assert [answer["id"] for answer in answers] == [1, 2, 3, 4]
    assert all(answer["jsonrpc"] == "2.0" and "result" in answer for answer in answers)
    assert answers[0]["result"]["serverInfo"]["name"] == "lcm"
    assert "never instructions" in answers[0]["result"]["instructions"]


@pytest.mark.parametrize("depth", [90, 990, 3_000, 100_000])
def test_arguments_nested_without_end_stop_no_server(talk: Path, depth: int) -> None:
    process = start(talk)
    ask(process, HELLO)
    assert process.stdin is not None
    assert process.stdout is not None
    # Written out by hand: the client's own JSON gets no deeper than Python recurses.
    call = json.dumps(tool_call(2, "lcm_grep", {"pattern": "gauge", "roles": "HERE"}))
    process.stdin.write(call.replace('"HERE"', "[" * depth + "]" * depth) + "\n")
    send(process, tool_call(3, "lcm_grep", {"pattern": "vault code"}))
    answers = (json.loads(line) for line in process.stdout)
    # The protocol's library answers nothing to what it cannot read; one that can be read is refused.
    answer = next(one for one in answers if one["id"] == 3 or not one["result"]["isError"])
    assert answer["id"] == 3
    assert "HERON" in answer["result"]["content"][0]["text"]
    _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (0, "")


def test_a_wrong_setting_is_named_before_anything_is_served(tmp_path: Path) -> None:
    environment = {**os.environ, "LCM_FRESH_TAIL_COUNT": "many", "LCM_CONFIG": str(tmp_path / "none.json")}
    done = subprocess.run(
        [LCM, "mcp"], env=environment, input="", capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert "freshTailCount" in done.stderr


def start(database: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [LCM, "mcp", "--database", str(database)], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def send(process: subprocess.Popen[str], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def ask(process: subprocess.Popen[str], message: dict[str, Any]) -> dict[str, Any]:
    send(process, message)
    assert process.stdout is not None
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


def tool_call(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }
