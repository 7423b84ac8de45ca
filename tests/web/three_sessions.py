"""What the site of these tests shows."""

from __future__ import annotations

from messages import assistant, call, result, user
from small_talk import turns

from lcm_plugin import Engine, Session

TOKEN = "a-token-of-this-test"
MAIN = Session("agent:main:main", "run-1")
HOSTILE = "</script><img src=x onerror=\"alert('run')\"><svg onload=alert(1)>{{ 7 * 7 }}"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SMALL = {
    "fresh_tail_count": 8,
    "leaf_chunk_tokens": 600,
    "leaf_target_tokens": 80,
    "condensed_target_tokens": 100,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
}
WHOLE = {"recall_scope": "all", "ignore_session_patterns": []}
"""The settings under which the command opens a database."""


def fill(engine: Engine) -> None:
    """Three sessions: one that was compacted, with a tool call; a hostile one; an archived one."""
    engine.ingest(
        MAIN, [user("Where is the **zanzibar** file?"), call("c1", "read_file", '{"path": "/srv/a.txt"}')]
    )
    engine.ingest(MAIN, [result("c1", "one\ntwo"), assistant("The zanzibar file has `two` lines.")])
    engine.ingest(MAIN, turns(30))
    engine.compact(MAIN, force=True, budget=3_000)
    engine.ingest(MAIN, [user("And now?"), assistant("# A heading\n\nNow [this](https://example.org).")])
    other = Session(f"agent:{HOSTILE}:x")
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    engine.ingest(other, [user([{"type": "text", "text": HOSTILE}, picture]), assistant(HOSTILE)])
    ended = Session("agent:main:old")
    engine.ingest(ended, [user("An old question about lanterns"), assistant("An old answer")])
    engine.reset_session(ended)
