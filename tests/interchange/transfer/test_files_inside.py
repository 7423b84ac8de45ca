"""``largeFilesDir: db``: payloads inside the database, so that other processes and machines see them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.processes import run
from messages import user
from one_of_everything import LOG, LONG, PICTURE, open_engine, picture

# What another process, that shares nothing but the database, reads of it and adds to it.
_READER = """
import hashlib, sys
from lcm_plugin import Engine, LcmConfig, Session
with Engine.open(LcmConfig(database=sys.argv[1], large_files_dir=sys.argv[2], large_file_token_threshold=1_000)) as engine:
    session = Session("agent:main:long", "elsewhere")
    messages = engine.messages(session)
    engine.ingest(session, [{"role": "user", "content": messages[0]["content"].upper()}])
    print(hashlib.sha256(repr(messages).encode()).hexdigest())
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_another_process_reads_and_writes_files_inside_the_database(
    tmp_path: Path, new_schema: Callable[[], str], kind: str
) -> None:
    where = new_schema() if kind == "postgres" else str(tmp_path / "here" / "lcm.db")
    inside = "" if kind == "postgres" else "db"
    with open_engine(where, large_files_dir=inside) as engine:
        engine.ingest(LONG, [user(LOG), picture("What is this?")])
        before = engine.messages(LONG)
        assert before[0]["content"] == LOG
        assert PICTURE in before[1]["content"][1]["image_url"]["url"]
        done = run("-c", _READER, where, inside, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == hashlib.sha256(repr(before).encode()).hexdigest()
        assert engine.messages(LONG)[2]["content"] == LOG.upper()
        with engine.store.read() as reader:
            records = reader.files(1)
            assert {record.uri for record in records} == {"db:"}
            assert len(records) == 3
        assert engine.check().ok
    assert not list(tmp_path.rglob("lcm-files"))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_tool_reads_a_file_inside_the_database(
    tmp_path: Path, new_schema: Callable[[], str], kind: str
) -> None:
    where = new_schema() if kind == "postgres" else str(tmp_path / "lcm.db")
    with open_engine(where, large_files_dir="db") as engine:
        engine.ingest(LONG, [user(LOG)])
        with engine.store.read() as reader:
            [record] = reader.files(1)
        told = engine.call_tool(LONG, "lcm_describe", {"id": record.file_id})
        assert "2026-01-01 12:00:00 INFO request 0" in str(told)
