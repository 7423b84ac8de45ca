"""What axe, the checker of accessibility, finds in a page."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Page


def axe(page: Page) -> str:
    """What axe finds wrong with a page, as JSON."""
    source = Path(os.environ["LCM_TEST_AXE"]).read_text(encoding="utf-8")
    # In a world of its own: the page's policy lets no script in from outside.
    session = page.context.new_cdp_session(page)
    frame = session.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
    world = session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "axe"})[
        "executionContextId"
    ]
    session.send("Runtime.evaluate", {"expression": source, "contextId": world})
    answer = session.send(
        "Runtime.evaluate",
        {
            "expression": "axe.run().then((r) => JSON.stringify(r.violations.map((v) => "
            "[v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160))])))",
            "contextId": world,
            "awaitPromise": True,
        },
    )
    return str(answer["result"]["value"])
