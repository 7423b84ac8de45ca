"""Steering: each action is the engine's call, allowed with --write only, and recorded without any text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from small_talk import Model, turns
from starlette.testclient import TestClient
from three_sessions import MAIN, SMALL, WHOLE

from lcm_plugin import Engine
from lcm_plugin.store.insight.records import Action

OWN = {"Origin": "http://127.0.0.1:8765"}
Visit = Callable[..., TestClient]
Do = Callable[..., list[str]]


@pytest.fixture
def engine(open_engine: Callable[..., Engine]) -> Engine:
    engine = open_engine(completer=Model(), **SMALL, **WHOLE)
    engine.ingest(MAIN, turns(30))
    return engine


@pytest.fixture
def site(engine: Engine, visit: Visit) -> TestClient:
    return visit(engine, write=True)


@pytest.fixture
def do(site: TestClient) -> Do:
    def act(action: str, status: int = 200, **arguments: Any) -> list[str]:
        answer = site.post(f"/api/sessions/1/actions/{action}", json=arguments, headers=OWN)
        assert answer.status_code == status, answer.text
        return answer.json().get("lines") or [answer.json()["error"]]

    return act


def recorded(site: TestClient) -> list[tuple[str, str, str]]:
    found = site.get("/api/sessions/1/actions").json()["actions"]
    assert all(one["requested_by"] and one["created_at"] for one in found)
    return sorted((one["action"], one["about"], one["outcome"]) for one in found)


def test_a_preview_is_what_the_compaction_keeps(engine: Engine, do: Do, site: TestClient) -> None:
    before = engine.context_items(MAIN)
    head, text = do("preview", focus="the harbour")
    assert re.match(r"next: \d+ messages \(msg_1 to msg_\d+\)", head)
    assert engine.context_items(MAIN) == before
    do("compact", focus="the harbour")
    with engine.store.read() as reader:
        (first,) = reader.list_summaries(1, limit=1)
    assert first.content == text
    assert "summaries taken apart" in do("undo")[0]
    assert engine.context_items(MAIN) == before
    assert "nothing was undone" in do("undo")[0]
    assert [action for action, _, _ in recorded(site)] == ["compact", "preview", "undo", "undo"]


def test_pins_names_and_archiving(engine: Engine, do: Do, site: TestClient) -> None:
    do("pin", what="The door code is 4711")
    do("pin", what="msg_1")
    assert len(engine.pins(MAIN)) == 2
    do("unpin", what="msg_1")
    assert [pin.text for pin in engine.pins(MAIN)] == ["The door code is 4711"]
    do("rename", title="Harbour")
    assert site.get("/api/sessions/1").json()["title"] == "Harbour"
    do("archive")
    assert not site.get("/api/sessions/1").json()["active"]
    assert "4711" not in str(recorded(site))
    assert "Harbour" not in str(recorded(site))


def test_a_summary_is_written_again_by_the_model(engine: Engine, do: Do) -> None:
    do("compact")
    with engine.store.read() as reader:
        (before,) = reader.list_summaries(1, limit=1)
    assert "written again" in do("rewrite", summary=before.summary_id)[0]
    with engine.store.read() as reader:
        after = reader.summaries([before.summary_id])[before.summary_id]
    assert after.content != before.content
    do("rewrite", 404, summary="sum_0000000000000000")
    do("rewrite", 400, summary="msg_1")


TEXT = (
    "Notes on the harbour, a lantern, copper and the ferry, which a person put in better words: **Zanzibar**."
)


def test_a_summary_is_edited_on_its_page_and_the_models_text_comes_back(
    engine: Engine, do: Do, site: TestClient, visit: Visit
) -> None:
    do("compact")
    ref = next(item.id for item in engine.context_items(MAIN) if item.kind == "summary")
    with engine.store.read() as reader:
        before = reader.summaries([ref])[ref]
    page = f"/summary/{before.summary_id}"
    assert "Edit this summary" in site.get(page).text
    form = {"action": "edit", "version": "1"}
    refused = site.post(page, data={**form, "text": "Zanzibar, lantern."}, headers=OWN).text
    assert 'role="alert"' in refused
    assert "it is too short" in refused
    assert "Zanzibar, lantern.</textarea>" in refused, "what a person typed is not lost"
    done = site.post(page, data={**form, "text": TEXT}, headers=OWN).text
    assert "contexts hold it from the next one on" in done
    assert "<strong>Zanzibar</strong>" in done
    assert "written by a person" in done
    assert "Text 1" in done
    late = site.post(page, data={**form, "text": f"{TEXT} Late."}, headers=OWN).text
    assert "was changed meanwhile" in late
    data = site.get(f"/api/summaries/{before.summary_id}").json()
    assert (data["text"], data["level"]) == (TEXT, "person")
    assert [one["content"] for one in data["earlier"]] == [before.content]
    assert 'class="badge">edited' in site.get("/tree/1").text
    back = site.post(page, data={"action": "back", "to": "1", "version": "2"}, headers=OWN).text
    assert "Text 2" in back
    assert site.get(f"/api/summaries/{before.summary_id}").json()["text"] == before.content
    do("edit", summary=before.summary_id, text=TEXT)
    do("back", summary=before.summary_id)
    do("back", 404, summary=before.summary_id, to=9)
    do("edit", 404, summary="sum_0000000000000000", text=TEXT)
    assert site.post(page, data={"action": "archive"}, headers=OWN).status_code == 404
    ended = [(action, outcome) for action, _, outcome in recorded(site)]
    assert ended.count(("edit", "done")) == 2
    assert ended.count(("back", "done")) == 2
    assert ("edit", "failed: InputError") in ended
    assert ("edit", "failed: StoreConflict") in ended
    assert "Zanzibar" not in str(recorded(site))
    reading = visit(engine)
    assert "Edit this summary" not in reading.get(page).text
    assert "Text 1" in reading.get(page).text
    assert reading.post(page, data={**form, "text": TEXT}, headers=OWN).status_code == 403


def test_redaction_shows_its_plan_before_it_is_allowed(engine: Engine, do: Do, site: TestClient) -> None:
    engine.ingest(MAIN, [{"role": "user", "content": "the key is sk-1234567890"}])
    assert "the plan: 1 message" in do("redact", what="sk-[0-9]+")[0]
    assert "sk-1234567890" in str(engine.messages(MAIN))
    do("redact", 400, what="sk-[0-9]+", confirm="yes")
    do("redact", what="sk-[0-9]+", confirm="redact")
    assert "sk-1234567890" not in str(engine.messages(MAIN))
    assert "sk-" not in str(recorded(site))


def test_what_fails_is_recorded_too_and_what_is_wrong_is_said(do: Do, site: TestClient) -> None:
    assert "there is no pin" in do("unpin", 404, what="pin_00000000")[0]
    assert recorded(site) == [("unpin", "", "failed: NotFound")]
    assert "known are" in do("explode", 404)[0]
    assert "what" in do("pin", 400)[0]
    assert do("mend")


def test_without_write_nothing_of_it_is_there(engine: Engine, visit: Visit) -> None:
    reader = visit(engine)
    assert reader.get("/steer/1").status_code == 404
    assert "/steer/" not in reader.get("/talk/1").text
    for path in ("/steer/1/archive", "/api/sessions/1/actions/archive"):
        assert reader.post(path, json={}, headers=OWN).status_code == 403
    with engine.store.read() as rows:
        found = rows.conversation(1)
    assert found is not None
    assert found.active


def test_the_page_takes_forms_and_shows_what_was_done(engine: Engine, site: TestClient) -> None:
    assert "Nothing is pinned" in site.get("/steer/1").text
    text = site.post("/steer/1/pin", data={"what": "Never on a Friday"}, headers=OWN).text
    assert "is pinned" in text
    assert "Never on a Friday" in text
    wrong = site.post("/steer/1/unpin", data={"what": "pin_00000000"}, headers=OWN).text
    assert 'role="alert"' in wrong
    assert "failed: NotFound" in wrong


@pytest.mark.both_stores
def test_actions_are_kept_newest_first_on_both_stores(open_engine: Callable[..., Engine]) -> None:
    store = open_engine().store
    for number in range(1, 4):
        with store.write() as writer:
            writer.add_action(Action(f"act_{number}", number % 2, number, "ann", "pin", "pin_1", "done"))
    with store.read() as reader:
        assert [one.action_id for one in reader.actions(None, limit=2)] == ["act_3", "act_2"]
        assert [one.action_id for one in reader.actions(1, limit=9)] == ["act_3", "act_1"]
        assert reader.actions(7, limit=9) == []
