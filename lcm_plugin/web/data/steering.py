"""Steering: what a person may change through pages. Each action is the engine's own call, and is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from lcm_plugin.commands.editing import change_lines
from lcm_plugin.errors import LcmError, NotFound
from lcm_plugin.maintenance.account import account_name
from lcm_plugin.maintenance.redaction.copies import redact_everywhere
from lcm_plugin.maintenance.redaction.targets import target_of
from lcm_plugin.recall.tools import check
from lcm_plugin.sessions.names import rename
from lcm_plugin.sessions.pins import pins_of
from lcm_plugin.store.insight.records import Action
from lcm_plugin.store.records import Conversation, message_ref
from lcm_plugin.text import plural
from lcm_plugin.types import Session
from lcm_plugin.web.data.health import mend

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

_NEWEST = 50


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Nothing(_Arguments):
    """An action that takes nothing."""


class PinArguments(_Arguments):
    """A text, or the id of a message."""

    what: str = Field(min_length=1, max_length=20_000)


class FocusArguments(_Arguments):
    """What a compaction is to keep in detail."""

    focus: str = Field(default="", max_length=2_000)


class TitleArguments(_Arguments):
    """A title; an empty one takes it away."""

    title: str = Field(default="", max_length=500)


class SummaryArguments(_Arguments):
    """A summary by its id."""

    summary: str = Field(pattern=r"^sum_[0-9a-f]{16}$")


class EditArguments(SummaryArguments):
    """A summary's new text. ``version`` is which of its texts the person saw last."""

    text: str = Field(min_length=1, max_length=200_000)
    version: int | None = Field(default=None, ge=1)


class BackArguments(SummaryArguments):
    """Which earlier text is to come back, counted from 1; without it the newest that no person wrote."""

    to: int | None = Field(default=None, ge=1)
    version: int | None = Field(default=None, ge=1)


class RedactArguments(_Arguments):
    """What is to be removed, and the word that allows it; without the word it is only looked for."""

    what: str = Field(min_length=1, max_length=2_000)
    literal: bool = False
    confirm: Literal["", "redact"] = ""


