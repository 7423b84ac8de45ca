"""The host's message shapes, and the core's.

The host merges user messages that follow each other, in place, because many models want strict
alternation; it appends notes of its own after a compaction; and it keeps bookkeeping in the messages.
`to_host` therefore folds neighbours itself, and `from_host` takes folded messages apart again and
leaves out what nobody said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lcm_plugin.messages.blocks import text_of
from lcm_plugin.messages.convert import as_message
from lcm_plugin.messages.markup import is_own, pin_block, recalled_ids_of
from lcm_plugin.types import Message, Pin

FOLD = "\n\n"
REPLY_FOLD = "\n"
SUMMARY_MARK = "_compressed_summary"
SENT = "api_content"
_INHERITED = "From the conversation that this one branched off:"
_BOOKKEEPING = frozenset({"_db_persisted", SUMMARY_MARK})
_SCAFFOLDING = (
    "_todo_snapshot_synthetic",
    "_empty_recovery_synthetic",
    "_empty_terminal_sentinel",
    "_thinking_prefill",
    "_verification_stop_synthetic",
    "_pre_verify_synthetic",
    "_kanban_stop_synthetic",
)
_BLOCK = re.compile(r"<(summary|lcm-notice|pinned|plan|recalled)\b.*?</\1>", re.DOTALL)
_TASK_LIST = re.compile(
    r"\[Your active task list was preserved across context compression\](?:\n- \[.\] [^\n]*)+"
)


class Merges:
    """Messages that the host merged because they follow each other and are of one role.

    It does so in place, so what was one message when it was stored comes back with more behind it. The user's
    are seen to grow in this process; ``earlier`` tells what a text was in an earlier one, and ``replies``
    which messages of the model a merged one is made of. Both say None when that cannot be told now.
    """

    def __init__(
        self,
        earlier: Callable[[str], tuple[str, ...] | None] = lambda said: None,
        replies: Callable[[Message], Sequence[Message] | None] = lambda reply: None,
    ) -> None:
        self._earlier = earlier
        self._find_replies = replies
        self._pieces: dict[str, tuple[str, ...]] = {}
        self._replies: dict[tuple[str, tuple[str, ...]], Sequence[Message]] = {}
        self._unanswered: str | None = None

    def take_apart(self, said: str) -> tuple[str, ...]:
        """What the user said one after the other."""
        earlier = self._unanswered
        if said not in self._pieces and earlier and said.startswith(earlier + FOLD):
            before = self._pieces.get(earlier, (earlier,))
            self._pieces[said] = (*before, said[len(earlier + FOLD) :])
        elif said not in self._pieces and FOLD in said and (pieces := self._earlier(said)):
            self._pieces[said] = pieces
        return self._pieces.get(said, (said,))

    def replies(self, reply: Message) -> Sequence[Message]:
        """What the model said one after the other."""
        said = said_and_called(reply)
        if said not in self._replies and (REPLY_FOLD in said[0] or len(said[1]) > 1):
            self._replies[said] = self._find_replies(reply) or ()
        return self._replies.get(said) or (reply,)

    def list_ends(self, messages: Sequence[Any]) -> None:
        """Looks whether the host's list ends with a user message, to which it may add the next."""
        last = messages[-1] if messages else None
        is_open = isinstance(last, dict) and _foldable(last) and not _is_scaffolding(last)
        self._unanswered = words_of(last) or None if is_open else None


def said_and_called(reply: Message) -> tuple[str, tuple[str, ...]]:
    """The words of a message of the model's and the ids of its calls."""
    content = reply.get("content")
    calls = reply.get("tool_calls")
    calls = calls if isinstance(calls, list) else ()
    ids = tuple(str(call.get("id")) for call in calls if isinstance(call, dict))
    return content.strip() if isinstance(content, str) else "", ids


def words_of(message: Any) -> str | None:
    """What the user said in a message of the host's, without our blocks; None when it is no such message."""
    return _split(message["content"])[1] if isinstance(message, dict) and _foldable(message) else None


