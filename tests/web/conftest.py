"""A site over a database with three sessions, and a browser's way of asking it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient
from three_sessions import SMALL, TOKEN, WHOLE, fill

from lcm_plugin import Engine
from lcm_plugin.web.app import create_app
from lcm_plugin.web.server import hosts_of
from lcm_plugin.web.site import Site


@pytest.fixture
def filled(open_engine: Callable[..., Engine]) -> Engine:
    engine = open_engine(**SMALL, **WHOLE)
    fill(engine)
    return engine


@pytest.fixture
def visit() -> Callable[..., TestClient]:
    """Opens a site as a browser that followed the address which the server printed."""

    def open_one(engine: Engine, *, write: bool = False, signed_in: bool = True) -> TestClient:
        app = create_app(Site(engine, TOKEN, write), hosts_of(8765))
        browser = TestClient(app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False)
        if signed_in:
            assert browser.get(f"/?token={TOKEN}").status_code == 200
        return browser

    return open_one


@pytest.fixture
def site(filled: Engine, visit: Callable[..., TestClient]) -> TestClient:
    return visit(filled)
