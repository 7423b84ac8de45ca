"""What a caller may find: the conversations within reach, and one sentence for everything else.

A session's *family* is its active conversation and those before it that ended by themselves. A user's
``/reset``, or the deletion of a session, ends the family: what lies before it is reached only with
``all_conversations``, and then no further than the setting ``recallScope`` allows. Where the family holds nothing of
what is searched for, the families of the other sessions within that reach are searched too.

Ids come as people and models write them: bare, several at once, or copied with what stood round them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from lcm_plugin.errors import InputError, NotFound
from lcm_plugin.recall.tools import is_recall_tool
from lcm_plugin.sessions.kinds import find_conversation
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation, MessageHead
from lcm_plugin.store.search import SearchRow, Stretch
from lcm_plugin.store.session_keys import is_cron
from lcm_plugin.types import Session

Reach = Literal["session", "agent", "all"]

RefKind = Literal["summary", "file", "message"]
_KINDS: dict[str, RefKind] = {"sum": "summary", "file": "file", "msg": "message"}
_ID = re.compile(r"(?<![0-9A-Za-z_])(sum_[0-9a-f]{16}|file_[0-9a-f]{16}|msg_\d{1,18})(?![0-9A-Za-z_])")
_RANGE = re.compile(r"(?<![0-9A-Za-z_])msg_(\d{1,18})-msg_(\d{1,18})(?![0-9A-Za-z_])")
_COPIED_SUMMARY = re.compile(r'<summary\s[^>]*?id="(sum_[0-9a-f]{16})"')
_COPIED_FILE = re.compile(r"\[LCM File: (file_[0-9a-f]{16})\b")
MAX_RANGE = 200


@dataclass(frozen=True, slots=True)
class Grant:
    """What a delegate may do: its conversations, and the tokens that all its reads may return."""

    conversation_ids: frozenset[int]
    token_cap: int
    max_depth: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The conversations of one call. ``everything`` spares a filter when nothing lies outside."""

    conversation_ids: tuple[int, ...]
    everything: bool = False

    def __contains__(self, conversation_id: object) -> bool:
        return conversation_id in self.conversation_ids

    @property
    def filter_ids(self) -> tuple[int, ...] | None:
        """What a store filters by; None for no filter."""
        return None if self.everything else self.conversation_ids


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Messages that are no answer to a search: those of the running turn, and what earlier searches returned."""

    running: Stretch | None = None
    recall_answers: bool = True

    def __contains__(self, row: object) -> bool:
        if not isinstance(row, SearchRow) or not row.is_message:
            return False
        if self.recall_answers and is_recall_tool(row.tool_name):
            return True
        if self.running is None:
            return False
        conversation_id, first, last = self.running
        return row.conversation_id == conversation_id and first <= row.position <= last


def unanswered_request(reader: Reader, conversation_id: int | None) -> MessageHead | None:
    """The newest request of a conversation while the model has not answered it; None when it has."""
    asked = reader.newest_user(conversation_id) if conversation_id is not None else None
    if conversation_id is None or asked is None:
        return None
    after = [head for head in reader.heads_after(conversation_id, asked.seq) if not head.hidden]
    if after and after[-1].role == "assistant" and not after[-1].calls:
        return None
    return asked


def family(reader: Reader, session: Session) -> tuple[Conversation, ...]:
    """The conversations of a key from the newest back to the last reset; empty when it has none.

    A run of a cron lane is a family of its own.
    """
    session_key = session.key
    if session.id and is_cron(session_key):
        own = find_conversation(reader, session)
        return (own,) if own is not None else ()
    return tuple(reader.family(session_key))


def scope_of(
    reader: Reader,
    session: Session,
    reach: Reach,
    *,
    all_conversations: bool = False,
    conversation_id: int | None = None,
    grant: Grant | None = None,
    granted: frozenset[int] = frozenset(),
    is_hidden: Callable[[str], bool] = lambda session_key: False,
    with_others: bool = False,
) -> Scope:
    """The conversations that a call may look at; ``granted`` are those of a sub-agent's parent.

    ``with_others`` adds the families of other sessions to the session's own. Those of a session key that ``is_hidden``
    (ignored now) are in nobody's reach. An empty key (an unbound session) has none. Raises `NotFound` for a conversation
    out of reach, in the same words as for one that does not exist.
    """
    session_key = session.key
    if not session_key:
        allowed: set[int] = set()
    elif all_conversations or conversation_id is not None:
        keys = within_reach(reader, session_key, reach)
        allowed = {number for number, key in keys.items() if not is_hidden(key)}
    else:
        allowed = {conversation.conversation_id for conversation in family(reader, session)}
        if with_others:
            allowed |= {number for number, key in _others(reader, session_key, reach) if not is_hidden(key)}
    allowed |= {number for number in granted if not is_hidden(_key_of(reader, number))}
    if grant is not None:
        allowed &= grant.conversation_ids
    if conversation_id is not None:
        if conversation_id not in allowed:
            raise not_found(f"conversation {conversation_id}")
        allowed = {conversation_id}
    every = bool(allowed) and allowed.issuperset(_all_ids(reader, len(allowed)))
    return Scope(tuple(sorted(allowed)), every)


def not_found(what: str) -> NotFound:
    """The one error for what does not exist and for what lies out of reach."""
    return NotFound(f"{what} was not found in the conversations you can search")


def within_reach(reader: Reader, session_key: str, reach: Reach) -> dict[int, str]:
    """The widest that a session may look at, with session keys: its own key's, its agent's conversations, or all."""
    beginning = _beginning(session_key, reach)
    if beginning is not None:
        return reader.session_keys(beginning)
    return {conversation.conversation_id: session_key for conversation in reader.lane(session_key)}


def _beginning(session_key: str, reach: Reach) -> str | None:
    """What the session keys within reach begin with; None where only its own is."""
    if reach == "all":
        return ""
    agent = _agent_prefix(session_key)
    return agent if reach == "agent" and agent else None


def _others(reader: Reader, session_key: str, reach: Reach) -> Iterator[tuple[int, str]]:
    """The conversations of other session keys within reach, each back to its key's last reset."""
    beginning = _beginning(session_key, reach)
    if beginning is not None:
        yield from ((number, key) for number, key in since_reset(reader, beginning) if key != session_key)


