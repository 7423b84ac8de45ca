"""The page Context: what the next call is given, and why something is not in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from messages import assistant, user
from small_talk import turns
from starlette.testclient import TestClient
from three_sessions import MAIN, SMALL, WHOLE, fill

from lcm_plugin import Engine

Visit = Callable[..., TestClient]


@pytest.fixture
def site(open_engine: Callable[..., Engine], visit: Visit) -> TestClient:
    engine = open_engine(**SMALL, **WHOLE)
    engine.ingest(MAIN, [{"role": "system", "content": "Be exact."}])
    fill(engine)
    engine.pin(MAIN, "The door code is 4711")
    return visit(engine)


def call(site: TestClient, query: str = "") -> Any:
    answer = site.get(f"/api/sessions/1/next-call{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_layers_add_up_to_what_the_engine_assembles(site: TestClient, open_engine: Any) -> None:
    found = call(site)
    layers = {one["name"]: one["tokens"] for one in found["layers"]}
    assert set(layers) >= {"instructions", "pins", "summaries", "messages"}
    assert sum(layers.values()) == found["tokens"]
    assert found["tokens"] == open_engine(**SMALL, **WHOLE).assemble(MAIN).tokens
    assert 0 < found["cacheable"] <= found["bytes"]
    refs = [one["id"] for one in found["items"]]
    assert len(refs) == len(set(refs))
    assert found["items"][0]["layer"] == "instructions"


def test_a_summarised_message_leads_to_what_stands_for_it(site: TestClient) -> None:
    why = call(site, "?why=msg_2")["why"]
    assert not why["in_view"]
    assert "it was summarised" in why["why"]
    top = why["way"][-1]
    assert top in {one["id"] for one in call(site)["items"]}
    assert call(site, f"?why={top}")["why"]["in_view"]
    if len(why["way"]) > 1:
        assert "summarised" in call(site, f"?why={why['way'][0]}")["why"]["why"]


@pytest.mark.parametrize(
    ("ref", "in_view", "told"),
    [
        ("msg_66", True, "stands in the context"),
        ("msg_67", False, "the newest answer"),
        ("msg_70", False, "another session"),
        ("msg_9999", False, "there is no"),
        ("nonsense", False, "there is no"),
    ],
)
def test_every_id_has_an_answer(site: TestClient, ref: str, in_view: bool, told: str) -> None:
    why = call(site, f"?why={ref}")["why"]
    assert (why["in_view"], told in why["why"]) == (in_view, True), why


def test_what_was_taken_back_pruned_or_has_no_room_is_told_apart(
    open_engine: Callable[..., Engine], visit: Visit
) -> None:
    engine = open_engine(**WHOLE)
    told = [user("one"), assistant("two"), user("three"), assistant("four")]
    engine.ingest(MAIN, told, "whole")
    engine.ingest(MAIN, told[:2], "whole")
    site = visit(engine)
    assert "took it back" in call(site, "?why=msg_3")["why"]["why"]
    engine.new_session(MAIN, 0)
    engine.ingest(MAIN, [user("five")])
    assert "/new took it out" in call(site, "?why=msg_1")["why"]["why"]


def test_what_has_no_room_is_told(open_engine: Callable[..., Engine], visit: Visit) -> None:
    engine = open_engine(**WHOLE, max_assembly_token_budget=1_200)
    long = [*([user("word " * 900), assistant("ok")] * 6), user("and?")]
    engine.ingest(MAIN, long)
    found = call(visit(engine), "?why=msg_1")
    assert not found["why"]["in_view"]
    assert "no room" in found["why"]["why"]
    assert found["notices"]


def test_the_page_draws_the_bar_and_answers_why(site: TestClient) -> None:
    text = site.get("/context/1?why=msg_2").text
    assert re.search(r'<rect class="summaries" x="[\d.]+" y="0" width="[\d.]+"', text)
    assert "is not in view: it was summarised" in text
    assert "room" in text
    old = next(one["number"] for one in site.get("/api/sessions?state=archived").json()["sessions"])
    assert "This session is archived" in site.get(f"/context/{old}").text


def test_the_line_of_compaction_stands_behind_what_the_host_adds_itself(
    open_engine: Callable[..., Engine], visit: Visit
) -> None:
    engine = open_engine(**WHOLE, autocompact_disabled=True)
    engine.ingest(MAIN, [user("hello"), assistant("yes")])
    engine.schedule_compaction(MAIN, 40_000, overhead_tokens=30_000)
    site = visit(engine)
    found = call(site)
    assert found["soft"] < found["overhead"] == 30_000
    [line] = re.findall(r'<line x1="([\d.]+)" x2="([\d.]+)"', site.get("/context/1").text)
    assert [float(place) for place in line] == pytest.approx(
        [1000 * (30_000 + found["soft"]) / 40_000] * 2, abs=0.01
    )


def two_turns(engine: Engine) -> None:
    for text in ("What of the lantern?", "And the harbour?"):
        engine.ingest(MAIN, [user(text)])
        engine.assemble(MAIN, 3_000)
        engine.ingest(MAIN, [assistant("Noted.")])


def test_turns_are_listed_shown_and_compared(filled: Engine, visit: Visit) -> None:
    two_turns(filled)
    site = visit(filled)
    listed = site.get("/api/sessions/1/turns?limit=1").json()["turns"]
    assert [(one["turn"], one["text"]) for one in listed] == [(2, "And the harbour?")]
    turn = site.get("/api/sessions/1/turns/2?why=msg_2").json()
    assert turn["difference"]["from"] == 1
    assert turn["difference"]["same"]["tokens"] == listed[0]["same"]
    assert "it was summarised" in turn["why"]["why"]
    assert site.get("/api/sessions/1/turns/2?against=2").json()["difference"]["left"] == []
    page = site.get("/context/1?turn=2&why=msg_2").text
    assert "What turn 2 was given" in page
    assert "Since turn 1" in page
    assert "a provider may have them cached" in page
    assert "is not in view: it was summarised" in page
    assert page.count('aria-current="true"') == 1
    assert 'href="/context/1?turn=1"' in site.get("/context/1").text


def test_a_message_and_a_summary_lead_to_why_they_are_in_view_or_not(site: TestClient) -> None:
    top = call(site, "?why=msg_2")["why"]["way"][-1]
    for page, ref in (("/message/msg_2", "msg_2"), (f"/summary/{top}", top)):
        (link,) = re.findall(r'href="(/context/1\?why=[^"#]+)#why"', site.get(page).text)
        assert f'<a href="/at/{ref}">{ref}</a> is' in site.get(link).text


def test_a_turn_that_is_not_on_record_is_named(filled: Engine, visit: Visit) -> None:
    site = visit(filled)
    answer = site.get("/api/sessions/1/turns/9")
    assert (answer.status_code, "no call of this conversation" in answer.text) == (404, True)
    two_turns(filled)
    answer = site.get("/api/sessions/1/turns/9")
    assert (answer.status_code, "there are 1 to 2" in answer.text) == (404, True)
    assert site.get("/api/sessions/1/turns/x").status_code == 404


def test_an_archived_session_still_shows_its_turns(filled: Engine, visit: Visit) -> None:
    two_turns(filled)
    filled.reset_session(MAIN)
    site = visit(filled)
    assert "This session is archived" in site.get("/context/1").text
    assert "What turn 1 was given" in site.get("/context/1?turn=1").text


def test_instructions_are_counted_once_after_a_restart_too(
    open_engine: Callable[..., Engine], visit: Visit
) -> None:
    engine = open_engine(**SMALL, **WHOLE)
    engine.ingest(MAIN, [{"role": "system", "content": "Be exact. " * 40}])
    fill(engine)
    engine.ingest(MAIN, turns(30, start=100))
    assert engine.schedule_compaction(MAIN, 3_000, overhead_tokens=120, wait=False).due
    assert engine.wait_idle(60)
    engine.close()
    found = call(visit(open_engine(**SMALL, **WHOLE)))
    layers = {one["name"]: one["tokens"] for one in found["layers"]}
    assert layers["instructions"] > 80
    assert (found["budget"], found["overhead"]) == (3_000, 120)
    assert found["free"] + found["tokens"] + found["overhead"] <= found["budget"]
    assert found["owed_at"] == found["overhead"] + layers["instructions"] + found["soft"]
