"""User messages that the host merged in another process: the store still has them one by one.

A process that dies before the model has answered leaves a user message without a reply. The next one
reads it from the host's own records, merged with what the user says then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_plugin.hosts.hermes.messages import FOLD
from lcm_plugin.ingest.identity import identity_of
from lcm_plugin.store.base import Reader
from lcm_plugin.store.records import MessageHead
from lcm_plugin.types import Session

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.library import Library

_MOST_BREAKS = 64


def stored_pieces(engine: Engine, session: Session, said: str) -> tuple[str, ...]:
    """What the user said one after the other, if the store has the first of it as a message; else ``said``.

    The rest is what follows that message in the store, or new if nothing does.
    """
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
        if conversation is None:
            return (said,)
        return _pieces(reader, engine.library, conversation.conversation_id, said)


def _pieces(reader: Reader, library: Library, conversation_id: int, said: str) -> tuple[str, ...]:
    beginnings = {identity_of({"role": "user", "content": text}): text for text in _beginnings(said)}
    found = reader.heads_with_identity(conversation_id, list(beginnings), limit=2 * _MOST_BREAKS)
    if any(beginnings[head.identity] == said for head in found):
        return (said,)
    for head in reversed(found):
        first = beginnings[head.identity]
        rest = _follow(reader, library, head, said[len(first + FOLD) :])
        if rest:
            return (first, *rest)
    return (said,)


def _beginnings(said: str) -> list[str]:
    """The text up to each of its paragraph breaks, and the whole."""
    pieces = said.split(FOLD)
    count = min(len(pieces), _MOST_BREAKS)
    return [*(FOLD.join(pieces[:index]) for index in range(1, count)), said]


def _follow(reader: Reader, library: Library, head: MessageHead, rest: str) -> tuple[str, ...]:
    """``rest`` as the messages behind a stored one; empty when those are others."""
    pieces: list[str] = []
    seq = head.seq
    while rows := reader.messages_at(head.conversation_id, [seq := seq + 1]):
        text = library.whole(rows[0]).get("content")
        if rows[0].head.role != "user" or not isinstance(text, str):
            return ()
        if rest == text:
            return (*pieces, rest)
        if not rest.startswith(text + FOLD):
            return ()
        pieces.append(text)
        rest = rest[len(text + FOLD) :]
    return (*pieces, rest)
