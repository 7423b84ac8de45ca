"""Rows as the services see them, the same for every store.

Ids are integers for conversations and messages and texts for summaries and files; `message_ref`
and its like turn them into what people and models see. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lcm_plugin.types import ItemKind

ArchiveCause = Literal["manual-reset", "session-deleted", "session-end", "rollover", "cron-rotation"]
FAMILY_CAUSES: frozenset[ArchiveCause] = frozenset({"rollover", "session-end"})
"""A conversation that ended so belongs with those after it of its session key; other causes begin a new family."""
DebtState = Literal["pending", "running", "deferred", "done", "failed"]
BY_PERSON = "person"
"""The level of a summary whose text a person wrote; those of `summarize.base.Level` are a model's and the extraction's."""

MOST_INSTRUCTIONS = 4_096
PART_TYPES = (
    "text",
    "reasoning",
    "tool",
    "patch",
    "file",
    "subtask",
    "compaction",
    "step_start",
    "step_finish",
    "snapshot",
    "agent",
    "retry",
)


def message_ref(message_id: int) -> str:
    """The id of a message as people and models see it."""
    return f"msg_{message_id}"


@dataclass(frozen=True, slots=True)
class FileMoved:
    """A database file was deleted or replaced while it was open.

    ``saved`` is the copy with everything that a replaced file held, and ``missing`` how many of its messages are newer
    than those of the file in its place. A deleted file was written to its path again, whole: ``saved`` is empty.
    """

    location: str
    saved: str
    missing: int

    def __str__(self) -> str:
        if not self.saved:
            return f"the database {self.location} was deleted while it was in use; all of it was written there again"
        return (
            f"the database {self.location} was replaced while it was in use; new messages go into the file that stands "
            f"there now, and everything that the old one held is in {self.saved} ({self.missing:,} of its messages are "
            "newer than any in the new file)"
        )


@dataclass(frozen=True, slots=True)
class Conversation:
    """One stored history and its running totals.

    ``revision`` counts structural changes of the context (not appends): compare-and-swap uses it.
    ``raw_*`` and ``summary_*`` are totals over the context items. ``restart_seq`` is the seq from which
    on the conversation goes on after its last ``/new``. ``plan_id`` is the compacted message whose plan stays in view.
    ``title`` is the name that a person, the host or an imported file gave it, ``project`` the folder or repository that
    it is about, ``source`` the tool and version that held it; empty where nobody said. A title ``by_person`` is kept.
    """

    conversation_id: int
    session_key: str
    session_id: str | None
    active: bool
    created_at: int
    updated_at: int
    archived_at: int | None = None
    archive_cause: str | None = None
    revision: int = 0
    next_seq: int = 1
    message_count: int = 0
    raw_items: int = 0
    raw_tokens: int = 0
    summary_items: int = 0
    summary_tokens: int = 0
    restart_seq: int = 1
    instructions: str | None = ""
    plan_id: int | None = None
    title: str = ""
    project: str = ""
    source: str = ""
    by_person: bool = False

    @property
    def instruction_seqs(self) -> tuple[int, ...]:
        """The seqs of the host's instructions in force, in its order; those later in the talk are not among them."""
        return tuple(map(int, (self.instructions or "").split()))

    @property
    def context_tokens(self) -> int:
        """Tokens of the whole active context."""
        return self.raw_tokens + self.summary_tokens