class Steering:
    """The actions on one conversation."""

    def __init__(self, engine: Engine, conversation: Conversation) -> None:
        self._engine = engine
        self._row = conversation
        self._session = Session(conversation.session_key, conversation.session_id)
        self._here = (conversation.conversation_id,)

    def do(self, name: str, given: Mapping[str, Any]) -> list[str]:
        """Does one of `ACTIONS` and records it; what came of it, in lines. Raises `NotFound` for another name.

        What is wrong with the arguments is not recorded, what fails later is.
        """
        if name not in ACTIONS:
            raise NotFound(f"there is no action {name[:40]!r}; known are {', '.join(ACTIONS)}")
        model, act = ACTIONS[name]
        arguments = check(model, name, given)
        try:
            about, lines = act(self, arguments)
        except LcmError as error:
            self._record(name, "", f"failed: {type(error).__name__}")
            raise
        if name not in _RECORDED:
            self._record(name, about, "done")
        return lines

    def pin(self, asked: PinArguments) -> tuple[str, list[str]]:
        pin = self._engine.pin(self._session, asked.what)
        return pin.source or pin.pin_id, [f"{pin.pin_id} is pinned: {plural(pin.tokens, 'token')}"]

    def unpin(self, asked: PinArguments) -> tuple[str, list[str]]:
        gone = [pin.pin_id for pin in self._engine.unpin(self._session, asked.what)]
        return " ".join(gone), [f"{' '.join(gone)} unpinned"]

    def preview(self, asked: FocusArguments) -> tuple[str, list[str]]:
        engine = self._engine
        with engine.store.read() as reader:
            call = engine.compaction.known_call(reader, self._row)
        found = engine.compaction.preview(
            self._session,
            engine.budgets.call(call.budget, call.overhead, call.model, call.window, asked.focus),
        )
        if found is None:
            return "", ["nothing can be summarised now"]
        chunk, draft = found
        first, last = chunk.items[0].ref, chunk.items[-1].ref
        written = draft.model or "extraction, no model"
        head = (
            f"next: {plural(len(chunk.items), 'message')} ({first} to {last}), {chunk.tokens:,} -> {draft.tokens:,} tokens, "
            f"by {written}; compacting now keeps this text"
        )
        return f"{first} {last}", [head, draft.text]

    def compact(self, asked: FocusArguments) -> tuple[str, list[str]]:
        result = self._engine.compact(self._session, force=True, focus=asked.focus)
        done = f"{result.reason.value.replace('_', ' ')}: {result.tokens_before:,} -> {result.tokens_after:,} tokens"
        made = plural(len(result.summaries), "new summary")
        return " ".join(result.summaries[:20]), [
            f"{done}, {made}",
            *([result.detail] if result.detail else []),
        ]

    def undo(self, asked: Nothing) -> tuple[str, list[str]]:
        back = self._engine.undo_compaction(self._session)
        if back.refusal:
            return "", [f"nothing was undone: {back.refusal}"]
        tokens = f"{back.tokens_before:,} -> {back.tokens_after:,} tokens"
        return "", [f"{plural(back.summaries, 'summary')} taken apart; {tokens}"]

    def rename(self, asked: TitleArguments) -> tuple[str, list[str]]:
        with self._engine.store.write() as writer:
            rename(writer, self._row, asked.title)
        return "", ["renamed" if asked.title else "the title is taken away"]

    def archive(self, asked: Nothing) -> tuple[str, list[str]]:
        gone = self._engine.reset_session(self._session)
        return "", ["archived; the session begins afresh" if gone else "there was nothing to archive"]

    def rewrite(self, asked: SummaryArguments) -> tuple[str, list[str]]:
        with self._engine.store.read() as reader:
            found = reader.summaries([asked.summary]).get(asked.summary)
        if found is None or found.conversation_id != self._row.conversation_id:
            raise NotFound(f"there is no {asked.summary} in this conversation")
        done = self._engine.doctor.rewrite(self._row.conversation_id, asked.summary)
        kept = f"; {plural(done.failed, 'summary')} stayed, since no better text came" if done.failed else ""
        return asked.summary, [f"{plural(len(done.ids), 'summary')} written again{kept}"]

    def edit(self, asked: EditArguments) -> tuple[str, list[str]]:
        changed = self._engine.summary_texts.edit(
            asked.summary, asked.text, account_name(), among=self._here, version=asked.version
        )
        return asked.summary, change_lines(changed)

    def back(self, asked: BackArguments) -> tuple[str, list[str]]:
        changed = self._engine.summary_texts.go_back(
            asked.summary, account_name(), to=asked.to, among=self._here, version=asked.version
        )
        return asked.summary, change_lines(changed)

    def mend(self, asked: Nothing) -> tuple[str, list[str]]:
        return "", list(mend(self._engine, self._session)) or ["there is nothing to mend"]

    def redact(self, asked: RedactArguments) -> tuple[str, list[str]]:
        engine = self._engine
        target = target_of(
            [asked.what] if asked.literal else asked.what.split() or [""], literal=asked.literal
        )
        found = engine.redaction(engine.store).look(target)
        counts = (
            f"{plural(found.messages, 'message')}, {plural(found.summaries, 'summary')}, {plural(found.files, 'payload')}, "
            f"{plural(found.pins, 'pin')}"
        )
        if asked.confirm != "redact":
            return "", [f"the plan: {counts} of the whole database would lose it", *found.places[:20]]
        done, copies = redact_everywhere(
            engine.store, engine.redaction, target, "rewrite", account_name(), found
        )
        left = [f"{one.path} may still hold it: {one.detail}" for one in copies if one.may_hold]
        return " ".join(found.places[:20]), [
            f"redacted: {counts}",
            *left,
            *(f"kept: {one}" for one in done.kept),
        ]

    def _record(self, name: str, about: str, outcome: str) -> None:
        engine = self._engine
        action = Action(
            f"act_{uuid4().hex[:16]}",
            self._row.conversation_id,
            engine.clock(),
            account_name(),
            name,
            about,
            outcome,
        )
        with engine.store.write() as writer:
            writer.add_action(action)


ACTIONS: Mapping[str, tuple[type[Any], Callable[[Steering, Any], tuple[str, list[str]]]]] = {
    "pin": (PinArguments, Steering.pin),
    "unpin": (PinArguments, Steering.unpin),
    "preview": (FocusArguments, Steering.preview),
    "compact": (FocusArguments, Steering.compact),
    "undo": (Nothing, Steering.undo),
    "rename": (TitleArguments, Steering.rename),
    "archive": (Nothing, Steering.archive),
    "rewrite": (SummaryArguments, Steering.rewrite),
    "edit": (EditArguments, Steering.edit),
    "back": (BackArguments, Steering.back),
    "mend": (Nothing, Steering.mend),
    "redact": (RedactArguments, Steering.redact),
}

SUMMARY_ACTIONS = ("edit", "back", "rewrite")
# The engine records these itself, with the change.
_RECORDED = ("edit", "back")


def overview(engine: Engine, conversation: Conversation) -> dict[str, Any]:
    """What can be steered: the pins, and what people did lately."""
    with engine.store.read() as reader:
        pins = pins_of(reader, conversation)
        done = reader.actions(conversation.conversation_id, limit=_NEWEST)
    return {"pins": [_pin(pin) for pin in pins], "actions": [asdict(one) for one in done]}


def _pin(pin: Any) -> dict[str, Any]:
    source = "" if pin.message_id is None else message_ref(pin.message_id)
    return {"id": pin.pin_id, "text": pin.text, "tokens": pin.tokens, "by": pin.pinned_by, "source": source}
