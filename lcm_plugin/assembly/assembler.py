"""One model call's context from a conversation's items.

Everything is a function of the stored rows and the budget: no clock, no counter. So the same store
gives the same bytes in any process, and one more turn only appends, until a compaction or until the
budget forces something out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lcm_plugin.assembly.pairing import pair
from lcm_plugin.assembly.relevance import scorer
from lcm_plugin.assembly.render import Rendered, Renderer, copy_message
from lcm_plugin.assembly.select import Selection, select, summaries_before_user
from lcm_plugin.markup import notice_block, shorten_ids
from lcm_plugin.store.base import Reader
from lcm_plugin.store.records import Conversation, Item
from lcm_plugin.tokens import TokenCounter
from lcm_plugin.types import Context, Message

_PAGE = 192
_NOTICE_TOKENS = 160
_MOST_NAMED = 12
_ATTEMPTS = 6
_TOO_LARGE = "The newest user message alone is larger than the budget; it is sent as it is, without history."
_OPENING = "The conversation begins with the assistant."


@dataclass(frozen=True, slots=True)
class Request:
    """What a context is wanted for. ``room`` is in tokens, after overhead and margin."""

    room: int
    tail_messages: int
    prompt: str | None = None
    model: str | None = None
    by_relevance: bool = False


class Assembler:
    """Assembles contexts. Thread-safe."""

    def __init__(self, renderer: Renderer, counter: TokenCounter) -> None:
        self._renderer = renderer
        self._counter = counter

    def assemble(self, reader: Reader, conversation: Conversation, request: Request) -> Context:
        """The context of one conversation within ``request.room`` tokens."""
        system = self._system_message(reader, conversation.conversation_id)
        room = request.room - (system.tokens if system else 0)
        items = _window(reader, conversation.conversation_id, room)
        complete = len(items) == conversation.raw_items + conversation.summary_items
        rendered = self._renderer.render(reader, [item for item in items if _is_shown(item)], request.model)
        # What pairing and notices add is known only afterwards, so the room shrinks until it all fits.
        for _ in range(_ATTEMPTS):
            selection = self._select(rendered, room, request, complete)
            context = self._context(conversation, system, selection, complete)
            excess = context.tokens - request.room
            if excess <= 0 or context.over_budget:
                return context
            room -= excess
        return replace(context, over_budget=True, notices=(_TOO_LARGE,))

    def _system_message(self, reader: Reader, conversation_id: int) -> Rendered | None:
        head = reader.newest_system(conversation_id)
        if head is None:
            return None
        item = Item(head.seq, "message", head.tokens, message=head)
        rendered = self._renderer.render(reader, [item], None)
        return rendered[0] if rendered else None

    def _select(self, rendered: Sequence[Rendered], room: int, request: Request, complete: bool) -> Selection:
        total = sum(item.tokens for item in rendered)
        if complete and total <= room:
            return Selection(tuple(rendered))
        relevance = scorer(request.prompt) if request.by_relevance and request.prompt else None
        return select(
            rendered,
            max(0, room - _NOTICE_TOKENS),
            tail_messages=request.tail_messages,
            stub=self._renderer.stub,
            relevance=relevance,
        )

    def _context(
        self,
        conversation: Conversation,
        system: Rendered | None,
        selection: Selection,
        complete: bool,
    ) -> Context:
        ordered = summaries_before_user(selection.chosen)
        body = pair([item.message for item in ordered])
        while body and body[-1]["role"] == "assistant":
            body.pop()
        notices = _notices(selection, complete)
        opening = self._opening(selection, complete, body)
        messages: list[Message] = [copy_message(system.message)] if system else []
        messages += [{"role": "user", "content": opening}] if opening else []
        messages += body
        known = {id(item.message): item.tokens for item in ordered}
        tokens = sum(known.get(id(message)) or self._counter.message(message) for message in messages)
        return Context(
            messages=messages,
            tokens=tokens,
            summaries=tuple(item.ref for item in ordered if item.role == "summary"),
            over_budget=selection.over_budget,
            notices=notices,
            prefix_epoch=_epoch(conversation, system, selection, opening),
            cache_hint=len(messages) - 1 if messages else None,
        )

    def _opening(self, selection: Selection, complete: bool, body: Sequence[Message]) -> str | None:
        """A user message to begin with, when something is missing or the assistant would be first."""
        if selection.over_budget:
            return None
        if selection.left_out or not complete:
            return notice_block(_left_out_text(selection, complete))
        if body and body[0]["role"] not in ("user", "system"):
            return notice_block(_OPENING)
        return None


def _window(reader: Reader, conversation_id: int, room: int) -> list[Item]:
    """The newest items that could matter: until the room is filled and the newest user is in sight."""
    items: list[Item] = []
    tokens, before, seen_user = 0, None, False
    while page := reader.newest_items(conversation_id, before=before, limit=_PAGE):
        visible = [item for item in page if _is_shown(item)]
        items = page + items
        tokens += sum(item.tokens for item in visible)
        seen_user = seen_user or any(item.message and item.message.role == "user" for item in visible)
        if seen_user and tokens > room:
            return [*_older_summaries(reader, conversation_id, page[0].ordinal), *items]
        before = page[0].ordinal
    return items


def _older_summaries(reader: Reader, conversation_id: int, before: int) -> list[Item]:
    """Summaries older than the window: they are worth more than the raw messages between."""
    return [item for item in reader.summary_items(conversation_id, limit=_PAGE) if item.ordinal < before]


def _is_shown(item: Item) -> bool:
    return item.message is None or not (item.message.hidden or item.message.role == "system")


def _notices(selection: Selection, complete: bool) -> tuple[str, ...]:
    if selection.over_budget:
        return (_TOO_LARGE,)
    if selection.left_out or not complete:
        return (_left_out_text(selection, complete),)
    return ()


def _left_out_text(selection: Selection, complete: bool) -> str:
    refs = [item.ref for item in selection.left_out]
    named = shorten_ids(refs[-_MOST_NAMED:])
    which = f": {named}" if named else ""
    older = " and everything older" if not complete or len(refs) > _MOST_NAMED else ""
    return f"Left out here for lack of room{which}{older}. Find it with lcm_grep, read it with lcm_describe."


def _epoch(
    conversation: Conversation, system: Rendered | None, selection: Selection, opening: str | None
) -> str:
    """Changes exactly when the beginning of the output may have changed."""
    first = selection.chosen[0].ref if selection.chosen else ""
    seed = f"{conversation.conversation_id}|{conversation.revision}|{system and system.ref}|{first}|{opening}"
    return hashlib.sha256(seed.encode()).hexdigest()[:16]
