"""The messaging gateway, with the host's own IRC adapter on a server of ours: people write, the bot answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from fakes.irc_server import IrcServer
from fakes.speech import turn
from hermes_gateway import gateway
from world import World, texts

Make = Callable[..., World]


@contextmanager
def messaging(world: World) -> Iterator[IrcServer]:
    """The gateway on IRC, when its bot has come."""
    with IrcServer() as irc:
        settings = {
            "IRC_SERVER": "127.0.0.1",
            "IRC_PORT": str(irc.port),
            "IRC_USE_TLS": "false",
            "IRC_NICKNAME": "hermes",
            "IRC_CHANNEL": "#talk",
            "IRC_ALLOW_ALL_USERS": "true",
        }
        with gateway(world, settings):
            irc.until_joined()
            yield irc


def said_in_lanes(world: World) -> dict[str, list[str]]:
    """What the users said, by the host's session id."""
    lanes = {c.session_key: texts(world.stored(c.session_key), "user") for c in world.conversations()}
    prefix = "agent:main:irc:"
    assert all(key.startswith(prefix) for key in lanes), lanes
    return {key.removeprefix(prefix): said for key, said in lanes.items()}


def test_people_who_write_at_once_are_kept_apart_and_the_killed_gateway_lost_nothing(world: Make) -> None:
    home = world()
    people = ["anna", "bert", "carl"]
    with messaging(home) as irc, ThreadPoolExecutor(len(people)) as pool:

        def talk(nick: str) -> None:
            for number in range(3):
                irc.say(nick, f"{nick} says {number}", f"Noted: {nick} says {number}")

        list(pool.map(talk, people))
        counted = irc.say("bert", "/lcm status", "conversation [0-9]+ with [0-9]+ messages")
    assert "with 6 messages" in counted
    assert sorted(said_in_lanes(home).values()) == [[f"{nick} says {n}" for n in range(3)] for nick in people]
    assert all(len(home.stored(c.session_key)) == 6 for c in home.conversations())
    shown = [str([m for m in request.messages if m["role"] != "system"]) for request in home.server.requests]
    assert {sum(f"{nick} says" in text for nick in people) for text in shown} == {1}
    assert home.server.invalid == []
    assert home.problems() == []


def test_new_resume_and_branch_each_end_in_the_right_lane(world: Make) -> None:
    home = world()
    with messaging(home) as irc:
        irc.say("anna", "hello one", "Noted: hello one")
        irc.say("anna", "/title first", "first")
        irc.say("anna", "/new", "/approve")
        # Its last line: what is said before it would interrupt the command.
        irc.say("anna", "/approve", "(?s)Session reset.*Tip:")
        irc.say("anna", "hello two", "Noted: hello two")
        irc.say("anna", "/resume first", "[Rr]esum")
        irc.say("anna", "hello again", "Noted: hello again")
        branched = irc.say("anna", "/branch side", "Branch: [0-9a-f_]+")
        irc.say("anna", "on the branch", "Noted: on the branch")
        irc.say("anna", "/resume first", "[Rr]esum")
        irc.say("anna", "back on the trunk", "Noted: back on the trunk")
    branch = re.findall(r"Branch: ([0-9a-f_]+)", branched)[0]
    trunk = re.findall(r"Original: ([0-9a-f_]+)", branched)[0]
    lanes = said_in_lanes(home)
    assert lanes.pop(branch) == ["hello one", "hello again", "on the branch"]
    assert lanes.pop(trunk) == ["hello one", "hello again", "back on the trunk"]
    assert list(lanes.values()) == [["hello two"]]
    assert home.server.invalid == []
    assert home.problems() == []


def test_compress_in_a_chat_makes_its_context_smaller_and_stores_nothing_twice(world: Make) -> None:
    home = world(lcm={"freshTailCount": 4, "leafChunkTokens": 2000})
    said = [turn(number, 400) for number in range(1, 13)]
    with messaging(home) as irc:
        for number, text in enumerate(said, start=1):
            irc.say("anna", text, f"Noted: Note {number:03d}")
        irc.say("anna", "/compress", "Compressed: [0-9]+ → [0-9]+ messages")
        irc.say("anna", "what now", "Noted: what now")
    asked = [request for request in home.server.requests if request.tools]
    assert asked[-1].prompt.endswith("what now")
    assert asked[-1].tokens < asked[-2].tokens
    assert list(said_in_lanes(home).values()) == [[*said, "what now"]]
    assert home.server.invalid == []
    assert home.problems() == []


def test_the_gateways_own_hygiene_compacts_through_a_helper_and_misfiles_nothing(world: Make) -> None:
    home = world(
        lcm={"freshTailCount": 4, "leafChunkTokens": 2000},
        host={"compression": {"hygiene_hard_message_limit": 16}},
    )
    said = [turn(number, 300) for number in range(1, 15)]
    with messaging(home) as irc:
        for number, text in enumerate(said, start=1):
            irc.say("anna", text, f"Noted: Note {number:03d}")
    assert "Session hygiene: compressed" in home.log
    assert list(said_in_lanes(home).values()) == [said]
    assert len(home.stored()) == 2 * len(said)
    assert home.server.invalid == []
    assert home.problems() == []