@dataclass(frozen=True, slots=True)
class Part:
    """A typed block of a message.

    ``path`` is where its text stands in the message (``content``, ``content.0.text``,
    ``tool_calls.1.function.arguments``). ``exact`` is the text JSON-escaped, present only when the
    database cannot hold it as it is. ``file_id`` is set when the text moved to a file; then
    ``text`` is the reference that stands for it.
    """

    ordinal: int
    type: str
    path: str
    text: str
    exact: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    file_id: str | None = None
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message ready to be stored.

    ``skeleton`` is the message as JSON with every part's text taken out; None when it is just role
    and content. ``identity`` is a 64-bit hash of what makes it the same message. ``calls`` and
    ``answers`` are the tool-call ids it makes and answers. ``hidden`` rows are stored and never
    assembled (aborted or empty replies). ``follows`` is the seq of the message before it in the host's list
    where that is not the one stored just before: 0 when a list begins anew. ``speaks`` says that a user speaks in it
    (`messages.blocks.user_speaks`), so that queries need not know what a tool result looks like.
    """

    role: str
    skeleton: str | None
    tokens: int
    identity: int
    created_at: int
    parts: tuple[Part, ...]
    group_seq: int = 0
    host_id: str | None = None
    sender: str | None = None
    channel: str | None = None
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    hidden: bool = False
    follows: int | None = None
    speaks: bool = False

    @property
    def item_tokens(self) -> int:
        """What its context item costs: nothing when it is hidden, or a system prompt, which stands apart."""
        return 0 if self.hidden or self.role == "system" else self.tokens


@dataclass(frozen=True, slots=True)
class MessageHead:
    """A stored message without its parts: what alignment, tails and cutters look at.

    ``withdrawn_at`` is when the host took it back; such a row is ``hidden`` too. ``follows`` and ``speaks`` as in
    `NewMessage`. ``cleared_tokens`` is what is left in contexts of a result that was cleared; None for any other.
    """

    message_id: int
    conversation_id: int
    seq: int
    role: str
    tokens: int
    identity: int
    created_at: int
    group_seq: int
    host_id: str | None
    sender: str | None
    channel: str | None
    calls: tuple[str, ...]
    answers: tuple[str, ...]
    hidden: bool
    withdrawn_at: int | None = None
    follows: int | None = None
    speaks: bool = False
    cleared_tokens: int | None = None

    @property
    def before(self) -> int:
        """The seq of the message before it in the list that brought it; 0 for none."""
        return self.seq - 1 if self.follows is None else self.follows

    @property
    def ref(self) -> str:
        """``msg_…``"""
        return message_ref(self.message_id)


@dataclass(frozen=True, slots=True)
class Reopening:
    """Summaries to be taken apart, and what else comes back in their place.

    ``summary_ids`` holds every summary derived from one that it holds. ``kept`` are the summaries below them that
    stay: id, ordinal in the context, tokens there.
    """

    summary_ids: tuple[str, ...]
    kept: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CallRow:
    """The part of a stored message that links calls with their results."""

    seq: int
    group_seq: int
    calls: tuple[str, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A stored message with its parts, in part order."""

    head: MessageHead
    skeleton: str | None
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One context item with what cutters need to know of what it points to.

    ``message`` is set for raw items; ``depth`` is -1 for them, so that raw < leaf < condensed.
    """

    ordinal: int
    kind: ItemKind
    tokens: int
    depth: int = -1
    message: MessageHead | None = None
    summary_id: str | None = None
    fallback: bool = False

    @property
    def ref(self) -> str:
        """``msg_…`` or ``sum_…``."""
        return self.message.ref if self.message else str(self.summary_id)

    @property
    def hidden(self) -> bool:
        """Whether it stands for a row that no call is given: a record beside the talk, or what was taken back."""
        return self.message is not None and self.message.hidden


@dataclass(frozen=True, slots=True)
class Summary:
    """A node of the DAG. ``source_tokens`` counts its direct sources, ``message_tokens`` all below.

    ``level`` is `BY_PERSON` for a person's text. ``fallback`` marks an extractive text where a model was to write one,
    ``fallback_cause`` says why; ``capped`` marks one that was cut. ``made_ms`` is how long the text took to make, if known.
    """

    summary_id: str
    conversation_id: int
    depth: int
    content: str
    tokens: int
    earliest_at: int
    latest_at: int
    first_seq: int
    last_seq: int
    descendant_count: int
    message_count: int
    source_tokens: int
    message_tokens: int
    level: str
    model: str = ""
    prompt_version: str = ""
    fallback: bool = False
    fallback_cause: str = ""
    capped: bool = False
    created_at: int = 0
    file_ids: tuple[str, ...] = ()
    made_ms: int | None = None

    @property
    def kind(self) -> Literal["leaf", "condensed"]:
        """``leaf`` for depth 0, else ``condensed``."""
        return "leaf" if self.depth == 0 else "condensed"


@dataclass(frozen=True, slots=True)
class Publication:
    """A new summary and what it replaces; stored only if that still stands.

    ``item_tokens`` is what the summary costs in a context, its wrapper included.
    """

    summary: Summary
    replaces: tuple[Item, ...]
    revision: int
    item_tokens: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """An externalised payload. ``uri`` is relative to the folder, or ``db:`` for bytes in the database."""

    file_id: str
    conversation_id: int
    sha256: str
    uri: str
    byte_size: int
    name: str = ""
    mime_type: str = ""
    line_count: int | None = None
    exploration: str = ""
    truncated: bool = False
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class Debt:
    """Compaction owed by one conversation. ``revision`` and ``next_seq`` are what a verdict was about.

    ``budget``, ``overhead``, ``model`` and ``window`` are those of the model call that made it due.
    """

    conversation_id: int
    state: DebtState
    reason: str
    requested_at: int
    budget: int | None = None
    attempts: int = 0
    next_attempt_at: int = 0
    owner: str | None = None
    lease_until: int = 0
    last_error: str = ""
    revision: int = -1
    next_seq: int = -1
    overhead: int = 0
    model: str = ""
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Context items taken out by ``/new``, so that it can be undone."""

    snapshot_id: int
    conversation_id: int
    created_at: int
    cause: str
    revision: int
    items: tuple[tuple[int, ItemKind, str, int], ...]


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """What ``/lcm`` says about the whole database. ``last_stored_at`` is in milliseconds, None for an empty one."""

    location: str
    size_bytes: int
    conversations: int
    active_conversations: int
    messages: int
    summaries_by_depth: Mapping[int, int] = field(default_factory=dict)
    last_stored_at: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
