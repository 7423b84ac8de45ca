"""Whatever part of the history is indexed, a search finds what a plain look at every text finds."""

from __future__ import annotations

import re

import pytest
from databases import FreshDatabase
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import user

from lcm_plugin import Engine, LcmConfig, Session

pytestmark = pytest.mark.both_stores

SESSION = Session("agent:main:main")
WORDS = ("lamp", "river", "stone", "my-lamp", "静默", "静", "x_y", "café", "C++")
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
steps = st.lists(st.one_of(texts, st.integers(1, 4)), min_size=1, max_size=14)


@settings(
    deadline=None, max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(script=steps, word=st.sampled_from(WORDS))
def test_no_row_is_missed_and_none_is_made_up(
    fresh_database: FreshDatabase, script: list[str | int], word: str
) -> None:
    stored: list[str] = []
    with fresh_database() as database, Engine.open(LcmConfig(database=database)) as engine:
        for step in script:
            if isinstance(step, str):
                engine.ingest(SESSION, [user(step)])
                stored.append(step)
            else:
                with engine.store.write() as writer:
                    writer.index_pending(step)
        boundary = "" if word in ("静默", "静") else r"(?<!\w){}(?!\w)"
        pattern = re.compile(boundary.format(re.escape(word)) if boundary else word)
        expected = {f"msg_{n}" for n, text in enumerate(stored, 1) if pattern.search(text)}
        with Engine.open(engine.config, read_only=True) as frozen:
            for reader in (frozen, engine):
                for arguments in ({"pattern": word}, {"pattern": re.escape(word), "mode": "regex"}):
                    answer = reader.call_tool(SESSION, "lcm_grep", arguments | {"limit": 200, "context": 0})
                    found = {hit["id"] for hit in answer["hits"]}
                    if "mode" in arguments:
                        assert found == {f"msg_{n}" for n, text in enumerate(stored, 1) if word in text}
                    elif expected:
                        assert found >= expected
                        assert all(word.split("-")[0] in stored[int(ref[4:]) - 1] for ref in found)
