"""Other texts for summaries: a person's, an earlier one, a model's. What was there before is kept beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from lcm_plugin.errors import InputError, NotFound, StoreConflict
from lcm_plugin.ingest.redaction import Redactor
from lcm_plugin.maintenance.summaries.checks import SummaryHealth
from lcm_plugin.messages.markup import summary_tokens
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.insight.records import Action
from lcm_plugin.store.insight.texts import MAKING, EarlierText
from lcm_plugin.store.protocol import Reader, Store, Writer
from lcm_plugin.store.records import BY_PERSON, Summary
from lcm_plugin.store.retry import retry_lost
from lcm_plugin.text import plural

_REFUSALS = {
    "empty": "it holds no word",
    "reasoning": "it reads like a model's thinking",
    "refusal": "it reads like a refusal",
    "error": "it reads like an error message",
    "chat": "it reads like an answer to somebody, not like an account",
    "too_short": "it is too short",
    "unrelated": "it has next to no word in common with its source",
    "echo": "nearly all of it is copied word for word from its source",
    "prompt_echo": "it repeats the instructions for summaries",
    "repetition": "it repeats itself",
    "not_smaller": "it is as long as its source",
    "too_long": "it is too long",
}


@dataclass(frozen=True, slots=True)
class ChangedText:
    """A summary with its new text. ``derived`` are the summaries that were made from the text before."""

    summary: Summary
    derived: tuple[str, ...]


class SummaryTexts:
    """Changes texts of summaries. Thread-safe.

    Contexts hold the new text from the next one on, searches find it; a compaction that just reads the old text
    does not publish what it made of it.
    """

    def __init__(
        self,
        store: Store,
        counter: TokenCounter,
        health: SummaryHealth,
        redactor: Redactor,
        zone: str,
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._counter = counter
        self._health = health
        self._redactor = redactor
        self._zone = zone
        self._clock = clock

    def edit(
        self,
        summary_id: str,
        text: str,
        by: str,
        *,
        among: Collection[int] | None = None,
        version: int | None = None,
    ) -> ChangedText:
        """Puts a person's text in a summary's place, when the gate accepts it as it would a model's.

        ``among`` are the conversations that it must belong to. ``version`` is which of its texts, counted from 1, the
        person had seen last. Raises `InputError` that names what is wrong with the text and how long it may be,
        `NotFound`, and `StoreConflict` when the text was changed since.
        """

        def change(reader: Reader, old: Summary) -> Summary:
            verdict, limits = self._health.verdict(reader, old, self._redactor.text(text))
            reason = verdict.reason or ("too_long" if verdict.capped else "")
            if reason:
                raise InputError(
                    f"the text was not taken: {_REFUSALS[reason]}. A summary of these {limits.source:,} tokens may have "
                    f"{limits.least:,} to {limits.cap:,}; this text has {self._counter.text(text):,}"
                )
            return replace(
                old,
                content=verdict.text,
                tokens=verdict.tokens,
                level=BY_PERSON,
                model="",
                prompt_version="",
                fallback=False,
                fallback_cause="",
                capped=False,
                made_ms=None,
            )

        return self._change("edit", summary_id, by, among, version, change)

    def go_back(
        self,
        summary_id: str,
        by: str,
        *,
        to: int | None = None,
        among: Collection[int] | None = None,
        version: int | None = None,
    ) -> ChangedText:
        """Puts an earlier text back in a summary's place; without ``to`` the newest that no person wrote.

        ``to`` is its number, counted from 1. Raises as `edit`.
        """

        def change(reader: Reader, old: Summary) -> Summary:
            known = reader.earlier_texts(old.conversation_id, old.summary_id)
            chosen = _chosen(old.summary_id, known, to)
            values = {name: getattr(chosen, name) for name in MAKING}
            return replace(old, **values | {"tokens": self._counter.text(chosen.content)})

        return self._change("back", summary_id, by, among, version, change)

    def put(self, writer: Writer, old: Summary, new: Summary, by: str = "") -> bool:
        """Gives a summary another text and keeps the old one; False when it has another than ``old`` by now.

        ``by`` is empty for a model.
        """
        if replace(new, made_ms=old.made_ms) == old:
            return True  # written again with the same words
        sources = writer.sources_of([old.summary_id]).get(old.summary_id, [])
        before, now = (summary_tokens(one, sources, self._zone, self._counter) for one in (old, new))
        return writer.change_text(old, new, now, now - before, by, self._clock())

    def _change(
        self,
        action: str,
        summary_id: str,
        by: str,
        among: Collection[int] | None,
        version: int | None,
        change: Callable[[Reader, Summary], Summary],
    ) -> ChangedText:
        def work() -> ChangedText:
            with self._store.read() as reader:
                old = reader.summaries([summary_id]).get(summary_id)
                if old is None or (among is not None and old.conversation_id not in among):
                    raise NotFound(f"there is no summary {summary_id[:40]} here")
                if version is not None and version != text_number(reader, old):
                    raise StoreConflict(f"the text of {summary_id} was changed meanwhile: look at it again")
                new = change(reader, old)
                derived = tuple(reader.derived_from(summary_id))
            if new.content == old.content:
                raise InputError(f"that is the text that {summary_id} has already")
            with self._store.write() as writer:
                if not self.put(writer, old, new, by):
                    raise StoreConflict(f"the text of {summary_id} was changed just now: look at it again")
                writer.add_action(self._action(action, old, by))
            return ChangedText(new, derived)

        return retry_lost(work)

    def _action(self, action: str, summary: Summary, by: str) -> Action:
        return Action(
            f"act_{uuid4().hex[:16]}",
            summary.conversation_id,
            self._clock(),
            by,
            action,
            summary.summary_id,
            "done",
        )


def text_number(reader: Reader, summary: Summary) -> int:
    """Which of its texts, counted from 1, a summary has now."""
    return len(reader.earlier_texts(summary.conversation_id, summary.summary_id)) + 1


def text_of(summary: Summary, earlier: Sequence[EarlierText], number: int | None = None) -> str:
    """A summary's text, or the one of a number, its first being 1; raises `NotFound`."""
    if number is None or number == len(earlier) + 1:
        return summary.content
    return _numbered(summary.summary_id, earlier, number).content


def _chosen(summary_id: str, earlier: Sequence[EarlierText], to: int | None) -> EarlierText:
    if to is not None:
        return _numbered(summary_id, earlier, to)
    if not earlier:
        raise NotFound(f"{summary_id} has no earlier text")
    return next((one for one in reversed(earlier) if one.level != BY_PERSON), earlier[-1])


def _numbered(summary_id: str, earlier: Sequence[EarlierText], number: int) -> EarlierText:
    found = next((one for one in earlier if one.version == number), None)
    if found is None:
        raise NotFound(f"{summary_id} has no text {number}; it has had {plural(len(earlier) + 1, 'text')}")
    return found
