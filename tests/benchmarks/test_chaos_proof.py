"""The proof of a chaos run sees what is lost, doubled, out of order, or was never said."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lcm_plugin import Engine, LcmConfig

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from chaos_host import Place
from chaos_proof import Proof, prove
from chaos_talk import Message, Talk, read_talk

SAID: list[Message] = [{"role": "user", "content": f"x{n}: water the lilies at dusk"} for n in range(6)]
ROOM = 15


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lcm.db"), tmp_path, "", ROOM + 1, 0.0)


@pytest.fixture
def stores(place: Place) -> Callable[..., None]:
    def store(number: int, *messages: Message) -> None:
        with Engine.open(LcmConfig(database=place.database)) as engine:
            engine.ingest(place.talk(number).session, messages, "all")

    return store


def test_a_talk_that_is_stored_as_it_was_said_passes(place: Place, stores: Callable[..., None]) -> None:
    talk = place.talk(0)
    talk.say(*SAID)
    talk.acknowledge(4)
    stores(0, *SAID[:5])
    assert prove(place) == Proof(acknowledged=4, stored=5)


def test_what_a_reset_cut_off_may_be_missing(place: Place, stores: Callable[..., None]) -> None:
    talk = place.talk(0)
    talk.say(*SAID[:3])
    talk.acknowledge(2)
    talk.ask_reset("new")
    talk.settle_reset(done=True)
    talk.say(*SAID[3:])
    talk.acknowledge(3)
    stores(0, *SAID[:2], *SAID[3:])
    assert prove(place).faults == []


@pytest.mark.parametrize(
    ("there", "lost", "doubled"),
    [
        (SAID[:3], 1, 0),
        ([*SAID[:2], SAID[3]], 1, 0),
        ([*SAID[:4], SAID[1]], 0, 1),
        ([SAID[1], SAID[0], *SAID[2:4]], 0, 0),
        ([*SAID[:4], {"role": "user", "content": "never said"}], 0, 1),
        ([{**SAID[0], "content": "x0: water the lilies at dawn"}, *SAID[1:4]], 1, 1),
    ],
)
def test_every_difference_is_a_fault(
    place: Place, stores: Callable[..., None], there: list[Message], lost: int, doubled: int
) -> None:
    talk = place.talk(0)
    talk.say(*SAID[:4])
    talk.acknowledge(4)
    stores(0, *there)
    proof = prove(place)
    assert len(proof.faults) == 1
    assert (proof.lost, proof.doubled) == (lost, doubled)


@pytest.mark.parametrize(
    ("there", "faults"),
    [
        ([SAID[0], SAID[3], SAID[1], SAID[4]], 0),
        ([SAID[0], SAID[3], SAID[1]], 1),
        ([SAID[1], SAID[3], SAID[0], SAID[4]], 1),
        ([SAID[0], SAID[3], SAID[1], SAID[4], SAID[3]], 1),
        ([SAID[0], SAID[3], SAID[1], SAID[4], SAID[5]], 1),
    ],
)
def test_in_a_room_each_process_has_its_own_order(
    place: Place, stores: Callable[..., None], there: list[Message], faults: int
) -> None:
    for name, messages in (("p1", SAID[0:2]), ("p2", SAID[3:5])):
        talk = Talk(place.folder / f"room-{ROOM}-{name}.jsonl", place.key(ROOM), "room")
        talk.say(*messages)
        talk.acknowledge(2)
    stores(ROOM, *there)
    assert len(prove(place).faults) == faults


def test_half_a_line_that_a_kill_left_in_a_journal_counts_for_nothing(place: Place) -> None:
    talk = place.talk(1)
    talk.say(*SAID[:2])
    with talk.path.open("ab") as journal:
        journal.write(b'{"stored": ')
    again = read_talk(talk.path, talk.key, talk.style)
    again.acknowledge(1)
    assert place.talk(1).run.messages == SAID[:2]
    assert place.talk(1).run.stored == 1
