"""Closeness of meaning lifts what the words found, with the real model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import assistant, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import ConfigError
from lcm_plugin.recall.semantic.models import PIECE_CHARS, embedder_of, find_model, split
from lcm_plugin.recall.semantic.vectors import VectorCache, largest_cosines

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


@pytest.mark.long
def test_vectors_of_long_messages_take_bounded_memory() -> None:
    script = (
        "from pathlib import Path\n"
        "from lcm_plugin.recall.semantic.models import embedder_of\n"
        "embedder = embedder_of('minilm')\n"
        "for size in range(20, 120, 30):\n"
        "    embedder.embed(['x = 3; ' * (size + n) for n in range(16)])\n"
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
    )
    # Not ru_maxrss, which begins with what the process took that started this one.
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 500 * 1024


def test_a_long_text_is_found_by_any_part_of_it() -> None:
    embedder = embedder_of("minilm")
    filler = "The quarterly report lists the usual figures for every branch office. " * 15
    long = filler + "Grandmother's apple pie needs cinnamon. " + filler
    asked = embedder.question("How do I bake a pie?")
    _, [whole, without] = largest_cosines(list(enumerate(embedder.embed([long, filler]))), asked)
    assert whole > without + 0.1
    assert embedder.embed(["", "  "]) == [b"", b""]


def test_the_other_model_finds_across_languages(talk: Callable[..., Engine]) -> None:
    with talk(semantic_search=True, semantic_model="multilingual-e5") as engine:
        assert hits(engine, "Welches Musikinstrument lernt das Kind?", limit=2)[0] == "msg_1"
        with engine.store.read() as reader:
            assert reader.vector_model() == "multilingual-e5-small-q4"


def test_a_model_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcm_plugin.recall.semantic.models.find_spec", lambda name: None)
    for model, extra in (("multilingual-e5", r"\[semantic-multilingual\]"), ("minilm", r"\[semantic\]")):
        with pytest.raises(ConfigError, match=extra):
            embedder_of(model)  # type: ignore[arg-type]


def test_a_question_word_for_word_is_no_answer_to_itself(talk: Callable[..., Engine]) -> None:
    question = "Which musical instrument does the kid practise?"
    with talk(semantic_search=True) as engine:
        engine.ingest(KEY, [user(f"The train to town {n} leaves at {n % 24} o'clock.") for n in range(40)])
        engine.ingest(KEY, [user(question), assistant("I do not know."), user("Never mind.")])
        engine.recall.catch_up(lambda: False)
        assert set(hits(engine, question)[:2]) == {"msg_1", "msg_2"}


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 12)), min_size=1, max_size=12))
def test_vectors_in_memory_are_those_that_are_stored(steps: list[tuple[bool, int]]) -> None:
    """Whatever is added, forgotten and stored again between questions, each answer is that of a fresh reading."""
    width, rng = 8, np.random.default_rng(1)
    asked = rng.random(width, dtype=np.float32)
    stored: dict[int, tuple[int, bytes]] = {}

    class Reader:
        def vector_model(self) -> str:
            return "mini"

        def vector_count(self) -> int:
            return len(stored)

        def vectors_after(self, after: int) -> Iterator[list[tuple[int, int, bytes]]]:
            yield from ([(one, *stored[one])] for one in sorted(stored) if one > after)

    cache = VectorCache()
    for adds, number in steps:
        if adds:
            pieces = rng.integers(-127, 128, (number % 3, width), dtype=np.int8)
            stored[number] = (number % 2, pieces.tobytes())
            cache.forget([number])
        else:
            stored.pop(number, None)
        for within in (None, [1]):
            found = cache.cosines(Reader(), asked, within)  # type: ignore[arg-type]
            assert found is not None
            kept = [(one, data) for one, (at, data) in stored.items() if within is None or at in within]
            ids, cosines = largest_cosines(sorted(kept), asked)
            assert dict(zip(*map(np.ndarray.tolist, found), strict=True)) == pytest.approx(
                dict(zip(ids.tolist(), cosines.tolist(), strict=True))
            )


def test_pieces_hold_the_whole_text_and_end_between_words() -> None:
    text = " ".join(f"word{number}" for number in range(400))
    pieces = split(text)
    assert " ".join(pieces) == text
    assert all(len(piece) <= PIECE_CHARS for piece in pieces)
    assert split("x" * 2_000) == ["x" * 800, "x" * 800, "x" * 400]
