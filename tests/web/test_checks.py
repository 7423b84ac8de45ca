"""Integrity checks: no page waits for one, and its findings come when it is done."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from lcm_plugin import Engine
from lcm_plugin.errors import StoreUnavailable

OWN = {"Origin": "http://127.0.0.1:8765"}
AGAIN = re.compile(r'hx-get="(/health/check\?check=\d+)"')


@contextmanager
def held(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Keeps every check from going on until the block ends; gives the sessions that are being checked."""
    goes_on, real, begun = threading.Event(), engine.check, []

    def check(session: Any = None) -> Any:
        begun.append(session)
        goes_on.wait()
        return real(session)

    monkeypatch.setattr(engine, "check", check)
    try:
        yield begun
    finally:
        goes_on.set()


def found(site: TestClient, path: str) -> str:
    """The page once its check is done, asked for again as the page itself does."""
    text = site.get(path).text
    while again := AGAIN.search(text):
        text = site.get(again[1]).text
    return text


def test_a_page_shows_what_a_check_found(site: TestClient) -> None:
    assert "All is whole" in found(site, "/health/check?session=1")
    assert "All is whole" in found(site, "/health/check")
    assert site.get("/health/check?session=99").status_code == 404
    assert site.get("/health/check?check=99").status_code == 404


def test_no_page_waits_for_a_check_and_the_same_is_checked_once(
    site: TestClient, filled: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(filled, monkeypatch) as begun:
        first = site.get("/health/check").text
        assert "Checking since" in first
        assert "All is whole" not in first
        second = site.get("/health/check").text
        assert AGAIN.findall(first) == AGAIN.findall(second)
        one = site.get("/health/check?session=1").text
        assert AGAIN.findall(one) != AGAIN.findall(first)
        assert "Checking since" in site.get(AGAIN.findall(one)[0]).text
        waiting = site.post("/api/integrity/run", json={"wait": False}, headers=OWN)
        assert waiting.status_code == 202
        assert waiting.json()["state"] == "running"
    assert len(begun) == 2
    assert "All is whole" in found(site, AGAIN.findall(first)[0])
    done = site.get(f"/api/integrity/{waiting.json()['check']}?mode=scan_and_plan").json()
    assert (done["state"], done["ok"], done["plan"]) == ("done", True, [])


def test_a_check_that_fails_says_why(
    site: TestClient, filled: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(session: Any = None) -> Any:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(filled, "check", check)
    assert "the disk is gone" in found(site, "/health/check")
    failed = site.post("/api/integrity/run", json={}, headers=OWN)
    assert failed.status_code == 503
    assert "the disk is gone" in failed.json()["error"]


def test_only_the_newest_checks_are_kept(
    filled: Engine, visit: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcm_plugin.web.checks._MOST_KEPT", 2)
    site = visit(filled)
    numbers = [site.post("/api/integrity/run", json={}, headers=OWN).json()["check"] for _ in range(3)]
    assert numbers == [1, 2, 3]
    assert [site.get(f"/api/integrity/{number}").status_code for number in numbers] == [404, 200, 200]
