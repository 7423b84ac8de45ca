"""Plays recorded talk through the plugin's hooks, as a host would, with a bill of all requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from lcm_plugin.compaction.rereadable import only_reads
from lcm_plugin.config.defaults import READING_TOOLS
from lcm_plugin.engine import Engine
from lcm_plugin.evaluation.bill import PROMPT_TOKENS, Bill, Entry
from lcm_plugin.events import Event
from lcm_plugin.messages.blocks import Call, calls_answered, calls_of, text_of
from lcm_plugin.messages.markup import stub_id_of
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import Context, Message, Session, Turn

_IDLE_SECONDS = 60.0
_VALUES = re.compile(r'[:\[,]\s*"([^"\\]+)"')
_LEAST_WORD = 4


def play(
    engine: Engine,
    session: Session,
    talk: Sequence[Message],
    window: int,
    bill: Bill,
    sent: Callable[[Context], list[Message]] = lambda context: context.messages,
) -> None:
    """Runs a talk through the hooks, turn by turn; each assistant message is one request, which goes on the bill.

    ``sent`` says what of a context a request holds.
    """
    plugin, waiting = LcmPlugin(engine=engine), list[Message]()
    known: dict[str, Entry] = {}
    calls: dict[str, Call] = {}
    said: list[str] = []

    def note_early(event: Event) -> None:
        bill.early += event.name == "compaction.pass" and event.fields["trigger_reason"] == "incremental"

    engine.subscribe(note_early)

    def entry(message: Message) -> Entry:
        key = json.dumps(message, ensure_ascii=False)
        if key not in known:
            made = message["role"] == "user" and str(message["content"]).startswith(("<summary ", "<lcm-"))
            verbatim = not made and message["role"] != "system" and stub_id_of(text_of(message)) is None
            made_by = [calls.get(one) for one in calls_answered(message)]
            again = any(one and only_reads(READING_TOOLS, one.name, one.arguments) for one in made_by)
            known[key] = Entry(key, engine.counter.message(message), verbatim, again)
        return known[key]

    for number, message in enumerate(talk):
        if message["role"] == "assistant":
            context = plugin.before_turn(Turn(session, list(waiting), mode="append", window=window))
            waiting.clear()
            # There is none yet for a talk that begins with the assistant.
            request = [entry(message) for message in sent(context)] if context else []
            words = {word for call in calls_of(message) for word in _words(call)}
            before = "\n".join(said) if words else ""
            needed = {word for word in words if word in before}
            shown = "\n".join(str(one.key) for one in request)
            bill.needed += len(needed)
            bill.held += sum(word in shown for word in needed)
            bill.quoted += bool(context and context.recalled)
            bill.request(request, engine.counter.message(message))
            engine.wait_idle(_IDLE_SECONDS)
        waiting.append(message)
        said.append(json.dumps(message, ensure_ascii=False))
        calls.update((call.id, call) for call in calls_of(message))
        if number + 1 == len(talk) or talk[number + 1]["role"] == "user":
            plugin.after_turn(Turn(session, list(waiting), mode="append", window=window))
            waiting.clear()
            engine.wait_idle(_IDLE_SECONDS)


def _words(call: Call) -> list[str]:
    """The values that a call was made with, as far as they say something."""
    return [word for word in _VALUES.findall(str(call.arguments)) if len(word) >= _LEAST_WORD]


def charge_summaries(engine: Engine, bill: Bill) -> None:
    """Puts every summary on the bill as if a model had written it, also those that were extracted."""

    def charge(event: Event) -> None:
        if event.name == "compaction.pass":
            bill.summary(event.fields["token_before"] + PROMPT_TOKENS, event.fields["token_after"])

    engine.subscribe(charge)