def since_reset(reader: Reader, beginning: str) -> Iterator[tuple[int, str]]:
    """The conversations of all session keys with a beginning, each back to its key's last reset."""
    ended = reader.last_resets(beginning)
    for number, key in reader.session_keys(beginning).items():
        if number > ended.get(key, 0):
            yield number, key


def _key_of(reader: Reader, conversation_id: int) -> str:
    conversation = reader.conversation(conversation_id)
    return conversation.session_key if conversation else ""


def _agent_prefix(session_key: str) -> str:
    """``agent:<id>:`` of a key, or the empty text for other keys."""
    pieces = session_key.split(":")
    return f"agent:{pieces[1]}:" if len(pieces) > 2 and pieces[0] == "agent" and pieces[1] else ""


def _all_ids(reader: Reader, at_most: int) -> list[int]:
    """The first conversations of the database, one more than asked for, so that a larger set shows."""
    return [row.conversation_id for row in reader.conversations(limit=at_most + 1)]


@dataclass(frozen=True, slots=True)
class Ref:
    """One id, whole, and what it is the id of."""

    kind: RefKind
    text: str

    @property
    def message_id(self) -> int:
        """The number of a message's id."""
        return int(self.text.removeprefix("msg_"))


def parse_refs(value: str | Iterable[str]) -> tuple[Ref, ...]:
    """The ids in a text or in several, in order, each once.

    A text that begins with a copied wrapper stands for that summary or file alone, whatever ids its body
    mentions. ``msg_3-msg_9`` is a range. Raises `InputError` when there is no id at all.
    """
    texts = [value] if isinstance(value, str) else list(value)
    refs: dict[str, Ref] = {}
    for text in texts:
        for ref in _in_text(text.strip()):
            refs.setdefault(ref, Ref(_KINDS[ref.partition("_")[0]], ref))
    if not refs:
        shown = " ".join(texts)[:80]
        raise InputError(
            f"{shown!r} holds no id; ids look like sum_0123456789abcdef, file_0123456789abcdef or msg_42"
        )
    return tuple(refs.values())


def _in_text(text: str) -> Iterable[str]:
    for wrapper in (_COPIED_SUMMARY, _COPIED_FILE):
        if (copied := wrapper.match(text)) is not None:
            return [copied[1]]
    expanded = _RANGE.sub(_spell_out, text)
    return [match[1] for match in _ID.finditer(expanded)]


def _spell_out(match: re.Match[str]) -> str:
    first, last = int(match[1]), int(match[2])
    if last < first or last - first >= MAX_RANGE:
        raise InputError(f"{match[0]} is not a range of at most {MAX_RANGE} messages")
    return " ".join(f"msg_{number}" for number in range(first, last + 1))
