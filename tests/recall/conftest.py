"""Short ways to search in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lcm_plugin import Engine, Session


@pytest.fixture
def grep(engine: Engine, session: Session) -> Callable[..., dict[str, Any]]:
    """Calls ``lcm_grep`` in the test's session."""

    def run(pattern: str, **arguments: Any) -> dict[str, Any]:
        return engine.call_tool(session, "lcm_grep", {"pattern": pattern, **arguments})

    return run
