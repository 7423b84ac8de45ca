"""Edits of summaries: a person's text takes the model's place, which is kept, and can be gone back to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from small_talk import Model, turns

from lcm_plugin import Engine, Session
from lcm_plugin.errors import InputError, NotFound, StoreConflict
from lcm_plugin.maintenance.redaction.targets import target_of
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.records import Summary
from lcm_plugin.types import CompletionRequest

pytestmark = pytest.mark.both_stores_under_ci

MAIN = Session("agent:main:main", "run-1")
SMALL = {
    "fresh_tail_count": 8,
    "leaf_chunk_tokens": 600,
    "leaf_target_tokens": 80,
    "condensed_target_tokens": 100,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
}
GOOD = (
    "They compared the copper lantern at the harbour with the timber bridge; the ferry to the orchard was cancelled and "
    "Zanzibar was chosen for the anchor instead. The gravel in the valley waits for the ledger."
)
Open = Callable[..., Engine]


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def engine(open_engine: Open, model: Model) -> Engine:
    engine = open_engine(completer=model, **SMALL)
    engine.ingest(MAIN, turns(40))
    engine.compact(MAIN, force=True, budget=3_000)
    return engine


def summaries(engine: Engine) -> list[Summary]:
    with engine.store.read() as reader:
        return reader.list_summaries(1, limit=100)


def leaf(engine: Engine) -> Summary:
    """The oldest leaf, from which a condensed summary was made."""
    return next(one for one in summaries(engine) if one.depth == 0)


def in_view(engine: Engine) -> Summary:
    """The first summary of the context."""
    (first, *_) = (item.id for item in engine.context_items(MAIN) if item.kind == "summary")
    return next(one for one in summaries(engine) if one.summary_id == first)


def shown(summary: Summary) -> int:
    """The tokens of a text inside its wrapper, but for the rest of the wrapper."""
    return TokenCounter().text(f">\n{summary.content}\n<")


def context(engine: Engine) -> str:
    return str(engine.assemble(MAIN, 3_000).messages)


@pytest.mark.both_stores
def test_a_persons_text_takes_the_models_place_and_both_are_known(engine: Engine, clock: Any) -> None:
    old = in_view(engine)
    with engine.store.read() as reader:
        before = reader.conversation(1)
    assert old.content.split(".")[0] in context(engine)
    clock.now += 5_000
    changed = engine.summary_texts.edit(old.summary_id, GOOD, "ann")
    assert GOOD in context(engine)
    assert old.content.split(".")[0] not in context(engine)
    now = in_view(engine)
    assert (now.content, now.level, now.model, now.made_ms) == (GOOD, "person", "", None)
    assert changed.summary == now
    with engine.store.read() as reader:
        (earlier,) = reader.earlier_texts(1, old.summary_id)
        assert reader.earlier_texts(1) == [earlier]
        (action,) = reader.actions(1, limit=9)
    assert (earlier.version, earlier.content, earlier.level) == (1, old.content, old.level)
    assert (earlier.replaced_by, earlier.replaced_at) == ("ann", clock.now)
    assert (action.action, action.about, action.requested_by) == ("edit", old.summary_id, "ann")
    hits = engine.call_tool(MAIN, "lcm_grep", {"pattern": "Zanzibar", "scope": "summaries"})["hits"]
    assert [hit["id"] for hit in hits] == [old.summary_id]
    with engine.store.read() as reader:
        after = reader.conversation(1)
    assert before is not None
    assert after is not None
    assert after.revision > before.revision, "a compaction that just reads the old text publishes nothing"
    assert engine.check().findings == ()

    back = engine.summary_texts.go_back(old.summary_id, "ben").summary
    assert (back.content, back.level, back.tokens) == (old.content, old.level, old.tokens)
    assert GOOD not in context(engine)
    assert engine.summary_texts.go_back(old.summary_id, "ben", to=2).summary.content == GOOD
    with engine.store.read() as reader:
        assert [one.content for one in reader.earlier_texts(1)] == [old.content, GOOD, old.content]
        assert {one.action for one in reader.actions(1, limit=9)} == {"edit", "back"}


WRONG = {
    "holds no word": " … \n",
    "too short": "Lantern talk.",
    "too long": "They spoke of the harbour and of things that happened there, one after the other. " * 3
    + " ".join(f"Point {number} concerns lantern {number}." for number in range(60)),
    "refusal": "I'm sorry, but I cannot summarise this conversation for you because it is against my guidelines.",
    "repeats itself": "the lantern is copper. " * 60,
    "in common": "Quarterly revenue exceeded forecasts across Scandinavian subsidiaries despite currency headwinds.",
}


@pytest.mark.parametrize("reason", WRONG)
def test_a_text_that_the_gate_refuses_changes_nothing_and_is_told_why(engine: Engine, reason: str) -> None:
    old = in_view(engine)
    with pytest.raises(InputError, match=rf"{reason}.*may have \d+ to \d+; this text has \d+"):
        engine.summary_texts.edit(old.summary_id, WRONG[reason], "ann")
    assert in_view(engine) == old
    with engine.store.read() as reader:
        assert reader.earlier_texts(1) == []
        assert reader.actions(1, limit=9) == []


def test_what_is_copied_from_the_source_is_no_summary(engine: Engine) -> None:
    old = leaf(engine)
    with engine.store.read() as reader:
        rows = reader.messages_by_id(reader.source_messages(old.summary_id))
    copied = " ".join(row.parts[0].text for row in list(rows.values())[:2])
    with pytest.raises(InputError, match="copied word for word"):
        engine.summary_texts.edit(old.summary_id, copied, "ann")


def test_what_is_not_there_or_was_changed_meanwhile_is_refused(engine: Engine) -> None:
    old = in_view(engine)
    texts = engine.summary_texts
    with pytest.raises(NotFound, match="no earlier text"):
        texts.go_back(old.summary_id, "ann")
    with pytest.raises(NotFound, match="there is no summary"):
        texts.edit("sum_0000000000000000", GOOD, "ann")
    with pytest.raises(NotFound, match="there is no summary"):
        texts.edit(old.summary_id, GOOD, "ann", among=[2])
    with pytest.raises(InputError, match="has already"):
        texts.edit(old.summary_id, old.content, "ann")
    texts.edit(old.summary_id, GOOD, "ann", version=1)
    with pytest.raises(StoreConflict, match="meanwhile"):
        texts.edit(old.summary_id, f"{GOOD} And more.", "ben", version=1)
    with pytest.raises(NotFound, match="no text 7; it has had 2 texts"):
        texts.go_back(old.summary_id, "ben", to=7)


def test_summaries_made_from_it_are_named_and_follow_in_their_sums(engine: Engine, model: Model) -> None:
    old = leaf(engine)
    with engine.store.read() as reader:
        (above,) = reader.derived_from(old.summary_id)
        before = reader.summaries([above])[above].source_tokens
    changed = engine.summary_texts.edit(old.summary_id, GOOD, "ann")
    assert changed.derived == (above,)
    with engine.store.read() as reader:
        after = reader.summaries([above])[above].source_tokens
    assert after - before == shown(changed.summary) - shown(old)
    engine.doctor.rewrite(1, above)
    assert any(GOOD in str(call.messages) for call in model.calls)


def test_a_model_writes_over_a_person_only_when_asked_for_that_summary(engine: Engine) -> None:
    below = leaf(engine)
    with engine.store.read() as reader:
        (above,) = reader.derived_from(below.summary_id)
    engine.summary_texts.edit(above, GOOD, "ann")
    assert engine.doctor.rewrite(1, below.summary_id).ids == {below.summary_id}
    with engine.store.read() as reader:
        assert reader.summaries([above])[above].content == GOOD
        (kept,) = reader.earlier_texts(1, below.summary_id)
    assert (kept.content, kept.replaced_by) == (below.content, "")
    engine.doctor.rewrite(1, above)
    with engine.store.read() as reader:
        assert reader.summaries([above])[above].level != "person"
        assert reader.earlier_texts(1, above)[-1].content == GOOD


def test_a_text_that_is_changed_while_the_model_writes_stays(open_engine: Open) -> None:
    model = Model()
    engine = open_engine(completer=lambda request: model(request), **SMALL)
    engine.ingest(MAIN, turns(20))
    engine.compact(MAIN, force=True)
    old = in_view(engine)

    def answer(request: CompletionRequest, number: int) -> str:
        engine.summary_texts.edit(old.summary_id, GOOD, "ann")
        return Model.answer(model, request, 99)

    model.answer = answer  # type: ignore[method-assign]
    assert engine.doctor.rewrite(1, old.summary_id).failed == 1
    assert in_view(engine).content == GOOD


@pytest.mark.both_stores
def test_redaction_reaches_earlier_texts(engine: Engine) -> None:
    old = in_view(engine)
    engine.summary_texts.edit(old.summary_id, GOOD, "ann")
    engine.summary_texts.go_back(old.summary_id, "ann")
    target = target_of(["Zanzibar"], literal=True)
    assert engine.redaction(engine.store).look(target).summaries == 1
    engine.redaction(engine.store).apply(target, "ann")
    with engine.store.read() as reader:
        texts = [one.content for one in reader.earlier_texts(1)]
    assert len(texts) == 2
    assert "Zanzibar" not in str(texts)


@pytest.mark.both_stores
def test_an_undo_that_would_delete_a_persons_text_is_refused(engine: Engine) -> None:
    with engine.store.read() as reader:
        assert engine.compaction.last.undoable(reader, 1)
    engine.summary_texts.edit(in_view(engine).summary_id, GOOD, "ann")
    assert "too late" in engine.undo_compaction(MAIN).refusal
    assert GOOD in context(engine)


def test_an_undone_new_keeps_the_edit(engine: Engine) -> None:
    engine.new_session(MAIN, retain_depth=0)
    old = in_view(engine)
    engine.summary_texts.edit(old.summary_id, GOOD, "ann")
    assert engine.undo_new(MAIN) > 0
    assert GOOD in context(engine)
    assert engine.check().findings == ()


@pytest.mark.both_stores
def test_the_bill_counts_each_text_of_a_model_with_its_time(engine: Engine) -> None:
    with engine.store.read() as reader:
        (before,) = reader.summary_bill(1)
    old = in_view(engine)
    assert old.made_ms is not None
    engine.doctor.rewrite(1, old.summary_id)
    engine.summary_texts.edit(old.summary_id, GOOD, "ann")
    with engine.store.read() as reader:
        (after,) = reader.summary_bill(1)
        assert reader.summary_bill(None) == [after]
    assert after.count == before.count + 1
    assert after.read == before.read + old.source_tokens
    assert after.made_ms >= before.made_ms


def test_a_chat_edits_its_own_summaries_only(engine: Engine) -> None:
    old = in_view(engine)
    assert "Edit what?" in engine.command(MAIN, "/lcm edit").text
    done = engine.command(MAIN, f"/lcm edit {old.summary_id} {GOOD}")
    assert done.ok, done.text
    assert in_view(engine).content == GOOD
    assert engine.command(MAIN, f"/lcm edit {old.summary_id} back").ok
    assert in_view(engine).content == old.content
    engine.ingest(Session("agent:other"), turns(1))
    refused = engine.command(Session("agent:other"), f"/lcm edit {old.summary_id} back")
    assert "there is no summary" in refused.text
