"""What was said earlier and fits a prompt: quotes from this and other sessions of the project, before the model answers.

Active recall decides whether and what (`recall.active`). Here is decided where it looks, and what the host's model can still
read: what was said in this session since its last compaction, and what was quoted since then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from lcm_plugin.assembly.recalled import InView, Recalled
from lcm_plugin.engine import Engine
from lcm_plugin.hosts.agents.calls import HookCall
from lcm_plugin.hosts.agents.projects import conversations_of
from lcm_plugin.hosts.agents.quotes import Read
from lcm_plugin.recall.scope import Scope
from lcm_plugin.sessions.access import Access
from lcm_plugin.store.protocol import Reader, iterate_items
from lcm_plugin.types import Session

MOST_TOKENS = 370
"""About 1,500 characters: they are paid for again in each request until the next compaction."""
ROOM = 10 * MOST_TOKENS
"""A context so large that it leaves them that much."""
_COMPACTIONS = (b'"isCompactSummary":true', b'"type":"compacted"', b'{"$set":{"messages"')
_COMMAND = re.compile(r"/[\w:.-]+(?:\s|\Z)")
_BY_PROGRAM = (
    "<task-notification>",
    "<local-command-",
    "<command-",
    "<system-reminder>",
    "<bash-",
    "Caveat: ",
    "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>",
)


class Passages:
    """The quotes of one server's sessions. Prompts come one after the other."""

    def __init__(self, host: str, open_engine: Callable[[], Engine]) -> None:
        self._host = host
        self._open = open_engine
        self._read: dict[str, Read] = {}
        self._compacted: dict[str, int] = {}

    def compacted(self, session: str) -> None:
        """The host took all that was stored of a session, and all that was quoted in it, out of its context."""
        self._read[session] = Read()
        with self._open().store.read() as reader:
            self._compacted[session] = reader.newest_row("message")

    def begin_anew(self, session: str) -> None:
        """A host compacted a session: its log says what is still quoted in the context."""
        self._read.pop(session, None)

    def for_prompt(self, call: HookCall, shown: Callable[[], InView] | None = None) -> str:
        """The block of quotes for a prompt, or an empty text. ``shown``: of a host whose contexts are made here."""
        if not is_persons(call):
            return ""
        key = f"agent:{self._host}:{call.session}"
        if self._is_hidden(key):
            return ""
        view = shown() if shown else None
        with self._open().store.read() as reader:
            own = reader.find_conversation(Session(key))
            among = conversations_of(reader, call.cwd, self._is_hidden)
            among |= {one.conversation_id for one in reader.family(key)}
            if not among:
                return ""
            view = view or self._hosts_view(reader, own.conversation_id if own else None, call)
            found: Recalled | None = self._open().active_recall.within(
                reader, key, Scope(tuple(sorted(among))), call.prompt, view
            )
        return str(found.message["content"]) if found else ""

    def delivered(self, session: str, text: str) -> None:
        """What the host was given stands in its context, until the next compaction."""
        self._read.setdefault(session, Read()).add(text)

    def answered(self, text: str) -> None:
        """What a recall tool answered stands in the context of whichever session asked, until the next compaction."""
        for read in list(self._read.values()):
            read.add(text)

    def _hosts_view(self, reader: Reader, conversation_id: int | None, call: HookCall) -> InView:
        """What a context that the host makes itself shows."""
        seen = self._visible(reader, conversation_id, call.session) if conversation_id else set()
        if call.session not in self._read:
            self._read[call.session] = Read()
            self._read[call.session].add(_since_compaction(call.transcript))
        read = self._read[call.session]
        return InView(
            frozenset(seen),
            left_out=True,
            room=ROOM,
            free=MOST_TOKENS,
            quotes=read.quotes,
            places=read.places,
        )

    def _visible(self, reader: Reader, conversation_id: int, session: str) -> set[str]:
        """The messages of a session that its host has not compacted."""
        gone = self._compacted.get(session, 0)
        items = iterate_items(reader, conversation_id, raw=True)
        return {one.message.ref for one in items if one.message is not None and one.message.message_id > gone}

    def _is_hidden(self, key: str) -> bool:
        return self._open().sessions.access_of_key(key) is Access.NONE


def pack_is_due(log: str) -> bool:
    """Whether a chat of Gemini CLI was compressed and nothing was said of it since."""
    text = _since_compaction(log)
    return "<state_snapshot>" in text and "lcm-resume" not in text


def _since_compaction(log: str) -> str:
    try:
        data = Path(log).read_bytes()
    except OSError:
        return ""
    return data[max(0, *map(data.rfind, _COMPACTIONS)) :].decode("utf-8", "replace")


def is_persons(call: HookCall) -> bool:
    """Whether a person wrote a prompt, to the session itself: no notice of a program, no command, no sub-agent's order."""
    return not call.agent and is_a_persons_text(call.prompt) and not _is_sub_agents(call.transcript)


def is_a_persons_text(prompt: str) -> bool:
    """Whether a prompt is neither blank nor a notice of a program nor a command."""
    text = prompt.strip()
    return bool(text) and not text.startswith(_BY_PROGRAM) and not _COMMAND.match(text)


def _is_sub_agents(log: str) -> bool:
    """Whether a log of Codex is that of a sub-agent, which its first line says."""
    if not Path(log).name.startswith("rollout-"):
        return False
    try:
        with Path(log).open("rb") as file:
            first = json.loads(file.readline())
    except (OSError, ValueError):
        return False
    about = first.get("payload") if isinstance(first, dict) else None
    return isinstance(about, dict) and (
        about.get("thread_source") == "subagent" or bool(about.get("parent_thread_id"))
    )
