"""What a person types: ``,lcm`` in a chat, ``bub lcm`` in a shell, and the chat itself in a terminal."""

from __future__ import annotations

from collections.abc import Callable

import pexpect
from bub_world import BIN, BubWorld, said

Make = Callable[..., BubWorld]


def test_lcm_in_a_chat_answers_for_that_chat(world: Make) -> None:
    home = world()
    home.talk("hello", session="cli:other")
    turns = (
        "the door code is 7261, mode=fast",
        ",lcm",
        ",lcm grep door code",
        ",lcm grep mode=fast",
        ",lcm nonsense",
    )
    (_, status, found, equals, unknown) = home.talk(*turns)
    assert "2 messages" in status
    assert str(home.database) in status
    assert "7261" in found
    assert "mode=fast" in equals
    assert "no command" in unknown
    (elsewhere,) = home.talk(",lcm grep door code", session="cli:other")
    assert "7261" not in elsewhere
    assert len(home.server.requests) == 2


def test_bub_lcm_in_a_shell_is_the_command_lcm_on_this_database(world: Make) -> None:
    home = world(lcm={"freshTailCount": 7})
    home.talk("the door code is 7261")
    (key,) = (conversation.session_key for conversation in home.conversations())
    assert "7261" in home.bub("lcm", "grep", "door code", "--in", key).stdout
    assert home.bub("lcm", "messages", "99").returncode == 3
    assert home.bub("lcm", "config", "get", "freshTailCount").stdout.strip() == "7"
    assert "Look at" in home.bub("--help").stdout


def test_the_agent_is_offered_the_skill_and_the_tools(world: Make) -> None:
    home = world()
    (_, skill) = home.talk("hello", ",skill name=lcm")
    request = home.server.requests[0]
    names = {"lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query"}
    assert names <= set(request.tools)
    assert "lcm" not in request.tools
    assert "- lcm: " in request.messages[0]["content"]
    assert "lcm_grep: find words" in request.messages[0]["content"]
    assert "summarised" in skill


def chat_in_terminal(home: BubWorld) -> pexpect.spawn[str]:
    return pexpect.spawn(
        str(BIN / "bub"),
        ["chat"],
        env={**home.environment, "TERM": "xterm"},
        cwd=str(home.workspace),
        encoding="utf-8",
        dimensions=(40, 160),
        timeout=60,
    )


def test_a_chat_in_a_terminal(world: Make) -> None:
    home = world()
    home.server.enqueue("the cellar is dry", "so is the tower")
    with chat_in_terminal(home) as chat:
        for line, answer in (
            ("is the cellar dry?", "the cellar is dry"),
            ("and the tower?", "so is the tower"),
            (",lcm", "4 messages"),
        ):
            chat.expect("work >")
            chat.send(f"{line}\r")
            chat.expect(answer)
        chat.expect("work >")
        chat.send(",quit\r")
        chat.expect(pexpect.EOF)
    (conversation,) = home.conversations()
    rows = home.stored(conversation.session_key)
    assert said(rows) == ["is the cellar dry?", "the cellar is dry", "and the tower?", "so is the tower"]


def test_a_chat_whose_store_fails_shows_the_warning_and_goes_on(world: Make) -> None:
    home = world(lcm={"database": "/proc/no/such/lcm.db"})
    home.server.enqueue("the cellar is dry")
    with chat_in_terminal(home) as chat:
        chat.expect("work >")
        chat.send("is the cellar dry?\r")
        chat.expect("LCM is not working: [^\n]*/proc/no/such")
        chat.expect("the cellar is dry")
        chat.expect("work >")
        chat.send(",quit\r")
        chat.expect(pexpect.EOF)
