"""A provider for the Agent Memory Benchmark harness (`memory_bench`), which compares memories of agents.

Its registry takes classes with ``prepare``, ``ingest(documents)`` and ``retrieve(query, k, user_id)``:

    from memory_bench.memory import REGISTRY
    REGISTRY["lcm"] = LcmMemoryProvider

A document becomes messages of its user's session: its ``messages``, the turns of a JSON list, or its paragraphs. What is
retrieved are documents with the messages found and those beside them, word for word. No model is called.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

from lcm_plugin.config import LcmConfig
from lcm_plugin.engine import Engine
from lcm_plugin.errors import InputError
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.types import Message, Session

_ROLES = ("user", "assistant")
_BESIDE = 1


class LcmMemoryProvider:
    """One database for a run, one session for each user of the data set. Thread-safe."""

    name = "lcm"
    description = (
        "Lossless Context Management: every message word for word in SQLite, found by full-text search."
    )
    kind = "local"
    provider: str | None = None
    variant: str | None = None
    link: str | None = None
    logo: str | None = None
    concurrency = 4

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._documents: dict[str, Any] = {}
        self._lines: dict[str, str] = {}

    def initialize(self) -> None:
        """Nothing is needed before `prepare`."""

    def prepare(self, store_dir: Path, unit_ids: set[str] | None = None, reset: bool = True) -> None:
        """Opens the database in a folder; an empty one with ``reset``."""
        self.cleanup()
        folder = Path(store_dir) / "lcm"
        if reset and folder.exists():
            rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._engine = Engine.open(LcmConfig(database=str(folder / "lcm.db")))

    def cleanup(self) -> None:
        """Closes the database."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def ingest(self, documents: Sequence[Any]) -> None:
        """Stores documents (``id, content, user_id, messages, timestamp``) in their order."""
        engine = self._opened()
        for document in documents:
            session, messages = _session(document.user_id), messages_of(document)
            if not messages:
                continue
            stored = engine.ingest(session, messages, "all").stored
            for row in engine.record.newest(session, stored):
                self._documents[row.head.ref] = document
                self._lines[row.head.ref] = _line(document, engine.record.whole(row))

    async def async_ingest(self, documents: Sequence[Any]) -> None:
        """The same from an event loop."""
        await asyncio.to_thread(self.ingest, documents)

    def retrieve(
        self, query: str, k: int = 10, user_id: str | None = None, query_timestamp: str | None = None
    ) -> tuple[list[Any], dict[str, Any] | None]:
        """The ``k`` best messages as documents, best first, and the answer of ``lcm_grep``."""
        arguments = {"pattern": query, "limit": k, "context": _BESIDE}
        answer = self._opened().call_tool(_session(user_id), "lcm_grep", arguments)
        found = []
        for hit in answer.get("hits", ()):
            if (document := self._documents.get(hit["id"])) is None:
                continue
            ids = [beside["id"] for beside in hit.get("before", ())]
            ids += [hit["id"], *(beside["id"] for beside in hit.get("after", ()))]
            content = "\n".join(self._lines[one] for one in ids if one in self._lines)
            found.append(replace(document, content=content, messages=None))
        return found, answer

    async def async_retrieve(
        self, query: str, k: int = 10, user_id: str | None = None, query_timestamp: str | None = None
    ) -> tuple[list[Any], dict[str, Any] | None]:
        """The same from an event loop."""
        return await asyncio.to_thread(self.retrieve, query, k, user_id, query_timestamp)

    def retrieve_by_steps(
        self,
        steps: Sequence[int],
        query: str,
        k: int = 10,
        user_id: str | None = None,
        query_timestamp: str | None = None,
    ) -> tuple[list[Any], dict[str, Any] | None]:
        """Steps are no unit of this memory: the same as `retrieve`."""
        return self.retrieve(query, k, user_id, query_timestamp)

    async def async_retrieve_by_steps(
        self,
        steps: Sequence[int],
        query: str,
        k: int = 10,
        user_id: str | None = None,
        query_timestamp: str | None = None,
    ) -> tuple[list[Any], dict[str, Any] | None]:
        """The same from an event loop."""
        return await self.async_retrieve(query, k, user_id, query_timestamp)

    def direct_answer(
        self, query: str, user_id: str | None = None, query_timestamp: str | None = None
    ) -> tuple[str, str, dict[str, Any] | None]:
        """This memory has no model of its own to answer with."""
        raise NotImplementedError("lcm retrieves; it does not answer by itself")

    async def async_direct_answer(
        self, query: str, user_id: str | None = None, query_timestamp: str | None = None
    ) -> tuple[str, str, dict[str, Any] | None]:
        """This memory has no model of its own to answer with."""
        return self.direct_answer(query, user_id, query_timestamp)

    def _opened(self) -> Engine:
        if self._engine is None:
            raise InputError("prepare() comes before ingest() and retrieve()")
        return self._engine


def messages_of(document: Any) -> list[Message]:
    """A document as messages, each with the document's time."""
    turns = document.messages
    if not turns:
        with suppress(ValueError):
            read = json.loads(document.content)
            turns = read if isinstance(read, list) and all(isinstance(one, dict) for one in read) else None
    if not turns:
        turns = [{"content": part} for part in document.content.split("\n\n") if part.strip()]
    time = {"created_at": document.timestamp} if document.timestamp else {}
    return [_message(turn) | time for turn in turns]


def _message(turn: dict[str, Any]) -> Message:
    """A turn of any data set: what it says under its usual names, and who says it."""
    said = turn.get("content") or turn.get("text") or turn.get("clean_text") or json.dumps(turn)
    role = turn.get("role")
    message: Message = {"role": role if role in _ROLES else "user", "content": said}
    if speaker := turn.get("name") or turn.get("speaker"):
        message["name"] = str(speaker)
    return message


def _session(user_id: str | None) -> Session:
    return Session(f"agent:board-{user_id or 'all'}:main")


def _line(document: Any, message: Message) -> str:
    when = f"[{document.timestamp}] " if document.timestamp else ""
    return f"{when}{message.get('name') or message['role']}: {text_of(message)}"
