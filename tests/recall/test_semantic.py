"""Closeness of meaning lifts what the words found, with the real model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from messages import assistant, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import ConfigError
from lcm_plugin.recall.semantic import PIECE_CHARS, Embedder, find_model, split

KEY = Session("agent:main:main")
TALK = [
    user("My daughter plays the cello in the school orchestra."),
    assistant("That is lovely, the cello has a warm sound."),
    user("We moved to a flat near the harbour last spring."),
    assistant("Living near the water must be pleasant."),
    user("The boiler broke again and the landlord ignores my calls."),
    assistant("Put your complaint in writing and keep a copy."),
]


@pytest.fixture
def talk(tmp_path: Path) -> Callable[..., Engine]:
    def open_one(**settings: object) -> Engine:
        engine = Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"), **settings))  # type: ignore[arg-type]
        engine.ingest(KEY, TALK)
        engine.recall.catch_up(lambda: False)
        return engine

    return open_one


def hits(engine: Engine, pattern: str, **more: object) -> list[str]:
    answer = engine.call_tool(KEY, "lcm_grep", {"pattern": pattern, "context": 0, **more})
    return [hit["id"] for hit in answer["hits"]]


def test_a_question_without_a_shared_word_finds_what_it_means(talk: Callable[..., Engine]) -> None:
    question = "Which musical instrument does the kid practise?"
    with talk() as engine:
        assert hits(engine, question) == []
    with talk(semantic_search=True) as engine:
        assert hits(engine, question, limit=2)[0] == "msg_1"


def test_rows_that_hold_the_words_stay_before_those_that_only_mean_the_same(
    talk: Callable[..., Engine],
) -> None:
    question = "What is said about the landlord and the boiler?"
    with talk() as engine:
        words = hits(engine, question)
    with talk(semantic_search=True) as engine:
        both = hits(engine, question)
    assert both[0] == words[0] == "msg_5"
    assert set(words) <= set(both)


def test_a_meaning_is_looked_for_within_the_filter(talk: Callable[..., Engine]) -> None:
    with talk(semantic_search=True) as engine:
        engine.ingest(Session("agent:main:other"), [user("Her violin lesson is on Friday.")])
        engine.recall.catch_up(lambda: False)
        question = "Which musical instrument does the kid practise?"
        found = hits(engine, question, roles=["assistant"])
        assert found[0] == "msg_2"
        assert set(found) <= {"msg_2", "msg_4", "msg_6"}
        assert "msg_7" not in hits(engine, question)


def test_search_by_words_alone_is_left_as_it_is(talk: Callable[..., Engine]) -> None:
    with talk(semantic_search=True) as engine:
        assert hits(engine, "harbour") == ["msg_3"]
        assert hits(engine, '"warm sound"') == ["msg_2"]


def test_switched_off_nothing_is_computed_or_stored(talk: Callable[..., Engine]) -> None:
    with talk() as engine, engine.store.read() as reader:
        assert reader.vector_model() is None


def test_turns_compute_vectors_on_a_thread(tmp_path: Path) -> None:
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"), semantic_search=True)) as engine:
        engine.ingest(KEY, TALK)
        engine.schedule_compaction(KEY, 8_000)
        assert engine.wait_idle(60)
        with engine.store.read() as reader:
            assert set(reader.vectors(range(1, 7))) == set(range(1, 7))


def test_a_missing_model_is_named_and_words_still_find(talk: Callable[..., Engine], tmp_path: Path) -> None:
    with talk(semantic_search=True, semantic_model_dir=str(tmp_path / "none")) as engine:
        answer = engine.call_tool(KEY, "lcm_grep", {"pattern": "harbour"})
        assert [hit["id"] for hit in answer["hits"]] == ["msg_3"]
        assert any("semanticModelDir" in notice and "model.onnx" in notice for notice in answer["notices"])


def test_another_folder_with_the_same_files_is_another_model(tmp_path: Path) -> None:
    files = find_model()
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "model.onnx").symlink_to(files.model)
    (folder / "tokenizer.json").symlink_to(files.tokenizer)
    assert find_model(folder).name == "mine"
    with pytest.raises(ConfigError, match="there is no file"):
        find_model(tmp_path)


def test_a_long_text_is_found_by_any_part_of_it() -> None:
    embedder = Embedder(find_model())
    filler = "The quarterly report lists the usual figures for every branch office. " * 15
    long = filler + "Grandmother's apple pie needs cinnamon. " + filler
    asked = embedder.question("How do I bake a pie?")
    [(_, whole)] = asked.similarities([(1, embedder.embed([long])[0])])
    [(_, without)] = asked.similarities([(1, embedder.embed([filler])[0])])
    assert whole > without + 0.1
    assert embedder.embed(["", "  "]) == [b"", b""]


def test_pieces_hold_the_whole_text_and_end_between_words() -> None:
    text = " ".join(f"word{number}" for number in range(400))
    pieces = split(text)
    assert " ".join(pieces) == text
    assert all(len(piece) <= PIECE_CHARS for piece in pieces)
    assert split("x" * 2_000) == ["x" * 800, "x" * 800, "x" * 400]
