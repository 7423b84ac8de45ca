"""The JSON API: reads, and the HTTP adapter of the LCM specification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient
from three_sessions import MAIN, SMALL, WHOLE, fill

from lcm_plugin import Engine

pytestmark = pytest.mark.both_stores
OWN = {"Origin": "http://127.0.0.1:8765"}
Visit = Callable[..., TestClient]


def data(site: TestClient, path: str) -> Any:
    answer = site.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def sent(site: TestClient, path: str, **body: Any) -> Any:
    answer = site.post(path, json=body, headers=OWN)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_sessions_have_names_sizes_and_facets(site: TestClient) -> None:
    found = data(site, "/api/sessions")
    assert found["total"] == 4
    by_key = {one["key"]: one for one in found["sessions"] if one["messages"]}
    main = by_key["agent:main:main"]
    assert (main["messages"], main["active"], main["health"]) == (66, True, "fine")
    assert main["title"] == "Where is the **zanzibar** file?"
    assert by_key["agent:main:old"]["ended"] == "manual-reset"
    assert {one["value"]: one["count"] for one in found["facets"]["state"]} == {"active": 3, "archived": 1}


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("text=lanterns", {"agent:main:old"}),
        ("text=MAIN+zanzibar", {"agent:main:main"}),
        ("state=archived", {"agent:main:old"}),
        ("health=failing", set()),
        ("project=/nowhere", set()),
    ],
)
def test_sessions_are_filtered(site: TestClient, query: str, keys: set[str]) -> None:
    assert {one["key"] for one in data(site, f"/api/sessions?{query}")["sessions"]} == keys


def test_sessions_are_sorted(site: TestClient) -> None:
    by_messages = [one["messages"] for one in data(site, "/api/sessions?sort=messages")["sessions"]]
    assert by_messages == sorted(by_messages, reverse=True)
    titles = [one["title"].casefold() for one in data(site, "/api/sessions?sort=title")["sessions"]]
    assert titles == sorted(titles)


def test_messages_come_in_stretches_with_the_leaves_that_cover_them(site: TestClient, filled: Engine) -> None:
    seen: list[str] = []
    after: int | None = 0
    leaves: dict[str, Any] = {}
    while after is not None:
        page = data(site, f"/api/sessions/1/messages?after={after}&limit=20")
        seen += [one["id"] for one in page["messages"]]
        leaves |= page["summaries"]
        assert {one["summary"] for one in page["messages"] if "summary" in one} == set(page["summaries"])
        after = page["next"]
    assert len(seen) == len(set(seen)) == len(filled.messages(MAIN))
    assert leaves
    assert all(one["depth"] == 0 for one in leaves.values())


def test_a_message_comes_as_it_came_in(site: TestClient) -> None:
    found = data(site, "/api/messages/msg_2")
    assert found["message"]["tool_calls"][0]["function"]["arguments"] == '{"path": "/srv/a.txt"}'
    assert found["blocks"][0]["kind"] == "call"
    assert found["summary"].startswith("sum_")


def test_a_summary_leads_to_its_sources_and_up(site: TestClient) -> None:
    top = next(
        one["id"] for one in data(site, "/api/sessions/1/context")["items"] if one["kind"] == "summary"
    )
    found = data(site, f"/api/summaries/{top}")
    assert [one["id"] for one in found["made_of"]] == found["sources"]
    below = found["sources"][0]
    if below.startswith("sum_"):
        assert data(site, f"/api/summaries/{below}")["above"] == [top]
    listed: list[str] = []
    after = ""
    while True:
        page = data(site, f"/api/sessions/1/summaries?limit=2&after={after}")
        listed += [one["id"] for one in page["summaries"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert top in listed
    assert len(listed) == len(set(listed))


def test_search_marks_hits_and_counts_facets(site: TestClient) -> None:
    found = data(site, "/api/search?q=zanzibar&scope=messages")
    assert {one["id"] for one in found["hits"]} == {"msg_1", "msg_4"}
    first = next(one for one in found["hits"] if one["id"] == "msg_1")
    assert ["zanzibar", True] in first["pieces"]
    assert "".join(text for text, _ in first["pieces"]) == "Where is the **zanzibar** file?"
    assert {one["value"] for one in found["facets"]["role"]} == {"user", "assistant"}
    only = data(site, "/api/search?q=zanzibar&role=user")
    assert {one["role"] for one in only["hits"]} == {"user"}
    assert data(site, "/api/search?q=lanterns&session=3")["hits"]
    assert data(site, "/api/search?q=two&tool=read_file")["hits"][0]["id"] == "msg_3"
    assert data(site, "/api/search?q=zanzibar&month=1999-01")["hits"] == []
    assert data(site, "/api/search?q=zan.ibar&regex=true")["hits"]


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/api/sessions?sort=colour", 400, "sort"),
        ("/api/sessions?nothing=1", 400, "nothing"),
        ("/api/sessions/99", 404, "99"),
        ("/api/sessions/1x", 404, "1x"),
        ("/api/messages/msg_99999", 404, "msg_99999"),
        ("/api/messages/42", 404, "message"),
        ("/api/summaries/sum_0000000000000000", 404, "sum_"),
        ("/api/search?q=(&regex=true", 400, "("),
        ("/api/search?q=x&month=2026-13", 400, "month"),
        ("/api/nowhere", 404, "page"),
    ],
)
def test_what_is_wrong_is_said(site: TestClient, path: str, status: int, told: str) -> None:
    answer = site.get(path)
    assert answer.status_code == status, answer.text
    assert told in answer.json()["error"]


def test_the_tools_of_the_specification_answer_over_http(site: TestClient) -> None:
    hits = sent(site, "/api/grep", pattern="zanzibar", session="agent:main:main")["hits"]
    assert hits
    described = sent(site, "/api/describe", id="msg_1")
    assert "zanzibar" in str(described)
    items = data(site, "/api/sessions/1/context")["items"]
    summary = next(one["id"] for one in items if one["kind"] == "summary")
    assert "items" in sent(site, "/api/expand", summary_ids=[summary], session="1")
    missing = site.post("/api/describe", json={"id": "msg_99999"}, headers=OWN)
    assert missing.status_code == 404
    wrong = site.post("/api/grep", json={"pattern": "x", "limit": 0}, headers=OWN)
    assert wrong.status_code == 400
    assert "limit" in wrong.json()["error"]


def test_integrity_runs_and_plans(site: TestClient) -> None:
    found = sent(site, "/api/integrity/run", session="agent:main:main", mode="scan_and_plan")
    assert (found["ok"], found["complete"], found["plan"]) == (True, True, [])
    assert sent(site, "/api/integrity/run")["checked"]


def test_compact_is_the_engines_call(open_engine: Callable[..., Engine], visit: Visit) -> None:
    engine = open_engine(**SMALL, **WHOLE)
    fill(engine)
    site = visit(engine, write=True)
    before = data(site, "/api/sessions/1")["context_tokens"]
    result = sent(site, "/api/compact", session="agent:main:main", force=True, budget=2_000)
    assert result["tokens_before"] == before
    assert data(site, "/api/sessions/1")["context_tokens"] == result["tokens_after"] <= before
