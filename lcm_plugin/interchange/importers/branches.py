"""Keeps the live branch of an edited chat in the context, and no other, from one import to the next.

Messages that a later import finds abandoned are taken back: their rows stay, marked, and out of contexts. Which ones it
took back is kept, so that those that are live again come back, and no others.
"""

from __future__ import annotations

from collections.abc import Iterable

from lcm_plugin.engine import Engine
from lcm_plugin.sessions.withdrawal import Withdrawals
from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.records import MessageHead

_IDS = "message_ids"


def abandoned_before(reader: Reader, conversation_id: int) -> set[int]:
    """The messages that imports took back and that did not come back since."""
    return set((reader.guard(_key(conversation_id)) or {}).get(_IDS, ()))


def take_back(
    engine: Engine, writer: Writer, conversation_id: int, heads: Iterable[MessageHead], now: int
) -> int:
    """Takes a branch's messages back; returns how many are new. Records beside the talk stay as they are."""
    talk = [head for head in heads if not head.hidden]
    ids = _withdrawals(engine).withdraw(writer, conversation_id, talk, now)
    if ids:
        _note(writer, conversation_id, abandoned_before(writer, conversation_id) | set(ids))
    return len(ids)


def bring_back(
    engine: Engine, writer: Writer, conversation_id: int, live: Iterable[MessageHead], now: int
) -> None:
    """Brings back those of the live branch's messages that imports took back."""
    known = abandoned_before(writer, conversation_id)
    heads = [head for head in live if head.message_id in known]
    if heads:
        _withdrawals(engine).bring_back(writer, conversation_id, heads, now)
        _note(writer, conversation_id, known - {head.message_id for head in heads})


def _withdrawals(engine: Engine) -> Withdrawals:
    return Withdrawals(engine.counter, engine.config.timezone)


def _note(writer: Writer, conversation_id: int, ids: set[int]) -> None:
    writer.save_guard(_key(conversation_id), {_IDS: sorted(ids)})


def _key(conversation_id: int) -> str:
    return f"abandoned:{conversation_id}"
