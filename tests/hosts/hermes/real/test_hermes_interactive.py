"""The chat program itself, in a terminal."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pexpect
from fakes.model_server import ModelRequest
from fakes.speech import turn
from world import BIN, World, texts

Make = Callable[..., World]

SECONDS = 60
CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>]|\x1b\][^\x07]*\x07|[\x00-\x09\x0b-\x1f]"
)


class Terminal:
    """The interactive program at a terminal; what is on the screen is read without its colours."""

    def __init__(self, world: World, *arguments: str) -> None:
        environment = {**world.environment, "TERM": "xterm", "COLUMNS": "160", "LINES": "50"}
        self.child = pexpect.spawn(
            str(BIN / "hermes"),
            ["chat", *arguments],
            env=environment,
            cwd=str(world.home),
            dimensions=(50, 160),
            encoding="utf-8",
            codec_errors="replace",
        )
        self.until("Type your message")

    def say(self, text: str, expect: str) -> str:
        """Types a line and waits for a text; what was shown until then comes back."""
        self.child.send(text)
        time.sleep(0.3)
        self.child.send("\r")
        return self.until(expect)

    def until(self, expect: str, seconds: float = SECONDS) -> str:
        """Reads until the pattern was shown."""
        shown, end = "", time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                shown += CONTROL.sub("", self.child.read_nonblocking(65_536, 0.2))
            except pexpect.TIMEOUT:
                pass
            except pexpect.EOF:
                break
            if re.search(expect, shown):
                return shown
        raise AssertionError(f"{expect!r} was not shown within {seconds} s:\n{shown[-3000:]}")

    def clear_line(self) -> None:
        """Takes back what stands in the input line, as the host puts an undone text there."""
        time.sleep(0.5)
        self.child.send("\x15")
        time.sleep(0.3)

    def new(self) -> None:
        """Asks for a new session and says yes to the question that follows."""
        self.say("/new", "Enter to confirm")
        self.say("1", "New session started")

    def leave(self) -> None:
        """Says goodbye and waits for the program's end."""
        self.say("/exit", "Resume this session|Duration|Goodbye")
        self.child.expect(pexpect.EOF, timeout=SECONDS)
        self.child.close()


@contextmanager
def terminal(world: World, *arguments: str) -> Iterator[Terminal]:
    opened = Terminal(world, *arguments)
    try:
        yield opened
    finally:
        if opened.child.isalive():
            os.kill(opened.child.pid, 9)
            opened.child.close(force=True)


def keys_and_texts(world: World) -> dict[str, list[str]]:
    return {c.session_key: texts(world.stored(c.session_key)) for c in world.conversations()}


def test_new_begins_a_lane_of_its_own_and_takes_nothing_from_the_old_one(world: Make) -> None:
    home = world()
    with terminal(home) as chat:
        chat.say("hello one", "Noted: hello one")
        assert "2 messages" in chat.say("/lcm status", "compaction:")
        chat.new()
        chat.say("hello two", "Noted: hello two")
        assert "conversation 2 with 2 messages" in chat.say("/lcm status", "compaction:")
        chat.leave()
    first, second = home.host_sessions()
    assert keys_and_texts(home) == {
        f"agent:main:cli:{first}": ["hello one", "Noted: hello one"],
        f"agent:main:cli:{second}": ["hello two", "Noted: hello two"],
    }


def test_leaving_right_after_new_copies_nothing_into_the_empty_session(world: Make) -> None:
    home = world()
    with terminal(home) as chat:
        chat.say("hello one", "Noted: hello one")
        chat.new()
        chat.leave()
    assert list(keys_and_texts(home).values()) == [["hello one", "Noted: hello one"]]


def test_resume_goes_on_in_the_old_lane(world: Make) -> None:
    home = world()
    with terminal(home) as chat:
        chat.say("hello one", "Noted: hello one")
        chat.new()
        chat.say("hello two", "Noted: hello two")
        first = home.host_sessions()[0]
        chat.say(f"/resume {first}", "esum")
        chat.say("hello again", "Noted: hello again")
        chat.leave()
    lanes = keys_and_texts(home)
    assert lanes[f"agent:main:cli:{first}"] == [
        "hello one",
        "Noted: hello one",
        "hello again",
        "Noted: hello again",
    ]
    assert sorted(map(len, lanes.values())) == [2, 4]


def test_a_branch_is_a_lane_of_its_own_and_a_kill_after_the_next_turn_loses_nothing(world: Make) -> None:
    home = world()
    with terminal(home) as chat:
        chat.say("hello one", "Noted: hello one")
        chat.say("/branch side", "Branch session:")
        chat.say("on the branch", "Noted: on the branch")
        trunk = home.host_sessions()[0]
        chat.say(f"/resume {trunk}", "esumed session")
        chat.say("on the trunk", "Noted: on the trunk")
        chat.say("/lcm status", "with 4 messages")
        # The program is killed here; nobody says goodbye.
    _, branch = home.host_sessions()
    assert keys_and_texts(home) == {
        f"agent:main:cli:{trunk}": ["hello one", "Noted: hello one", "on the trunk", "Noted: on the trunk"],
        f"agent:main:cli:{branch}": [
            "hello one",
            "Noted: hello one",
            "on the branch",
            "Noted: on the branch",
        ],
    }
    assert home.server.invalid == []


def test_compress_with_a_focus_and_undo(world: Make) -> None:
    home = world(lcm={"freshTailCount": 4, "leafChunkTokens": 2000})
    said = [turn(number, 300) for number in range(1, 13)]
    with terminal(home) as chat:
        for number, text in enumerate(said, start=1):
            chat.say(text, f"Noted: Note {number:03d}")
        chat.say("/undo", "Enter to confirm")
        chat.say("", "Undid 1 turn")
        chat.clear_line()
        chat.say("/compress gardens", "✅")
        chat.say("what now", "Noted: what now")
        chat.new()
        chat.leave()
    assert texts(home.stored(), "user") == [*said, "what now"]
    assert home.summaries(), "/new deletes nothing"
    last = [r for r in home.server.requests if r.prompt.endswith("what now")][-1]
    assert not any(said[-1] in str(m.get("content")) for m in last.messages)
    assert home.server.invalid == []


def test_twenty_four_turns_of_long_answers_in_a_large_window(world: Make) -> None:
    """More talk than the context may hold: it is stored once, and no prompt outgrows the trigger."""
    window, answer = 128_000, 6_000
    home = world(window=window)
    home.server.window = window

    def tell(request: ModelRequest) -> str | None:
        # Hermes puts what is quoted behind the request.
        asked = re.match(r"tell me story (\d+)\b", request.prompt)
        return f"{turn(int(asked[1]), answer)} END-{asked[1]:0>3}" if asked else None

    home.server.add_rule(tell)
    said = [f"tell me story {number}" for number in range(1, 25)]
    with terminal(home) as chat:
        for number, text in enumerate(said, start=1):
            chat.say(text, f"END-{number:03d}")
        chat.leave()
    rows = home.stored()
    assert texts(rows, "user") == said
    assert [text[-7:] for text in texts(rows, "assistant")] == [
        f"END-{number:03d}" for number in range(1, 25)
    ]
    largest = max(request.tokens for request in home.server.requests if request.tools)
    quoted = 750
    assert largest <= 0.75 * window + answer + quoted + 200
    assert home.summaries()
    assert home.server.invalid == []
