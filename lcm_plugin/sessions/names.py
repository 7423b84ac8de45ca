"""The names by which people know conversations: title, project and source, or the words that they begin with.

A title comes from a person (`lcm rename`), the host or an imported file. Without one the first request stands in for it;
it is read from the messages each time, so that what is redacted or pruned there is gone from here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from lcm_plugin.characters import storable
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.sessions.globs import matches
from lcm_plugin.store.protocol import Reader, Store, Writer
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import Message, Session

NAMES = ("title", "project", "source")
_MOST_CHARS = 80
_MOST_STORED = 500


@dataclass(frozen=True, slots=True)
class NamedConversation:
    """A conversation as people see it listed. ``messages`` leaves records beside the talk out."""

    row: Conversation
    messages: int
    begins: str

    @property
    def title(self) -> str:
        """Its title, or how it begins."""
        return self.row.title or self.begins

    def as_dict(self) -> dict[str, Any]:
        """What is added to the row's own values for programs."""
        return {"messages": self.messages, "begins": self.begins}


def named(reader: Reader, rows: Sequence[Conversation]) -> list[NamedConversation]:
    """Conversations with their counts and first words, in the order given."""
    openings = reader.openings([row.conversation_id for row in rows])
    firsts = [message_id for _, message_id in openings.values() if message_id is not None]
    stored = reader.messages_by_id(firsts)
    found = []
    for row in rows:
        messages, first = openings.get(row.conversation_id, (row.message_count, None))
        begins = first_words(rebuild(stored[first])) if first in stored else ""
        found.append(NamedConversation(row, messages, begins))
    return found


def talk_count(reader: Reader, row: Conversation) -> int:
    """How many messages a conversation has, records beside the talk apart."""
    return reader.openings([row.conversation_id]).get(row.conversation_id, (row.message_count, None))[0]


def first_words(message: Message) -> str:
    """The beginning of a message on one line."""
    words = " ".join(text_of(message).split())
    return words if len(words) <= _MOST_CHARS else words[: _MOST_CHARS - 1].rstrip() + "…"


def fits(selector: str, one: NamedConversation) -> bool:
    """Whether a person who writes this means the conversation: its key, its title, or its project.

    A glob matches the whole of one of them; without stars case does not matter, and a project may be named by its
    last folder.
    """
    row = one.row
    if "*" in selector:
        return any(matches(selector, name) for name in (row.session_key, one.title, row.project) if name)
    wanted = selector.casefold().rstrip("/")
    names = (one.title, row.project.rstrip("/"), PurePath(row.project).name)
    return row.session_key == selector or any(wanted == name.casefold() for name in names if name)


def give_names(writer: Writer, row: Conversation, names: Mapping[str, Any]) -> None:
    """Stores the names that a tool gives, but for a title where a person gave one."""
    if new := _new_names(row, names):
        writer.name_conversation(row.conversation_id, new)


def keep_names(store: Store, session: Session, about: Mapping[str, Any]) -> None:
    """Stores the names among what a host says about a turn (``metadata``)."""
    if about.keys() & set(NAMES):
        with store.read() as reader:
            row = reader.find_conversation(session)
        if row is not None and _new_names(row, about):
            with store.write() as writer:
                give_names(writer, row, about)


def rename(writer: Writer, row: Conversation, title: str) -> None:
    """Gives a title that no tool changes again; an empty one takes it away."""
    text = _one_line(title)
    writer.name_conversation(row.conversation_id, {"title": text, "by_person": bool(text)})


def _new_names(row: Conversation, names: Mapping[str, Any]) -> dict[str, str]:
    given = {name: _one_line(value) for name in NAMES if isinstance(value := names.get(name), str)}
    return {
        name: text
        for name, text in given.items()
        if text and text != getattr(row, name) and not (name == "title" and row.by_person)
    }


def _one_line(text: str) -> str:
    return storable(" ".join(text.split()))[:_MOST_STORED]


def newest_first(rows: Iterable[Conversation]) -> list[Conversation]:
    """Conversations by their last use."""
    return sorted(rows, key=lambda row: (row.updated_at, row.conversation_id), reverse=True)
