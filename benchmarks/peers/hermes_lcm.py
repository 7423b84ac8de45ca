"""Does the work of `peer_work.py` with a checkout of hermes-lcm or lcm-x and prints what came of it, as JSON.

    PYTHON hermes_lcm.py CHECKOUT WORK.json

PYTHON is an interpreter that has Hermes Agent installed, since the peer's engine derives from its class. The host is the
kindest there is: it asks for the preflight before every request, which also stores, so that the peer meets each message
in time; a real Hermes stores only when it compacts. Summaries are returned at once, some 1,200 tokens each.
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

import agent.auxiliary_client as auxiliary

FAULTS = {"summaries are empty": lambda: "", "the summary model fails": lambda: 1 / 0}


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


def summaries(write: Any) -> None:
    """Makes the auxiliary client of Hermes return what ``write`` returns."""

    def answer(**_: Any) -> Any:
        message = types.SimpleNamespace(content=write())
        return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message)])

    auxiliary.call_llm = answer


def new_engine(module: Any, folder: str, session: str, window: int) -> Any:
    engine = module.LCMEngine(hermes_home=folder)
    engine.on_session_start(session)
    engine.update_model("model", window)
    return engine


def request(engine: Any, active: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The list after the preflight."""
    return engine.compress(active) if engine.should_compress_preflight(active) else active


def play(module: Any, work: dict[str, Any]) -> dict[str, Any]:
    """A session of many turns; the list is what the peer makes of it. Then the canaries are asked for."""
    with tempfile.TemporaryDirectory() as folder:
        engine = new_engine(module, folder, "run", work["window"])
        counting = importlib.import_module("hermes_lcm_peer.tokens")
        active: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent."}]
        sent = stored = content = largest = 0
        began = time.process_time()
        for turn in work["turns"]:
            before = list(active)
            for message in turn["messages"]:
                active.append(message)
                sent += 1
                content += len(json.dumps(message, ensure_ascii=False).encode())
                if message["role"] == "assistant":
                    continue
                active = list(request(engine, active))
                largest = max(largest, counting.count_messages_tokens(active))
            if turn["taken_back"]:
                active = before
        seconds = time.process_time() - began
        engine.should_compress_preflight(active)
        database = Path(folder) / "lcm.db"
        with sqlite3.connect(database) as reader:
            [[stored]] = reader.execute("SELECT count(*) FROM messages")
            reader.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = os.path.getsize(database)
        return {
            "messages": sent,
            "rows": stored,
            "cpu_ms_per_message": 1000 * seconds / sent,
            "largest": largest,
            "bytes_per_byte": size / content,
            "seen": [look(engine, active, canary) for canary in work["canaries"]],
        }


def look(engine: Any, active: list[dict[str, Any]], canary: dict[str, Any]) -> list[Any]:
    """Where the right and the wrong words stand in the request of a question, and whether the search shows them."""
    asked = request(engine, [*active, {"role": "user", "content": canary["question"]}])
    text = "\n".join(str(message.get("content")) for message in asked)
    found = engine.handle_tool_call(
        "lcm_grep", {"query": canary["question"], "limit": 10, "sort": "relevance"}
    )
    words = (canary["right"], canary["wrong"])
    return [
        *(text.rfind(one) if one else -1 for one in words),
        *(bool(one) and one in found for one in words),
    ]


def odd(module: Any, work: dict[str, Any]) -> dict[str, Any]:
    """What is handed over after each odd input and a compaction, or the exception's text."""
    found: dict[str, Any] = {}
    for name, messages in work["odd"].items():
        summaries(FAULTS.get(name, lambda: work["summary"]))
        with tempfile.TemporaryDirectory() as folder:
            try:
                engine = new_engine(module, folder, "run", work["small_window"])
                active: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent."}]
                newest = {"role": "user", "content": work["newest"]}
                for message in (*messages, *work["filling"], newest):
                    active.append(message)
                    if message["role"] != "assistant":
                        active = list(request(engine, active))
                found[name] = active
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
                found[name] = f"{type(error).__name__}: {error}"
    return found


def recall(module: Any, work: dict[str, Any]) -> list[list[list[str]]]:
    """For each chat and question: the contents that ``lcm_grep`` shows, best first."""
    shown = []
    for chat in work["chats"]:
        with tempfile.TemporaryDirectory() as folder:
            engine = new_engine(module, folder, "run", work["window"])
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
    module = load(Path(sys.argv[1]))
    work = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    summaries(lambda: work["summary"])
    result = {"play": play(module, work), "recall": recall(module, work), "odd": odd(module, work)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
