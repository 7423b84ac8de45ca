"""A search finds the same on SQLite and on PostgreSQL: the same rows in the same order, and the same totals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from messages import assistant, call, result, user
from postgres_server import EmptySchemas

from lcm_plugin import Engine, LcmConfig, Session

NOW = 1_780_000_000_000
HOUR = 3_600_000
MAIN, LANE, OTHER = (Session(key) for key in ("agent:main:main", "agent:main:lane", "agent:other:main"))
_PLAIN = "lamp lamps river stone running ran the of connection timeout straße naïve café CAFÉ Łódź"
_SIGNS = "my-lamp x_y C++ foo.bar /etc/hosts error_code v1.2.3 user@example.org"
_WORDS = [*_PLAIN.split(), *_SIGNS.split(), "静默模式", "静默", "モード", "설정을"]
SEARCHES: list[dict[str, Any]] = [
    *(
        {"pattern": pattern}
        for pattern in (*_WORDS, "lamp river", '"red lamp"', '"lamp river"', "run", "cafe", "lodz")
    ),
    *(
        {"pattern": pattern}
        for pattern in ("what did the river do?", "静默 lamp", "absent", "amp", "sto", "e")
    ),
    *(
        {"pattern": pattern, "mode": "regex"}
        for pattern in (r"lamp\b", r"(?i)LAMP", r"ri\w+r|静默", r"x_y", r"\d\.\d")
    ),
    *(
        {"pattern": pattern, "mode": "regex"}
        for pattern in (r"^note", "%", "_", r"\\", "timeout.*(river|stone)", "設")
    ),
    *({"pattern": "lamp", "sort": sort} for sort in ("recency", "hybrid")),
    *({"pattern": "lamp", "roles": [role]} for role in ("user", "assistant", "tool")),
    {"pattern": "river", "tool_name": "look"},
    {"pattern": "river", "since": "30h", "before": "10h"},
    {"pattern": "river.*", "mode": "regex", "since": "30h", "before": "10h"},
    {"pattern": "river", "all_conversations": True},
    {"pattern": "riv", "mode": "regex", "all_conversations": True},
    {"pattern": "river", "scope": "both"},
    {"pattern": "river", "scope": "summaries"},
    {"pattern": "river", "conversation_id": 2, "all_conversations": True},
]


def _talk(seed: int, turns: int) -> list[dict[str, Any]]:
    rng = Random(seed)

    def text() -> str:
        return f"note {rng.randrange(50)}: " + " ".join(rng.choices(_WORDS, k=rng.randrange(3, 9)))

    talk: list[dict[str, Any]] = []
    for turn in range(turns):
        name = f"call-{seed}-{turn}"
        talk += [user(text()), call(name, text=text()), result(name, text()), assistant(text())]
    return talk


@pytest.fixture(scope="module")
def engines(
    tmp_path_factory: pytest.TempPathFactory, empty_schemas: EmptySchemas
) -> Iterator[tuple[Engine, Engine]]:
    """The same history in either store; a part of it is summarised."""
    now = [NOW]
    path: Path = tmp_path_factory.mktemp("equal") / "lcm.db"
    opened = []
    for database in (str(path), empty_schemas.empty("equal")):
        now[0] = NOW
        config = LcmConfig(database=database, fresh_tail_count=8, leaf_chunk_tokens=1_000)
        engine = Engine.open(config, clock=lambda: now[0])
        opened.append(engine)
        for session, seed, turns in ((MAIN, 1, 24), (LANE, 2, 6), (OTHER, 3, 6)):
            for message in _talk(seed, turns):
                engine.ingest(session, [message])
                now[0] += HOUR // 4
        assert engine.compact(MAIN, force=True, budget=4_000).compacted
    yield opened[0], opened[1]
    for engine in opened:
        engine.close()


def _pages(engine: Engine, arguments: dict[str, Any]) -> tuple[list[str], object]:
    """The hits of all pages, and the total of the first."""
    found: list[str] = []
    asked, total = {"limit": 15, "context": 0, **arguments}, None
    while True:
        answer = engine.call_tool(MAIN, "lcm_grep", asked)
        assert "error" not in answer, answer
        total = answer["total"] if total is None else total
        found += [hit["id"] for hit in answer["hits"]]
        if "next_cursor" not in answer:
            return found, total
        asked = {**asked, "cursor": answer["next_cursor"]}


@pytest.mark.long
@pytest.mark.parametrize("arguments", SEARCHES, ids=lambda given: " ".join(map(str, given.values())))
def test_both_stores_find_the_same(engines: tuple[Engine, Engine], arguments: dict[str, Any]) -> None:
    (one, one_total), (other, other_total) = (_pages(engine, arguments) for engine in engines)
    assert one == other
    assert one_total == other_total
