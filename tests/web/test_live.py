"""What changes while a page is open."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from messages import user
from three_sessions import MAIN, SMALL, WHOLE, fill

from lcm_plugin import Engine
from lcm_plugin.web.live import Watch

pytestmark = pytest.mark.both_stores


def test_only_what_changed_is_named(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(**SMALL, **WHOLE)
    fill(engine)
    watch = Watch(engine)
    assert watch.look() == []
    engine.ingest(MAIN, [user("one more")])
    (changed,) = watch.look()
    assert (changed["number"], changed["last"], changed["compacting"]) == (1, 67, False)
    assert json.dumps(changed)
    assert watch.look() == []


def test_compaction_by_another_process_is_seen_to_begin_and_end(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(**SMALL, **WHOLE)
    fill(engine)
    watch = Watch(engine)
    with engine.store.write() as writer:
        now = engine.clock()
        writer.request_compaction(1, "manual", None, now)
        assert writer.claim_debt(1, "somebody", now, 60_000)
    assert [one["compacting"] for one in watch.look()] == [True]
    with engine.store.write() as writer:
        writer.settle_debt(1, "somebody", "done", engine.clock())
    assert [one["compacting"] for one in watch.look()] == [False]


def test_summaries_are_billed_by_model_and_level(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(**SMALL, **WHOLE)
    fill(engine)
    with engine.store.read() as reader:
        of_one, of_all, of_none = (reader.summary_bill(number) for number in (1, None, 2))
        counts = reader.summary_counts(1)
        used = [row.conversation_id for row in reader.conversations_used_since(0, limit=2)]
    assert of_one == of_all
    assert of_none == []
    assert sum(line.count for line in of_all) == sum(counts.values())
    assert all(line.read > line.written > 0 for line in of_all)
    assert len(used) == 2
