"""The gateway's API server: a new agent for every request, several at a time, and no goodbye."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from fakes.speech import turn
from hermes_gateway import gateway
from world import World, texts

Make = Callable[..., World]

KEY = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def api_server(world: World) -> Iterator[int]:
    """The gateway with nothing but its API server; yields the port."""
    port = free_port()
    settings = {
        "API_SERVER_ENABLED": "1",
        "API_SERVER_KEY": KEY,
        "API_SERVER_HOST": "127.0.0.1",
        "API_SERVER_PORT": str(port),
    }
    with gateway(world, settings) as process:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline and not is_open(port):
            time.sleep(0.2)
        assert is_open(port), (world.home / "gateway.out").read_text()[-3000:]
        yield port


def say(port: int, session: str, text: str, history: list[dict[str, str]] | None = None) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = {"model": "hermes-agent", "messages": [*(history or []), {"role": "user", "content": text}]}
    headers = {
        "Authorization": f"Bearer {KEY}",
        "Content-Type": "application/json",
        "X-Hermes-Session-Id": session,
    }
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    assert response.status == 200, answer
    return str(answer["choices"][0]["message"]["content"])


def test_parallel_sessions_are_kept_apart_and_stored_without_any_goodbye(world: Make) -> None:
    home = world()
    turns, sessions = 4, 3
    with api_server(home) as port, ThreadPoolExecutor(sessions) as pool:

        def talk(lane: int) -> None:
            for number in range(turns):
                answer = say(port, f"lane-{lane}", f"lane {lane} turn {number}")
                assert answer == f"Noted: lane {lane} turn {number}"

        list(pool.map(talk, range(sessions)))
    lanes = {c.session_key: texts(home.stored(c.session_key)) for c in home.conversations()}
    assert lanes == {
        f"agent:main:api_server:lane-{lane}": [
            line for n in range(turns) for line in (f"lane {lane} turn {n}", f"Noted: lane {lane} turn {n}")
        ]
        for lane in range(sessions)
    }
    assert home.server.invalid == []


def test_requests_of_one_session_at_the_same_time_are_each_stored_once(world: Make) -> None:
    home = world(lcm={"activeRecall": "off"})  # The answers repeat what was sent, quotes included.
    rounds, at_once = 3, 3
    with api_server(home) as port, ThreadPoolExecutor(at_once) as pool:
        assert say(port, "shared", "hello there") == "Noted: hello there"
        for number in range(rounds):
            asked = [f"round {number} request {each}" for each in range(at_once)]
            answers = pool.map(lambda text: say(port, "shared", text), asked)
            assert list(answers) == [f"Noted: {text}" for text in asked]
    said = ["hello there", *(f"round {n} request {each}" for n in range(rounds) for each in range(at_once))]
    rows = home.stored("agent:main:api_server:shared")
    assert sorted(texts(rows)) == sorted(line for text in said for line in (text, f"Noted: {text}"))
    assert home.server.invalid == []
    assert home.problems() == []


def test_a_session_of_many_requests_is_compacted_and_stays_whole(world: Make) -> None:
    home = world(lcm={"contextThreshold": 0.35, "freshTailCount": 8, "leafChunkTokens": 3000})
    said = [turn(number, 900) for number in range(1, 25)]
    with api_server(home) as port:
        for text in said:
            say(port, "long", text)
    assert texts(home.stored()) == [line for text in said for line in (text, f"Noted: {text[:80]}".strip())]
    sizes = [request.tokens for request in home.server.requests if request.tools]
    # A share of what the system prompt and the tools leave, each turn in a new agent.
    fixed = sizes[0] - 900
    assert max(sizes) <= fixed + 0.35 * (64_000 - fixed) + 2 * 900
    assert home.summaries()
    assert home.server.invalid == []
