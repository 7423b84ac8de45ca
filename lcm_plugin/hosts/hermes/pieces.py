"""Messages that the host merged in another process, told apart by what the host and the store have.

A process that dies before the model has answered leaves a user message without a reply. The next one
reads it from the host's own records, merged with what the user says then. The records keep the two apart,
also when the first process died before it told of the message; the store does when it was told.

Requests of one session that are answered at the same time leave several replies in a row, which are merged
for the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lcm_plugin.hosts.hermes.messages import FOLD, REPLY_FOLD, said_and_called, words_of
from lcm_plugin.messages.identity import identity_of
from lcm_plugin.types import Message, Session

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.sessions.library import Library
    from lcm_plugin.store.protocol import Reader
    from lcm_plugin.store.records import MessageHead

_MOST_BREAKS = 64
_LAST = float("inf")

Recorded = Callable[[], Sequence[Any]]


def pieces_of(engine: Engine, session: Session, said: str, recorded: Recorded) -> tuple[str, ...]:
    """What the user said one after the other, if the store does not know ``said`` as one message.

    ``recorded`` gives the host's own records of the session, unmerged; they are asked before the pieces
    in the store, since they also have those that nobody told us of. One record can be several messages:
    a compaction, which begins with storing all of the list, makes neighbours one.
    """
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
        of = conversation.conversation_id if conversation else None
        if of is not None and _is_stored(reader, of, said):
            return (said,)
        pieces = recorded_pieces(recorded(), said)
        if of is None:
            return pieces or (said,)
        if not pieces:
            return _stored_pieces(reader, engine.library, of, said, rest_is_new=True)
        return tuple(
            part
            for piece in pieces
            for part in _stored_pieces(reader, engine.library, of, piece, rest_is_new=False)
        )


def recorded_pieces(records: Sequence[Any], said: str) -> tuple[str, ...]:
    """``said`` as user messages that follow each other in the host's records; empty when it is not there.

    At their end the newest may be missing: the host shows a message before or after it writes it down.
    """
    for start in reversed(range(len(records))):
        pieces: list[str] = []
        rest = said
        for record in records[start:]:
            text = words_of(record)
            if text is not None and rest.strip() == text.strip():
                return (*pieces, rest)
            if not text or not rest.startswith(text + FOLD):
                break
            pieces.append(text)
            rest = rest[len(text + FOLD) :]
        else:
            return (*pieces, rest)
    return ()


def replies_of(engine: Engine, session: Session, reply: Message, recorded: Recorded) -> Sequence[Message]:
    """The model's messages that the host merged into ``reply``; none when the store knows it as one.

    They come in the store's order: of replies that came at the same time the host may have written down
    another one first.
    """
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
        of = conversation.conversation_id if conversation else None
        if of is not None and reader.heads_with_identity(of, [identity_of(reply)], limit=1):
            return ()
        replies = recorded_replies(recorded(), reply)
        if of is None or not replies:
            return replies
        identities = [identity_of(one) for one in replies]
        rows = reader.heads_with_identity(of, identities, limit=_MOST_BREAKS)
    seqs = {head.identity: head.seq for head in rows}
    return sorted(replies, key=lambda one: seqs.get(identity_of(one), _LAST))


def recorded_replies(records: Sequence[Any], reply: Message) -> Sequence[Message]:
    """The messages that follow each other in the host's records and are ``reply`` when they are merged."""
    wanted = said_and_called(reply)
    for start in reversed(range(len(records))):
        run: list[Message] = []
        for record in records[start:]:
            if not isinstance(record, dict) or record.get("role") != "assistant":
                break
            run.append(record)
            said, calls = zip(*map(said_and_called, run), strict=True)
            if len(run) > 1 and (REPLY_FOLD.join(filter(None, said)), sum(calls, ())) == wanted:
                return run
    return ()


def _stored_pieces(
    reader: Reader, library: Library, conversation_id: int, said: str, rest_is_new: bool
) -> tuple[str, ...]:
    """``said`` as user messages that follow each other in the store; what follows its end is one more, if any."""
    if _is_stored(reader, conversation_id, said):
        return (said,)
    beginnings = {_identity(text): text for text in _beginnings(said)}
    found = reader.heads_with_identity(conversation_id, list(beginnings), limit=2 * _MOST_BREAKS)
    for head in reversed(found):
        first = beginnings[head.identity]
        rest = _follow(reader, library, head, said[len(first + FOLD) :], rest_is_new)
        if rest:
            return (first, *rest)
    return (said,)


def _is_stored(reader: Reader, conversation_id: int, said: str) -> bool:
    return bool(reader.heads_with_identity(conversation_id, [_identity(said)], limit=1))


def _identity(text: str) -> int:
    return identity_of({"role": "user", "content": text})


def _beginnings(said: str) -> list[str]:
    """The text up to each of its paragraph breaks."""
    pieces = said.split(FOLD)
    return [FOLD.join(pieces[:index]) for index in range(1, min(len(pieces), _MOST_BREAKS))]


def _follow(
    reader: Reader, library: Library, head: MessageHead, rest: str, rest_is_new: bool
) -> tuple[str, ...]:
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
    return (*pieces, rest) if rest_is_new else ()
