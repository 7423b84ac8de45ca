"""Flaws of a summary's text: empty, cut, an answer instead of an account, claims without a source.

Who made a text is read from its columns. Marks within a text are looked for only in summaries that an older
tool wrote, and only where that tool put them, since any summary may quote a mark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from lcm_plugin.compaction.passes import message_block, summary_block
from lcm_plugin.config import LcmConfig
from lcm_plugin.maintenance.summaries.claims import claims, unsupported
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import BY_PERSON, Summary
from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.facts import Vocabulary
from lcm_plugin.summarize.gate import Gate, Limits, Verdict
from lcm_plugin.summarize.prompts import PromptParts, frame
from lcm_plugin.summarize.source import CUT_MARK
from lcm_plugin.summarize.units import EXPAND_PREFIX

SummaryTarget = Callable[[Reader, int, int], int]
"""The size that a summary aims at, of a conversation (its id) and a depth."""
_PAGE = 50
_MOST_NAMED = 5
_REASONS = {
    "empty": "summary_empty",
    "reasoning": "summary_answer",
    "refusal": "summary_answer",
    "error": "summary_answer",
    "chat": "summary_answer",
    "repetition": "summary_answer",
    "prompt_echo": "summary_prompt_leak",
    "echo": "summary_echo",
}
_MARK_AT_START = re.compile(r"\[LCM fallback summary[;\]]|\[Context summary unavailable", re.I)
_MARK_AT_END = re.compile(
    r"\[(?:LCM fallback summary; [^\]\n]{1,80}|Truncated from [\d,]+ tokens|Truncated for context management)\]\s*\Z",
    re.I,
)
_UNFINISHED = re.compile(
    r"(?:[,(\[{:/&+=-]|\b(?:and|or|the|a|an|of|to|with|for|that|which|und|oder|der|die))\Z", re.I
)
_LONE_FENCE = re.compile(r"^```", re.M)


@dataclass(frozen=True, slots=True)
class Flaw:
    """One flaw of a summary: a code of `rules.RULES`, and the evidence."""

    code: str
    detail: str = ""


class SummaryHealth:
    """Judges summaries against the sources they were made from. Reads only; keeps nothing."""

    def __init__(
        self, store: Store, counter: TokenCounter, config: LcmConfig, target_of: SummaryTarget
    ) -> None:
        self._store = store
        self._gate = Gate(counter, Vocabulary())
        self._target_of = target_of
        self._cap = config.summary_cap
        self._instructions = config.custom_instructions

    def flaws(self, conversation_id: int, stop: Callable[[], bool]) -> Iterator[tuple[Summary, Flaw]]:
        """The flaws of a conversation's summaries, one page of them in a read transaction at a time."""
        after, before = None, ""
        while not stop():
            with self._store.read() as reader:
                page = reader.list_summaries(conversation_id, after=after, limit=_PAGE)
                found = [
                    (summary, flaw)
                    for earlier, summary in zip([before, *(one.content for one in page)], page, strict=False)
                    for flaw in self.judge(reader, summary, earlier)
                ]
            yield from found
            if not page:
                return
            after, before = page[-1].summary_id, page[-1].content

    def flaws_of(
        self, summary_ids: Collection[str], stop: Callable[[], bool]
    ) -> Iterator[tuple[Summary, Flaw]]:
        """The flaws of some summaries that this process just wrote, each read in a transaction of its own."""
        for summary_id in summary_ids:
            if stop():
                return
            with self._store.read() as reader:
                summary = reader.summaries([summary_id]).get(summary_id)
                before = "" if summary is None else _before(reader, summary)
                flaws = [] if summary is None else self.judge(reader, summary, before, just_taken=True)
            yield from ((summary, flaw) for flaw in flaws if summary is not None)

    def judge(
        self, reader: Reader, summary: Summary, earlier: str = "", *, just_taken: bool = False
    ) -> list[Flaw]:
        """The flaws of one summary. ``earlier`` is the one made before it, which its writer may have read.

        ``just_taken``: the gate compared the text with its source a moment ago, and does not do so again.
        """
        text = summary.content
        if not any(char.isalnum() for char in text):
            return [Flaw("summary_empty")]
        if summary.level == BY_PERSON:
            return []  # the gate took it when it was written, and a person may know more than the source
        target = self._target_of(reader, summary.conversation_id, summary.depth)
        flaws = [] if summary.fallback else [*self._marked(summary), *self._size(summary, target)]
        blocks = source_blocks(reader, summary)
        if not blocks:
            return flaws  # what is gone is named by the checks of lineage
        source = "\n".join(written(block) for block in blocks)
        if summary.level != "extractive":
            reason = "" if just_taken else self._reason(summary, source, target)
            flaws.extend(_form(summary, reason))
        return [*flaws, *self._claims(reader, summary, source, earlier)]

    def verdict(self, reader: Reader, summary: Summary, text: str) -> tuple[Verdict, Limits]:
        """What the gate makes of another text for a summary, by the sizes that a model's text may have."""
        target = self._target_of(reader, summary.conversation_id, summary.depth)
        limits = Limits.of(summary.source_tokens, target, self._cap)
        blocks = source_blocks(reader, summary) if sources_whole(reader, summary) else ()
        source = "\n".join(written(block) for block in blocks)
        return self._gate.check(text, source, self._frame(summary, target), limits), limits

    def _marked(self, summary: Summary) -> Iterator[Flaw]:
        text = summary.content.strip()
        if not summary.prompt_version and (_MARK_AT_START.match(text) or _MARK_AT_END.search(text[-120:])):
            yield Flaw("summary_marker")

    def _size(self, summary: Summary, target: int) -> Iterator[Flaw]:
        if summary.prompt_version and summary.tokens > self._cap(target):
            yield Flaw("summary_over_cap", f"{summary.tokens} tokens for a target of {target}")

    def _reason(self, summary: Summary, source: str, target: int) -> str:
        limits = Limits(1 << 40, target, 1 << 40)
        return self._gate.check(summary.content, source, self._frame(summary, target), limits).reason

    def _frame(self, summary: Summary, target: int) -> str:
        return frame(PromptParts(summary.depth, False, target, "", "", instructions=self._instructions))

    def _claims(self, reader: Reader, summary: Summary, source: str, earlier: str) -> Iterator[Flaw]:
        said = claims(summary.content.replace(CUT_MARK, ""))
        if not said:
            return
        texts = (lambda: iter((source,)), lambda: iter((earlier,)), lambda: _leaf_texts(reader, summary))
        missing = unsupported(said, texts)
        if missing and sources_whole(reader, summary):
            named = ", ".join(claim.text for claim in missing[:_MOST_NAMED])
            more = len(missing) - _MOST_NAMED
            yield Flaw("summary_unsupported", named + (f" and {more} more" if more > 0 else ""))


