"""Plays the corpus through a checkout of hermes-lcm and prints what it did, as JSON.

    PYTHON hermes_lcm.py CHECKOUT MESSAGES [QUESTIONS.jsonl]

QUESTIONS has one chat a line: {"messages": […], "questions": ["…"]}. PYTHON is an interpreter that has
Hermes Agent installed, since the peer's engine derives from its class. The host is the kindest there is:
it asks for the preflight before every request, which also stores, so that the peer meets each message in
time; a real Hermes stores only when it compacts. Summaries are returned at once, some 1,200 tokens each.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import sqlite3
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

# The module alone: this interpreter need not have what the package imports.
sys.path.insert(0, str(Path(__file__).parents[2] / "lcm_plugin" / "evaluation"))

import agent.auxiliary_client as auxiliary
from corpus import Corpus

WINDOW = 128_000
SUMMARY = " ".join(Corpus(1).sentences()[:70])


def load(checkout: Path) -> Any:
    """The checkout as a package."""
    spec = importlib.util.spec_from_file_location(
        "hermes_lcm_peer", checkout / "__init__.py", submodule_search_locations=[str(checkout)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return importlib.import_module("hermes_lcm_peer.engine")


def answer_at_once(**_: Any) -> Any:
    """What the auxiliary client of Hermes returns."""
    message = types.SimpleNamespace(content=SUMMARY)
    return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message)])


def new_engine(module: Any, folder: str, session: str) -> Any:
    engine = module.LCMEngine(hermes_home=folder)
    engine.on_session_start(session)
    engine.update_model("model", WINDOW)
    return engine


def play(module: Any, size: int) -> dict[str, Any]:
    """A session of many turns; the list is what the peer makes of it."""
    with tempfile.TemporaryDirectory() as folder:
        engine = new_engine(module, folder, "run")
        counting = importlib.import_module("hermes_lcm_peer.tokens")
        active: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent."}]
        sent = stored = content = largest = over = 0
        began = time.process_time()
        for turn in Corpus(1).turns():
            if sent >= size:
                break
            for message in turn:
                active.append(message)
                sent += 1
                content += len(json.dumps(message, ensure_ascii=False).encode())
                if message["role"] == "assistant":
                    continue
                if engine.should_compress_preflight(active):
                    active = engine.compress(active)
                tokens = counting.count_messages_tokens(active)
                largest, over = max(largest, tokens), over + (tokens > WINDOW)
        seconds = time.process_time() - began
        engine.should_compress_preflight(active)
        database = Path(folder) / "lcm.db"
        with sqlite3.connect(database) as reader:
            [[stored]] = reader.execute("SELECT count(*) FROM messages")
            reader.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return {
            "messages": sent,
            "rows": stored,
            "cpu_ms_per_message": 1000 * seconds / sent,
            "largest": largest,
            "over_window": over,
            "bytes_per_byte": os.path.getsize(database) / content,
        }


def recall(module: Any, path: str) -> list[list[list[str]]]:
    """For each chat and question of the file: the contents that ``lcm_grep`` shows, best first."""
    shown = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        chat = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            engine = new_engine(module, folder, "run")
            engine.should_compress_preflight([{"role": "system", "content": ""}, *chat["messages"]])
            rows = engine._store.get_session_messages("run", limit=100_000)
            contents = {row["store_id"]: row["content"] for row in rows}
            shown.append([_hits(engine, contents, question) for question in chat["questions"]])
    return shown


def _hits(engine: Any, contents: dict[int, str], question: str) -> list[str]:
    arguments = {"query": question, "limit": 10, "sort": "relevance"}
    answer = json.loads(engine.handle_tool_call("lcm_grep", arguments))
    return [contents[row["store_id"]] for row in answer["results"] if row["type"] == "message"]


def main() -> None:
    logging.disable(logging.WARNING)
    auxiliary.call_llm = answer_at_once
    module = load(Path(sys.argv[1]))
    result = {"play": play(module, int(sys.argv[2]))}
    if len(sys.argv) > 3:
        result["recall"] = recall(module, sys.argv[3])
    print(json.dumps(result))


if __name__ == "__main__":
    main()
