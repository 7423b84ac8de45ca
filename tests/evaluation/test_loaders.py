"""Each data set is read in the layout that its authors publish."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from evaluation import layouts

from lcm_plugin.errors import InputError
from lcm_plugin.evaluation.loaders.files import data_hash
from lcm_plugin.evaluation.loaders.formats import FORMATS
from lcm_plugin.evaluation.loaders.oolong import score
from lcm_plugin.evaluation.records import Evidence, Talk


def load(name: str, path: Path | None) -> list[Talk]:
    return list(FORMATS[name](path, 1))


def test_a_locomo_chat_keeps_speakers_times_and_photos_and_its_judged_questions(tmp_path: Path) -> None:
    [talk] = load("locomo", layouts.locomo(tmp_path, 4))
    assert talk.messages[1] == {
        "role": "assistant",
        "content": f"{layouts.LONG.format(n=2).strip()} [photo: a boat]",
        "name": "Ben",
        "id": "c/D1:2",
        "created_at": "2023-05-08T13:56:00+00:00",
    }
    assert [(one.kind, one.places, one.answer) for one in talk.questions] == [
        ("one hop", {0}, "Ann's sister"),
        ("one hop", {2}, "marzipan"),
    ]
    assert talk.questions[0].evidence[0].text == talk.messages[0]["content"]


def test_a_realtalk_chat_has_a_time_for_each_message(tmp_path: Path) -> None:
    [talk] = load("realtalk", layouts.realtalk(tmp_path))
    assert [(row["role"], row["created_at"]) for row in talk.messages] == [
        ("user", "2023-12-29T15:04:05+00:00"),
        ("assistant", "2023-12-30T09:00:00+00:00"),
    ]
    assert talk.questions[0].evidence == (Evidence(0, "I moved to Lund"),)


def test_a_longmemeval_history_is_put_in_the_order_of_its_dates(tmp_path: Path) -> None:
    asked, unanswerable = load("longmemeval", layouts.longmemeval(tmp_path))
    assert [row["content"] for row in asked.messages] == [
        "My dog is called Rex.",
        "A good name.",
        "Later.",
        "Yes.",
    ]
    assert asked.questions[0].places == {0}
    assert asked.questions[0].when == "2023/05/30 (Tue) 10:00"
    assert unanswerable.questions[0].evidence == ()


@pytest.mark.parametrize("made", [layouts.beam_rows, layouts.beam_folder])
def test_a_beam_chat_is_read_from_rows_and_from_the_repository(
    tmp_path: Path, made: Callable[[Path], Path]
) -> None:
    [talk] = load("beam", made(tmp_path))
    assert [row["content"] for row in talk.messages] == [
        "The sprint ends on March 29.",
        "Noted.",
        "It now ends on April 2.",
    ]
    assert talk.messages[2]["created_at"] == "2024-03-20T00:00:00+00:00"
    assert 2 in talk.questions[0].places
    assert talk.questions[0].answer == "April 2"


def test_a_beam_question_without_an_answer_in_the_chat_has_no_evidence(tmp_path: Path) -> None:
    [talk] = load("beam", layouts.beam_rows(tmp_path))
    assert [(one.kind, one.places, one.rubric) for one in talk.questions] == [
        ("knowledge_update", {0, 2}, ("it says April 2",)),
        ("abstention", frozenset(), ("not said",)),
    ]


def test_tau_runs_become_one_talk_that_is_asked_for_its_identifiers(tmp_path: Path) -> None:
    [talk] = load("tau", layouts.tau(tmp_path))
    assert [row["role"] for row in talk.messages].count("system") == 1
    assert [(one.text, one.places) for one in talk.questions] == [
        ("What was ZFA04Y about?", {1}),
        ("What was QX77KM about?", {5}),
    ]
    assert talk.questions[0].evidence[0].text in talk.messages[1]["content"]


def test_an_oolong_text_is_given_once_for_all_its_questions(tmp_path: Path) -> None:
    [talk] = load("oolong", layouts.oolong(tmp_path))
    lines = [line for row in talk.messages if row["role"] == "user" for line in row["content"].splitlines()]
    assert len(lines) == 89
    assert [(one.answer, one.scoring) for one in talk.questions] == [("7", "oolong"), ("food", "oolong")]


@pytest.mark.parametrize(
    ("answer", "truth", "expected"),
    [
        ("Counting: 3, 4.\nAnswer: 12", "10", 0.5625),
        ("Answer: 10", "10", 1.0),
        ("I cannot say", "10", 0.0),
        ("Label: food", "food", 1.0),
        ("Label: foodstuff", "food", 0.0),
        ("", "food", 0.0),
    ],
)
def test_an_oolong_answer_is_scored_by_the_rule_of_the_data_set(
    answer: str, truth: str, expected: float
) -> None:
    assert score(answer, truth) == pytest.approx(expected)


def test_generated_talks_hold_each_fact_once_and_come_back_the_same() -> None:
    talks = load("generated", None)
    assert talks == load("generated", None)
    for talk in talks:
        for question in talk.questions:
            [one] = question.evidence
            holding = [row for row in talk.messages if one.text in str(row.get("content"))]
            assert holding == [talk.messages[one.place]]
            assert question.answer in one.text


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "generated"])
def test_a_file_of_another_shape_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    path = layouts.written(tmp_path / "other.json", [{"something": "else"}])
    with pytest.raises(InputError, match=r"(?i)other|is no|are no"):
        load(name, path)


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(json.dumps({"messages": []}) + "\n{", encoding="utf-8")
    with pytest.raises(InputError, match="line 2"):
        load("tau", path)


def test_the_hash_follows_every_byte_of_every_file(tmp_path: Path) -> None:
    layouts.realtalk(tmp_path)
    before = data_hash(tmp_path)
    assert data_hash(tmp_path) == before
    layouts.written(tmp_path / "Chat_2.json", {})
    assert data_hash(tmp_path) != before
