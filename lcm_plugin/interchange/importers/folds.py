"""Summaries of a source's compactions as leaves: what they replaced is what they were made from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from lcm_plugin.messages.groups import MAX_SPAN, legal_cut
from lcm_plugin.messages.markup import summary_block
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.records import Conversation, Item, Publication, Summary

_PAGE = 500
REASON = "imported"


def imported_summary_id(key: str, format_name: str, source_id: str, node: str) -> str:
    """An id that is the same in every run and different in every lane."""
    digest = hashlib.sha256()
    for piece in (key, format_name, source_id, node):
        digest.update(piece.encode("utf-8", "replace") + b"\x00")
    return f"sum_{digest.hexdigest()[:16]}"


def foldable(reader: Reader, conversation_id: int, through_seq: int) -> tuple[Item, ...]:
    """The raw items that end at a seq, back to the summary before them; no group is split."""
    before = reader.newest_summary_items(conversation_id, before=through_seq + 1, limit=1)
    after = before[0].ordinal if before else 0
    items: list[Item] = []
    while page := reader.oldest_raw_items(conversation_id, after=after, limit=_PAGE):
        items += [item for item in page if item.ordinal <= through_seq]
        after = page[-1].ordinal
        if after >= through_seq:
            break
    if not items:
        return ()
    floor = items[0].ordinal

    def lowest_group(seq: int) -> int | None:
        return reader.lowest_group(conversation_id, seq, MAX_SPAN, floor)

    cut = legal_cut(through_seq + 1, lowest_group)
    return tuple(item for item in items if item.ordinal < cut)


def summary_over(
    reader: Reader,
    items: Sequence[Item],
    *,
    summary_id: str,
    conversation_id: int,
    depth: int,
    text: str,
    tokens: int,
    at: int,
    model: str,
    origin: str,
    fallback: bool = False,
) -> Summary:
    """A summary of a source with the counts of what it is made from here."""
    heads = [item.message for item in items if item.message]
    below = list(reader.summaries([item.summary_id for item in items if item.summary_id]).values())
    files = _file_ids(reader, [head.message_id for head in heads])
    return Summary(
        summary_id=summary_id,
        conversation_id=conversation_id,
        depth=depth,
        content=text,
        tokens=tokens,
        earliest_at=min([*(head.created_at for head in heads), *(one.earliest_at for one in below)]),
        latest_at=max([*(head.created_at for head in heads), *(one.latest_at for one in below)]),
        first_seq=min([*(head.seq for head in heads), *(one.first_seq for one in below)]),
        last_seq=max([*(head.seq for head in heads), *(one.last_seq for one in below)]),
        descendant_count=len(heads) + sum(one.descendant_count + 1 for one in below),
        message_count=len(heads) + sum(one.message_count for one in below),
        source_tokens=sum(item.tokens for item in items),
        message_tokens=sum(head.tokens for head in heads) + sum(one.message_tokens for one in below),
        level="normal",
        model=model,
        prompt_version=origin,
        fallback=fallback,
        created_at=at,
        file_ids=tuple(dict.fromkeys([*files, *(file for one in below for file in one.file_ids)])),
    )


def publish(
    writer: Writer,
    conversation: Conversation,
    summary: Summary,
    items: Sequence[Item],
    item_tokens: int,
    now: int,
) -> Item:
    """Puts a summary in the place of its sources; returns its context item."""
    revision = writer.conversation(conversation.conversation_id)
    assert revision is not None
    writer.publish(Publication(summary, tuple(items), revision.revision, item_tokens, REASON), now)
    return Item(
        items[0].ordinal, "summary", item_tokens, summary.depth, None, summary.summary_id, summary.fallback
    )


def item_cost(counter: TokenCounter, summary: Summary, items: Sequence[Item], zone: str) -> int:
    """What a summary costs in a context, its wrapper included."""
    text = summary_block(summary, [item.ref for item in items], zone)
    return counter.message({"role": "user", "content": text})


def _file_ids(reader: Reader, message_ids: Sequence[int]) -> list[str]:
    found: list[str] = []
    for start in range(0, len(message_ids), _PAGE):
        for row in reader.messages_by_id(message_ids[start : start + _PAGE]).values():
            found += [part.file_id for part in row.parts if part.file_id]
    return found