def _form(summary: Summary, reason: str) -> Iterator[Flaw]:
    if reason in _REASONS:
        yield Flaw(_REASONS[reason], reason.replace("_", " "))
    elif not summary.capped and looks_cut(summary.content):
        yield Flaw("summary_cut", f"it ends with {summary.content.rstrip()[-40:]!r}")


def looks_cut(text: str) -> bool:
    """Whether a text breaks off: an open code block, or a last line that asks for another word."""
    body = text.rpartition(EXPAND_PREFIX)[0] if EXPAND_PREFIX in text else text
    body = body.rstrip()
    return len(_LONE_FENCE.findall(body)) % 2 == 1 or _UNFINISHED.search(body) is not None


def source_blocks(reader: Reader, summary: Summary) -> tuple[SourceBlock, ...]:
    """The sources of a summary, as its writer saw them; sources that are gone are left out."""
    if summary.depth == 0:
        return _message_blocks(reader, reader.source_messages(summary.summary_id))
    names = reader.source_summaries(summary.summary_id)
    found = reader.summaries(names)
    return tuple(summary_block(found[name]) for name in names if name in found)


def sources_whole(reader: Reader, summary: Summary) -> bool:
    """Whether everything that a summary was made from is still there to be read.

    Where texts are lost or were removed, the summary may be all that is left of them: it can neither be judged
    by what remains nor be written again from it.
    """
    if reader.removed_below(summary.summary_id):
        return False
    if summary.depth == 0:
        ids = reader.source_messages(summary.summary_id)
        stored = reader.messages_by_id(ids)
        return len(ids) == summary.message_count and all(
            message_id in stored and (stored[message_id].parts or stored[message_id].skeleton)
            for message_id in ids
        )
    names = reader.source_summaries(summary.summary_id)
    found = reader.summaries(names)
    return sum(one.message_count for one in found.values()) == summary.message_count and all(
        sources_whole(reader, one) for one in found.values()
    )


def written(block: SourceBlock) -> str:
    """A block with its sender and tool."""
    return "\n".join(filter(None, (block.sender, block.tool, block.text)))


def _before(reader: Reader, summary: Summary) -> str:
    """The text of the summary before another one in the context."""
    items = reader.newest_summary_items(summary.conversation_id, before=summary.first_seq, limit=1)
    found = reader.summaries([str(item.summary_id) for item in items])
    return next((one.content for one in found.values()), "")


def _message_blocks(reader: Reader, ids: list[int]) -> tuple[SourceBlock, ...]:
    stored = reader.messages_by_id(ids)
    made = (message_block(stored[message_id]) for message_id in ids if message_id in stored)
    return tuple(block for block in made if block is not None)


def _leaf_texts(reader: Reader, summary: Summary) -> Iterator[str]:
    """The texts below a condensed summary, one source after the other, down to the messages."""
    if summary.depth == 0:
        return
    seen = {summary.summary_id}
    open_ids = reader.source_summaries(summary.summary_id)[::-1]
    while open_ids:
        summary_id = open_ids.pop()
        if summary_id in seen:
            continue
        seen.add(summary_id)
        found = reader.summaries([summary_id]).get(summary_id)
        if found is None:
            continue
        blocks = source_blocks(reader, found)
        yield "\n".join(written(block) for block in blocks)
        if found.depth:
            open_ids += reader.source_summaries(summary_id)[::-1]
