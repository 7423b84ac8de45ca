"""The chat program itself, in a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pexpect
from speech import turn
from world import BIN, World, texts

Make = Callable[..., World]

PROMPT_SECONDS = 60


class Terminal:
    """The interactive program at a terminal."""

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
            timeout=PROMPT_SECONDS,
        )
        self.child.expect("❯")

    def say(self, text: str, expect: str) -> str:
        """Types a line and waits for a text on the screen; what was seen until then comes back."""
        self.child.send(text + "\r")
        self.child.expect(expect)
        return str(self.child.before) + str(self.child.after)

    def leave(self) -> None:
        """Says goodbye and waits for the program's end."""
        self.child.send("/exit\r")
        self.child.expect(pexpect.EOF)
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
        assert "agent:main:cli:" in chat.say("/lcm status", "session")
        chat.say("/new", "1|2|3")
        chat.say("1", "New session started")
        chat.say("hello two", "Noted: hello two")
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
        chat.say("/new", "1|2|3")
        chat.say("1", "New session started")
        chat.leave()
    assert list(keys_and_texts(home).values()) == [["hello one", "Noted: hello one"]]


def test_resume_goes_on_in_the_old_lane(world: Make) -> None:
    home = world()
    with terminal(home) as chat:
        chat.say("hello one", "Noted: hello one")
        chat.say("/new", "1|2|3")
        chat.say("1", "New session started")
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


def test_compress_with_a_focus_and_undo(world: Make) -> None:
    home = world(lcm={"freshTailCount": 4, "leafChunkTokens": 2000})
    said = [turn(number, 300) for number in range(1, 13)]
    with terminal(home) as chat:
        for number, text in enumerate(said, start=1):
            chat.say(text, f"Noted: Note {number:03d} follows")
        chat.say("/undo", "ndo|emoved")
        seen = chat.say("/compress gardens", "✅|🗜|⚠|❌")
        assert "❌" not in seen
        assert "⚠" not in seen
        chat.say("what now", "Noted: what now")
        chat.leave()
    assert texts(home.stored(), "user") == [*said, "what now"]
    last = [r for r in home.server.requests if r.prompt.endswith("what now")][-1]
    assert not any(said[-1] in str(m.get("content")) for m in last.messages)
    assert home.server.invalid == []


def test_twenty_four_turns_in_a_large_window(world: Make) -> None:
    home = world(window=128_000)
    home.server.window = 128_000
    said = [turn(number, 700) for number in range(1, 25)]
    with terminal(home) as chat:
        for number, text in enumerate(said, start=1):
            chat.say(text, f"Noted: Note {number:03d} follows")
        chat.leave()
    assert texts(home.stored()) == [line for text in said for line in (text, f"Noted: {text[:80]}")]
    assert home.server.invalid == []
