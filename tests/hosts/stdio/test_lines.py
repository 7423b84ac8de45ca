"""`lcm serve --stdio`: JSON lines in, JSON lines out, and nothing that a client writes ends the server."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcm_plugin import LcmConfig
from lcm_plugin.hosts.stdio.lines import Lines
from lcm_plugin.hosts.stdio.methods import HostMethods
from lcm_plugin.plugin import LcmPlugin

KEY = "agent:robot:1"


def answered(methods: Mapping[str, Any], calls: bytes, longest: int = 10_000) -> list[dict[str, Any]]:
    out = io.BytesIO()
    Lines(methods, out, longest).serve(io.BytesIO(calls))
    return [json.loads(line) for line in out.getvalue().splitlines()]


def echo(params: Mapping[str, Any]) -> dict[str, Any]:
    return dict(params)


def call(number: int, method: str, **params: Any) -> bytes:
    return json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"rubbish\n", "line 1 is no JSON"),
        (b"\xff\xfe\n", "line 1 is no JSON"),
        (b"[" * 5_000 + b"\n", "line 1 is no JSON"),
        (b"1" * 5_000 + b"\n", "line 1 is no JSON"),
        (b"[1]\n", "line 1 is no JSON object but list"),
        (b'{"id": 1}\n', "line 1 names no method"),
        (b'{"id": 1, "method": "echo", "params": []}\n', "line 1: params must be an object"),
        (b'"' + b"x" * 20_000 + b'"\n', "line 1 is longer than 10,000 bytes"),
    ],
)
def test_a_line_that_is_no_call_is_named_and_the_next_one_is_answered(line: bytes, why: str) -> None:
    bad, good = answered({"echo": echo}, line + call(7, "echo", a=1))
    assert bad["id"] is None
    assert bad["error"]["code"] == "BAD_LINE"
    assert bad["error"]["message"].startswith(why)
    assert good == {"id": 7, "result": {"a": 1}}


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_leave_the_server_running(lines: list[bytes]) -> None:
    assert answered({"echo": echo}, b"\n".join([*lines, b""]) + call(7, "echo"))[-1]["id"] == 7


def test_what_a_method_raises_is_its_answer_and_a_call_without_an_id_gets_none() -> None:
    def broken(params: Mapping[str, Any]) -> dict[str, Any]:
        raise RuntimeError("the roof fell in")

    calls = b'{"method": "echo"}\n{"method": "broken"}\n' + call(1, "broken") + call(2, "missing")
    answers = {one["id"]: one["error"] for one in answered({"echo": echo, "broken": broken}, calls)}
    assert answers[1] == {"code": "FAILED", "message": "the roof fell in"}
    assert answers[2]["code"] == "INVALID_ARGUMENTS"
    assert answers[2]["message"].endswith("the methods are broken, echo")
    assert set(answers) == {1, 2}


def test_calls_of_one_session_run_in_order_and_those_of_another_need_not_wait() -> None:
    """The first session's call ends only when the second session's is answered."""
    other_came, order = threading.Event(), []

    def note(params: Mapping[str, Any]) -> dict[str, Any]:
        if params.get("waits"):
            assert other_came.wait(60)
        if params["session"] == "b":
            other_came.set()
        order.append((params["session"], params["n"]))
        return {}

    calls = [call(0, "note", session="a", n=0, waits=True), call(1, "note", session="a", n=1)]
    answered({"note": note}, b"".join([*calls, call(2, "note", session="b", n=2)]))
    assert order == [("b", 2), ("a", 0), ("a", 1)]


def test_a_client_stores_asks_and_searches(tmp_path: Path) -> None:
    plugin = LcmPlugin(LcmConfig(database=str(tmp_path / "talk.db")))
    talk = [{"role": "user", "content": "The gate code is HERON-4417 \ud800."}]
    turn = {"session": KEY, "messages": talk, "window": 32_000}
    try:
        lines = [
            call(1, "before_turn", **turn),
            call(2, "after_turn", **turn, usage={"prompt_tokens": 20, "completion_tokens": 1}),
            call(3, "record", session={"key": KEY}, messages=[{"role": "assistant", "content": "Noted."}]),
            call(4, "messages", session=KEY),
            call(5, "call_tool", session=KEY, name="lcm_grep", arguments={"pattern": "gate code"}),
            call(6, "command", session=KEY, text="/lcm"),
            call(7, "resume", session=KEY),
            call(8, "recall", session=KEY, prompt="What is the gate code?", shown=talk),
            call(9, "before_turn", session=KEY, windows=1),
            call(10, "tools"),
            call(11, "compact", session=KEY, force=True),
            call(12, "session_end", session=KEY, reason="shutdown"),
        ]
        found = {one["id"]: one for one in answered(HostMethods(plugin).all(), b"".join(lines))}
    finally:
        plugin.close()
    # A provider could not take the lone surrogate; what is stored keeps it.
    assert [one["content"] for one in found[1]["result"]["messages"]] == [
        "The gate code is HERON-4417 \ufffd."
    ]
    assert [one["content"] for one in found[4]["result"]["messages"]] == [talk[0]["content"], "Noted."]
    assert "HERON-4417" in found[5]["result"]["hits"][0]["snippet"].replace("*", "")
    assert found[6]["result"]["ok"] is True
    assert "HERON-4417" in found[7]["result"]["text"]
    assert found[8]["result"]["text"] == ""
    assert found[9]["error"]["message"] == "windows: is unknown here"
    assert found[10]["result"]["tools"][0]["function"]["name"] == "lcm_grep"
    assert found[11]["result"]["reason"] == "nothing_eligible"
    assert found[12]["result"] == {}


@pytest.mark.long
def test_the_command_serves_until_its_client_leaves_and_keeps_its_output_for_answers(tmp_path: Path) -> None:
    command = (
        "from lcm_plugin.cli import main; from lcm_plugin.plugin import LcmPlugin as P; record = P.record; "
        "P.record = lambda *given: print('noise') or record(*given); main()"
    )
    arguments = ["serve", "--stdio", "--database", str(tmp_path / "talk.db")]
    calls = call(1, "record", session=KEY, messages=[{"role": "user", "content": "hi"}]) + b"rubbish\n"
    ended = subprocess.run(
        [sys.executable, "-c", command, *arguments],
        input=calls,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    ready, *answers = ended.stdout.splitlines()
    assert json.loads(ready)["ready"] == 1
    assert b"noise" in ended.stderr
    assert {one["id"]: "result" in one for one in map(json.loads, answers)} == {1: True, None: False}


def test_a_database_that_cannot_be_opened_costs_no_turn_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    plugin = LcmPlugin(LcmConfig(database=str(tmp_path / "file" / "talk.db")))
    talk = [{"role": "user", "content": "hi"}]
    calls = call(1, "before_turn", session=KEY, messages=talk) + call(2, "messages", session=KEY)
    found = {one["id"]: one for one in answered(HostMethods(plugin).all(), calls)}
    assert found[1]["result"]["messages"] == talk
    assert found[2]["error"]["code"] == "FAILED"
    assert "talk.db" in found[2]["error"]["message"]


def test_calls_of_a_session_keep_their_order_however_each_names_it() -> None:
    begun, order = threading.Event(), list[str]()

    def slow(params: Mapping[str, Any]) -> None:
        begun.wait(0.2)
        order.append("first")

    def quick(params: Mapping[str, Any]) -> None:
        order.append("second")
        begun.set()

    answered(
        {"slow": slow, "quick": quick},
        call(1, "slow", session=KEY) + call(2, "quick", session={"key": KEY, "id": "run-1"}),
    )
    assert order == ["first", "second"]
