"""A compaction that somebody asked for with words keeps what concerns them in detail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from messages import assistant, user
from small_talk import text_of

from lcm_plugin import CompletionRequest, Engine, Session
from lcm_plugin.summarize.focus import Focus

SMALL: dict[str, Any] = {
    "fresh_tail_count": 2,
    "leaf_chunk_tokens": 2_000,
    "leaf_target_tokens": 200,
    "leaf_min_fanout": 2,
}
SAID = [
    "The migration of the billing tables runs on Sundays.",
    "Migrating back takes twenty minutes, she found.",
    "We migrate the archive last of all.",
]
Open = Callable[..., Engine]


def talk() -> list[dict[str, Any]]:
    """A long talk full of names and numbers, with three plain sentences about a migration between."""
    said: list[dict[str, Any]] = []
    for number in range(36):
        said.append(user(f"Please fix ticket PAY-{number}17 of Anna Kern. {text_of(25, number)}"))
        said.append(assistant(f"Done: order {number}9341 shipped to Oslo. {text_of(25, 100 + number)}"))
        if number % 12 == 5:
            said.append(user(SAID[number // 12]))
            said.append(assistant("Noted."))
    return said


def summaries(engine: Engine, session: Session) -> str:
    return "\n".join(
        str(one["content"])
        for one in engine.assemble(session, 100_000).messages
        if "<summary" in str(one["content"])
    )


def kept(engine: Engine, session: Session) -> int:
    text = summaries(engine, session)
    assert text
    return sum(sentence in text for sentence in SAID)


def test_extraction_keeps_every_sentence_that_has_the_words_in_any_form(
    open_engine: Open, session: Session
) -> None:
    plain, focused = open_engine("plain", **SMALL), open_engine("focused", **SMALL)
    for engine in (plain, focused):
        engine.ingest(session, talk())
    plain.compact(session, force=True, budget=8_000)
    focused.compact(session, force=True, budget=8_000, focus="database migrations")
    assert kept(plain, session) < 3
    assert kept(focused, session) == 3
    sizes = [plain.count_tokens(summaries(plain, session)), focused.count_tokens(summaries(focused, session))]
    assert abs(sizes[0] - sizes[1]) < 0.1 * sizes[0]


def test_models_are_asked_for_it_and_only_when_somebody_did(open_engine: Open, session: Session) -> None:
    asked: list[str] = []

    def complete(request: CompletionRequest) -> str:
        asked.append(str(request.messages[-1]["content"]))
        return f"The tickets were fixed, {len(asked)} of them.\nExpand for details about: tickets"

    engine = open_engine(completer=complete, **SMALL)
    engine.ingest(session, talk())
    engine.compact(session, force=True, budget=8_000, focus="the  billing\ntables")
    assert asked
    assert all("in full detail" in text and "the billing tables" in text for text in asked)
    asked.clear()
    other = Session("agent:main:other")
    engine.ingest(other, talk())
    engine.compact(other, force=True, budget=8_000)
    assert asked
    assert not any("in full detail" in text for text in asked)


def test_the_command_takes_words_with_and_without_a_budget(open_engine: Open, session: Session) -> None:
    for name, said in (("words", "billing migrations"), ("both", "8,000 billing migrations")):
        engine = open_engine(name, **SMALL)
        engine.ingest(session, talk())
        assert engine.command(session, f"/lcm compact {said}").data["outcome"] == "done"
        assert kept(engine, session) == 3


@pytest.mark.parametrize(
    ("words", "text", "found"),
    [
        ("migrations", "It was migrated.", 1),
        ("the DB schema", "The schema of the table", 1),
        ("the db", "the db of it", 2),
        ("PAY-417", "ticket pay-417", 1),
        ("迁移", "数据库迁移完成", 1),
        ("", "anything", 0),
        ("schema", "a schedule of its own", 0),
    ],
)
def test_what_counts_as_a_word_of_the_focus(words: str, text: str, found: int) -> None:
    assert Focus(words).count(text) == found
