"""What a search looks for in place of a word that no row holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import assistant, user

from lcm_plugin import Engine, Session
from lcm_plugin.recall.weaker import is_one_edit

pytestmark = pytest.mark.both_stores

Grep = Callable[..., dict[str, Any]]
OTHERS = (
    "The kettle is on the table.",
    "Nobody saw the last train.",
    "请把灯关掉。",
    "Дождь идёт с утра.",
    "السماء صافية اليوم.",
)


@pytest.mark.parametrize(
    ("pattern", "text", "note"),
    [
        (
            "what did the zanzibra report say?",
            "The zanzibar report is late.",
            "one letter away were taken: zanzibar",
        ),
        ("depolyment", "The deployment went well.", "one letter away were taken: deployment"),
        ("1.74.4", "Tagged v1.74.4 today.", "longer ones that hold it"),
        ("-fix", "a fix for the pump", "its words were taken"),
        ("#pump", "a fix for the pump", "its words were taken"),
        ("Rechnungen", "Der Rechnungsdienst steht still.", "other forms were taken: rechnungsdienst"),
        (
            "Verbindungszeitgrenze",
            "Die Grenze der Verbindung ist erreicht.",
            "parts of it were taken: verbindung",
        ),
        ("静默模式是什么", "把静默模式打开", "pairs of its characters"),
        ("タイムアウトはいくつ", "検索のタイムアウトを30に変更", "pairs of its characters"),
        ("결제서비스에서는", "어제 결제 서비스를 바꿨습니다", "pairs of its characters"),
    ],
)
def test_a_word_that_nothing_holds_is_weakened_and_named(
    engine: Engine, session: Session, grep: Grep, pattern: str, text: str, note: str
) -> None:
    engine.ingest(session, [user(text), *map(user, OTHERS)])
    answer = grep(pattern)
    assert answer["hits"][0]["snippet"].replace("**", "") == text
    assert any(note in notice for notice in answer["notices"])


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("настройка службы", "Мы поменяли настройку для служб."),
        ("محرك بحث", "غيّرنا سرعة المحرك للبحث"),
        ("انذار", "حد الإنذار صار عشرة"),
    ],
)
def test_russian_and_arabic_words_stand_for_their_forms(
    engine: Engine, session: Session, grep: Grep, pattern: str, text: str
) -> None:
    engine.ingest(session, [*map(user, OTHERS), user(text)])
    answer = grep(pattern)
    assert answer["hits"][0]["snippet"].replace("**", "") == text
    assert "notices" not in answer


def test_a_word_that_rows_hold_is_not_weakened(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(session, [user("the heron sleeps"), user("the herons' hero came")])
    answer = grep("hero")
    assert [hit["id"] for hit in answer["hits"]] == ["msg_2"]
    assert "notices" not in answer


def test_a_phrase_behind_many_rows_with_its_words_is_found(
    engine: Engine, session: Session, grep: Grep
) -> None:
    engine.ingest(
        session, [user("the red lamp"), *(user(f"a lamp that is not red, {n}") for n in range(400))]
    )
    for pattern in ('"red lamp"', '"the red lamp"'):
        answer = grep(pattern)
        assert [hit["id"] for hit in answer["hits"]] == ["msg_1"]
        assert "notices" not in answer


def test_a_number_off_by_one_is_another_thing(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(session, [user("ticket EHGLP3 is open")])
    assert grep("EHGLP4")["hits"] == []


def test_a_weaker_match_stands_behind_a_real_one(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(session, [user("the zanzibar lamp"), user("the lamp of the pumproom"), user("a kettle")])
    found = grep("zanzibra lamp")["hits"]
    assert {hit["id"] for hit in found} == {"msg_1", "msg_2"}


def test_the_parts_of_a_name_in_code_are_words(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(session, [user("It reads checkoutRetryLimit from a file."), user("the limit of the day")])
    assert [hit["id"] for hit in grep("retry")["hits"]] == ["msg_1"]
    assert "notices" not in grep("retry")
    answer = grep("checkout retry limit")
    assert answer["hits"][0]["id"] == "msg_1"
    assert "**checkoutRetryLimit**" in answer["hits"][0]["snippet"]
    assert grep("checkoutRetryLimit")["hits"][0]["id"] == "msg_1"


def test_a_senders_name_finds_what_the_sender_wrote(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(
        session,
        [
            user("Keep the lamp where it is.", name="Nicolas Wren"),
            user("Move the lamp on Monday.", name="Ada"),
            *(user(f"filler {n}", name="Ada") for n in range(50)),
        ],
    )
    assert [hit["id"] for hit in grep("Nicolas")["hits"]] == ["msg_1"]
    assert grep("What does Nicolas think of moving the lamp?")["hits"][0]["id"] == "msg_1"
    assert [hit["id"] for hit in grep("lamp", sender="nicolas")["hits"]] == ["msg_1"]
    nobody = grep("lamp", sender="Bob")
    assert nobody["hits"] == []
    assert "nobody named 'Bob'" in nobody["notices"][0]


def test_pages_of_a_weakened_search_go_on(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(session, [user(f"zanzibar {n}") for n in range(25)] + [assistant("done")])
    first = grep("zanzibra")
    engine.ingest(session, [user("zanzibra is spelt wrong"), assistant("so it is")])
    second = grep("zanzibra", cursor=first["next_cursor"])
    ids = [hit["id"] for hit in first["hits"] + second["hits"]]
    assert len(set(ids)) == 20


WORDS = st.text("abc", min_size=1, max_size=6)


@given(WORDS, st.integers(0, 5), st.sampled_from("abcx"), st.sampled_from(("in", "out", "change", "swap")))
def test_one_edit_is_one_edit(word: str, at: int, letter: str, edit: str) -> None:
    at = min(at, len(word) - 1)
    edited = {
        "in": word[:at] + letter + word[at:],
        "out": word[:at] + word[at + 1 :],
        "change": word[:at] + letter + word[at + 1 :],
        "swap": word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
    }[edit]
    assert is_one_edit(word, edited) == (word != edited)
    assert is_one_edit(edited, word) == (word != edited)


def test_two_edits_are_not_one() -> None:
    assert not is_one_edit("heron", "hreno")
    assert not is_one_edit("heron", "herons!")
    assert not is_one_edit("heron", "heron")