def from_host(messages: Sequence[Any], merges: Merges | None = None) -> list[Message]:
    """The conversation that the host's list stands for; the list is not changed."""
    known = merges or Merges()
    newest = messages[-1] if messages else None
    listing = [
        out
        for message in messages
        if isinstance(message, dict)
        for out in _unfold(message, known, message is newest)
    ]
    known.list_ends(messages)
    return listing


def _unfold(message: Message, merges: Merges, is_newest: bool) -> Iterator[Message]:
    if _is_scaffolding(message):
        return
    if message.get("role") == "assistant" and not is_newest:
        yield from map(_clean, merges.replies(message))
        return
    content = message.get("content")
    if message.get("role") != "user" or not isinstance(content, str):
        yield _clean(message)
        return
    blocks, said = _split(content)
    for block in blocks:
        yield {"role": "user", "content": block}
    *earlier, last = merges.take_apart(said)
    for piece in earlier:
        yield {"role": "user", "content": piece}
    if last or not content:
        yield _clean(message) if last == content else _reworded(_clean(message), last)


def _is_scaffolding(message: Message) -> bool:
    return any(message.get(flag) for flag in _SCAFFOLDING)


def _split(content: str) -> tuple[list[str], str]:
    """Our own blocks at the front of a text, and what the user said after them."""
    blocks = []
    said = _without_task_list(content)
    while (found := _BLOCK.match(said)) and is_own(found.group(0)):
        rest = said[found.end() :]
        if rest and not rest.startswith(FOLD):
            break
        blocks.append(found.group(0))
        said = rest.removeprefix(FOLD)
    return blocks, said


def _without_task_list(content: str) -> str:
    """A text without the paragraph that the host adds, or begins it with, when the list was made smaller."""
    return FOLD.join(piece for piece in content.split(FOLD) if not _TASK_LIST.fullmatch(piece))


def _reworded(message: Message, content: str) -> Message:
    """The message with other words, and without the copy of the old ones that the host would send."""
    return {key: value for key, value in message.items() if key != SENT} | {"content": content}


def _clean(message: Message) -> Message:
    return as_message({key: value for key, value in dict.items(message) if key not in _BOOKKEEPING})


def inherited(listing: Sequence[Message]) -> list[Message]:
    """A list whose summaries are another conversation's, as the first words of a new one (``/branch``)."""
    return [
        {**message, "content": f"{_INHERITED}\n{message['content']}"} if is_ours(message) else message
        for message in listing
    ]


def to_host(messages: Sequence[Message]) -> list[Message]:
    """The core's context as a list the host will leave as it is."""
    folded: list[Message] = []
    for message in messages:
        copy = {key: value for key, value in message.items() if key not in _BOOKKEEPING}
        if is_ours(copy):
            copy[SUMMARY_MARK] = True
        if folded and _foldable(folded[-1]) and _foldable(copy):
            folded[-1] = _reworded({**copy, **folded[-1]}, folded[-1]["content"] + FOLD + copy["content"])
        else:
            folded.append(copy)
    return folded


def quoted_in(messages: Sequence[Any]) -> frozenset[str]:
    """The messages whose quotes beside earlier requests the host still sends."""
    from lcm_plugin.store.records import message_ref

    sent = (text_of({"content": one[SENT]}) for one in messages if isinstance(one, dict) and one.get(SENT))
    blocks = (found.group(0) for text in sent for found in _BLOCK.finditer(text))
    return frozenset(message_ref(number) for block in blocks for number in recalled_ids_of(block))


def pins_beside(pins: Sequence[Pin], messages: Sequence[Any]) -> list[str]:
    """The pins that nothing in the host's list holds yet: those made since the list was last made smaller."""
    if not pins:
        return []
    sent = [one.get(SENT) or one.get("content") for one in messages if isinstance(one, dict)]
    shown = "\n".join(text_of({"content": one}) for one in sent)
    return [block for block in map(pin_block, pins) if block not in shown]


def is_ours(message: Message) -> bool:
    """True for a message that is one of our summaries, notices or recalled passages as a whole."""
    content = message.get("content")
    return isinstance(content, str) and is_own(content)


def _foldable(message: Message) -> bool:
    return message.get("role") == "user" and isinstance(message.get("content"), str)
