"""Finds the conversations of a session's key that may hold its rows already, beside the one that an import writes to.

The plugin in a host stores under the key of the session: a reset there begins another conversation of that key. The host
may keep all of it as one session, or write a session anew when a person goes back in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lcm_plugin.interchange.importers.entry_rows import HEAD, head_entry
from lcm_plugin.interchange.importers.records import SourceConversation
from lcm_plugin.interchange.importers.report import ConversationReport
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation


@dataclass(frozen=True, slots=True)
class Kin:
    """``own`` is what an earlier import wrote; ``held`` names it and what imports wrote of earlier forms of the session.

    ``others`` are the conversations of the key that a plugin in the host began, by their ids. A branch that an import
    stored is none of them: what comes back from it is stored with the session again.
    """

    own: Conversation | None
    held: Sequence[int]
    others: Mapping[int, Conversation]

    def recorded(self, reader: Reader, host_ids: Sequence[str]) -> dict[str, int]:
        """Which messages a plugin in the host stored by itself, and in which conversation."""
        known = reader.known_host_ids(list(self.others), host_ids) if self.others else ()
        found: dict[str, int] = {}
        for conversation_id in self.others if known else ():
            here = reader.known_host_ids([conversation_id], list(known))
            found |= dict.fromkeys(here, conversation_id)
        return found


def kin_of(reader: Reader, format_name: str, source: SourceConversation, report: ConversationReport) -> Kin:
    """What is stored under a conversation's key."""
    own, held = None, list[int]()
    for form in _forms(source):
        found = reader.conversation_holding(report.key, head_entry(format_name, form, report).host_id)
        if found is not None:
            held.append(found.conversation_id)
            same = (form.branch, form.since) == (source.branch, source.since)
            own = found if own is None and same else own
    recorded = reader.lane(report.key, without=HEAD)
    return Kin(own, held, {one.conversation_id: one for one in recorded if one.conversation_id not in held})


def _forms(source: SourceConversation) -> Iterator[SourceConversation]:
    """The conversation, its earlier forms, and those from before it was a branch or began anew."""
    for branch in dict.fromkeys((source.branch, "")):
        for since in dict.fromkeys((source.since, "")):
            for name in (source.name, *source.formerly):
                yield replace(source, name=name, branch=branch, since=since)
