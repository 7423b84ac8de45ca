"""Who may ask the server, and for what."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient
from three_sessions import TOKEN

from lcm_plugin import Engine

Visit = Callable[..., TestClient]


def test_nothing_is_shown_without_the_token(filled: Engine, visit: Visit) -> None:
    browser = visit(filled, signed_in=False)
    for path in ("/", "/talk/1", "/api/sessions", "/file/x", "/static/site.css", "/?token=wrong", "/nowhere"):
        answer = browser.get(path)
        assert answer.status_code == 401, path
        assert "zanzibar" not in answer.text
        assert "lcm web printed" in answer.text


def test_the_token_leaves_the_address_and_stays_in_a_cookie(filled: Engine, visit: Visit) -> None:
    browser = visit(filled, signed_in=False)
    first = browser.get(f"/talk/1?at=msg_1&token={TOKEN}", follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/talk/1?at=msg_1")
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert browser.get("/talk/1").status_code == 200


def test_programs_give_the_token_in_a_header(filled: Engine, visit: Visit) -> None:
    program = visit(filled, signed_in=False)
    good = {"Authorization": f"Bearer {TOKEN}"}
    assert program.get("/api/sessions", headers=good).status_code == 200
    assert program.get("/api/sessions", headers={"Authorization": "Bearer no"}).status_code == 401
    answer = program.post("/api/grep", headers=good, json={"pattern": "zanzibar"})
    assert answer.json()["hits"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:9", "evil.example:8765", ""])
def test_a_name_that_only_resolves_to_this_machine_is_refused(site: TestClient, host: str) -> None:
    assert site.get("/", headers={"Host": host}).status_code == 421


def test_pages_of_other_sites_are_refused(site: TestClient) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9"):
        assert site.get("/api/sessions", headers={"Origin": origin}).status_code == 403
        answer = site.post("/api/grep", headers={"Origin": origin}, json={"pattern": "zanzibar"})
        assert answer.status_code == 403


def test_a_cookie_alone_sends_nothing(site: TestClient) -> None:
    assert site.post("/api/grep", json={"pattern": "zanzibar"}).status_code == 403
    own = {"Origin": "http://127.0.0.1:8765"}
    assert site.post("/api/grep", headers=own, json={"pattern": "zanzibar"}).status_code == 200


def test_a_form_of_another_site_is_no_json(site: TestClient) -> None:
    own = {"Origin": "http://127.0.0.1:8765"}
    answer = site.post("/api/grep", headers=own, data={"pattern": "zanzibar"})
    assert answer.status_code == 400
    assert "application/json" in answer.json()["error"]


def test_reading_is_all_that_is_allowed_without_write(filled: Engine, visit: Visit) -> None:
    own = {"Origin": "http://127.0.0.1:8765"}
    body = {"session": "agent:main:main", "force": True}
    answer = visit(filled).post("/api/compact", headers=own, json=body)
    assert answer.status_code == 403
    assert "--write" in answer.text
    assert visit(filled, write=True).post("/api/compact", headers=own, json=body).status_code == 200


def test_a_body_is_of_a_known_and_bounded_length(site: TestClient) -> None:
    own = {"Origin": "http://127.0.0.1:8765", "Content-Type": "application/json"}
    assert site.post("/api/grep", headers=own, content=b"x" * 1_000_001).status_code == 413
    assert site.post("/api/grep", headers=own, content=iter([b"{}"])).status_code == 413


def test_every_answer_keeps_scripts_and_frames_out(site: TestClient) -> None:
    for path in ("/", "/api/sessions", "/static/site.css", "/nowhere", "/file/nowhere"):
        headers = site.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
