"""The records that cross the public API.

All are frozen; messages are plain dicts in OpenAI's chat shape, as hosts hand them over.
Token counts are integers, times are milliseconds since the epoch unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

Message: TypeAlias = dict[str, Any]
IngestMode: TypeAlias = Literal["append", "sync", "whole", "state", "part", "all"]
LIST_MODES = ("sync", "whole", "state", "part")
"""The modes of a host that hands over its whole list, not only what is new in it."""
ItemKind: TypeAlias = Literal["message", "summary"]

HOST_DATA = "host_data"
"""The key under which a host keeps what belongs to a message but never reaches a model: it is not counted."""


@dataclass(frozen=True, slots=True)
class Session:
    """A lane of talk: ``key`` is its stable name, ``id`` one run of it."""

    key: str
    id: str | None = None

    @property
    def name(self) -> str:
        """The key, or the id of a session that has no key; empty for one that has neither."""
        return self.key or self.id or ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider counted for one model call. ``prompt_tokens`` includes cache reads."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """What one model call was given, as we counted it: the record that its usage is compared with.

    ``tokens`` are the context's, ``overhead`` is what the host said it adds, ``images`` is the number of images and
    other files in it. ``next_seq`` is the place of the next message to be stored: what is stored after it and
    before the answer was sent too. None when ``tokens`` are all that was sent.
    """

    tokens: int
    overhead: int
    next_seq: int | None
    images: int = 0


@dataclass(frozen=True, slots=True)
class Pin:
    """A text that stands word for word in every context of its session.

    ``tokens`` is what it costs there. ``pinned_by`` is ``user`` or ``agent``. The text of a pinned message is copied:
    ``message_id`` and ``speaker`` say where it comes from; None and empty for a text of its own.
    """

    pin_id: str
    conversation_id: int
    text: str
    tokens: int
    created_at: int
    pinned_by: str
    message_id: int | None = None
    speaker: str = ""

    @property
    def source(self) -> str:
        """``msg_…`` of a pinned message, else the empty text."""
        return "" if self.message_id is None else f"msg_{self.message_id}"


@dataclass(frozen=True, slots=True)
class RunPosition:
    """Where the running turn of a host's list stands: rows of other runs may lie between or behind its own.

    All are seqs: ``fork`` of the newest message before the turn, ``turn`` of its request, ``end`` of the list's last
    message where the list ends before what is stored of the turn.
    """

    fork: int
    turn: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What a host hands over at a turn's two ends.

    ``mode`` says what ``messages`` is: ``sync`` the host's whole list, ``whole`` the same when nothing follows its last
    message (what is stored behind it is taken back), ``state`` the same under ids that stay (other words under a stored
    id are an edit), ``part`` a whole list or only its newest part, under ids that may be new each time, ``append`` what
    is new in it, ``all`` the same without a look for messages that come again.
    ``window`` is the model's context size; ``overhead_tokens`` is what the host adds itself
    (system prompt, tool schemas). ``usage`` belongs to the turn's last model call, and ``sent`` is that call's
    `Context.sent`; without it the newest context of the session is taken for what was sent.
    ``run`` is `IngestReport.run`, from a host that stored the messages itself.
    Without ``recall`` no old messages are quoted: the host does that itself.
    ``metadata["overflow"]``, true or the provider's error text, says that it refused the last context as too long.
    """

    session: Session
    messages: Sequence[Message]
    mode: IngestMode = "sync"
    model: str | None = None
    window: int | None = None
    overhead_tokens: int = 0
    prompt: str | None = None
    usage: Usage | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    sent: Sent | None = None
    run: RunPosition | None = None
    recall: bool = True


@dataclass(frozen=True, slots=True)
class Reset:
    """A host's reset: ``new`` prunes by retain depth, ``reset`` archives and starts afresh."""

    session: Session
    kind: Literal["new", "reset"]
    retain_depth: int | None = None


@dataclass(frozen=True, slots=True)
class IngestReport:
    """How many messages were stored, how many were known already, and why if none was.

    Of the stored ones ``converted`` names each value that JSON lacks (``message 1.content: datetime``), and
    ``broken`` each message that could only be stored in part, with the cause.
    ``withdrawn`` counts the messages that the host's list took back, ``brought_back`` those that it has again. ``run``
    is for `Engine.assemble`: the context then ends as this list does.
    """

    stored: int
    skipped: int
    reason: str = ""
    converted: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    withdrawn: int = 0
    brought_back: int = 0
    run: RunPosition | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """Tokens of a call of ``budget`` tokens that stay whatever is compacted.

    ``host`` is what the host sends beside the talk, ``standing`` instructions, pins and the newest plan, ``turn`` the
    newest request and all that came of it.
    """

    budget: int
    host: int
    standing: int
    summaries: int
    turn: int

    @property
    def tokens(self) -> int:
        """All of it."""
        return self.host + self.standing + self.summaries + self.turn


@dataclass(frozen=True, slots=True)
class Context:
    """One model call's context.

    ``over_budget`` is true only when the newest user message, with the tool results to answer in their
    least form, does not fit. ``notices`` are sentences for a person. ``prefix_epoch`` changes exactly when
    earlier output stopped being a prefix of this one; ``cache_hint`` is the index of the last message worth
    a cache breakpoint. ``sent`` goes back to `Turn.sent` with the usage of the call. ``recalled`` are the messages
    from outside the view that are quoted before the newest request, ``shown`` is what stands in it, in order, and
    ``request`` the newest message in which a user speaks; empty when there is none. ``crowded`` is what fills it, where
    the model is told that it is nearly full of what cannot be compacted.
    """

    messages: list[Message]
    tokens: int
    summaries: tuple[str, ...] = ()
    over_budget: bool = False
    notices: tuple[str, ...] = ()
    prefix_epoch: str = ""
    cache_hint: int | None = None
    recalled: tuple[str, ...] = ()
    sent: Sent | None = field(default=None, compare=False, repr=False)
    shown: tuple[InContext, ...] = field(default=(), compare=False, repr=False)
    request: str = field(default="", compare=False, repr=False)
    crowded: Fixed | None = field(default=None, compare=False, repr=False)


class InContext(Protocol):
    """What stands in a context: a stored message, a summary or a pin. ``cuts`` is in how many places it was shortened,
    ``cleared`` that it is an old result of which only a few words stand there.
    """

    @property
    def ref(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def tokens(self) -> int: ...
    @property
    def cuts(self) -> int: ...
    @property
    def cleared(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One pointer of a conversation's active context. ``id`` is ``msg_…`` or ``sum_…``."""

    ordinal: int
    kind: ItemKind
    id: str
    depth: int
    tokens: int


class Reason(StrEnum):
    """Why compaction is due, or how it ended."""

    BELOW_THRESHOLD = "below_threshold"
    LEAF_CHUNK_READY = "leaf_chunk_ready"
    OVER_THRESHOLD = "over_threshold"
    OVER_HARD_LIMIT = "over_hard_limit"
    TOO_MANY_MESSAGES = "too_many_messages"
    MANUAL = "manual"
    DISABLED = "disabled"
    CAPTURE_ONLY = "capture_only"
    HOST_COMPACTS = "host_compacts"
    DONE = "done"
    NOTHING_ELIGIBLE = "nothing_eligible"
    NO_PROGRESS = "no_progress"
    LOCKED = "locked"
    DEFERRED = "deferred"
    CALLS_USED_UP = "calls_used_up"
    MODEL_FAILED = "model_failed"
    BUDGET_UNREACHABLE = "budget_unreachable"
    CANCELLED = "cancelled"
    IGNORED = "ignored"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class CompactionDecision:
    """Whether a conversation should be compacted now. ``threshold`` is in tokens."""

    due: bool
    reason: Reason
    tokens: int
    threshold: int

    @property
    def left_to_host(self) -> bool:
        """Whether the conversation is never compacted here, by the settings or because its host said so."""
        return self.reason in (Reason.CAPTURE_ONLY, Reason.HOST_COMPACTS)


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """How a compaction ended. ``compacted`` is true only when the context shrank."""

    compacted: bool
    reason: Reason
    passes: int
    tokens_before: int
    tokens_after: int
    summaries: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CompactionUndo:
    """How taking a compaction back ended: summaries taken apart, tokens of the context before and after.

    ``refusal`` says why nothing was done; it is empty when something was.
    """

    summaries: int
    tokens_before: int
    tokens_after: int
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A chat command's answer: Markdown for people, ``data`` for programs."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    ok: bool = True


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One model call. ``purpose`` is what it is for; ``timeout`` is in seconds. ``seed`` asks for the same answer again."""

    messages: Sequence[Message]
    max_tokens: int
    temperature: float = 0.2
    model: str | None = None
    purpose: Literal["summary", "file_summary", "expansion", "map"] = "summary"
    timeout: float = 60.0
    tools: Sequence[Mapping[str, Any]] = ()
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """A model's answer. ``tool_calls`` are in OpenAI's shape."""

    text: str
    model: str = ""
    usage: Usage | None = None
    tool_calls: Sequence[Mapping[str, Any]] = ()
    finish_reason: str = ""


@runtime_checkable
class BatchCompleter(Protocol):
    """A completer that also takes many requests at once: a provider's batch interface, or a local model's batch.

    Maps use it. ``complete_many`` returns an answer for each request, in order, or an exception in its place.
    """

    batch_size: int

    def __call__(self, request: CompletionRequest) -> str | CompletionResult | None: ...

    def complete_many(
        self, requests: Sequence[CompletionRequest]
    ) -> Sequence[str | CompletionResult | Exception | None]: ...


Completer: TypeAlias = Callable[[CompletionRequest], "str | CompletionResult | None"]


class Severity(StrEnum):
    """How much a finding matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """A number to sort by, the worst first."""
        return -list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the integrity checker saw. ``code`` names its class, ``ids`` what it is about."""

    code: str
    severity: Severity
    message: str
    ids: tuple[str, ...] = ()
    conversation_id: int | None = None
    repair: str = ""


@dataclass(frozen=True, slots=True)
class IntegrityReport:
    """The checker's findings; ``checked`` counts what was looked at."""

    findings: tuple[Finding, ...]
    checked: Mapping[str, int] = field(default_factory=dict)
    complete: bool = True

    @property
    def ok(self) -> bool:
        """True when nothing is broken; warnings and remarks do not count."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One repair: what it would do to which ids, and whether it removes anything."""

    code: str
    description: str
    ids: tuple[str, ...] = ()
    conversation_id: int | None = None
    destructive: bool = False


@dataclass(frozen=True, slots=True)
class RepairResult:
    """What one step did: how many rows or summaries it mended, how many it could not, and why."""

    step: RepairStep
    mended: int
    failed: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """What ``doctor apply`` did, and where the copy of the database is that was made before.

    ``left`` are steps that delete or end something and were not allowed.
    """

    results: tuple[RepairResult, ...]
    backup: str = ""
    left: tuple[RepairStep, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every step did all it should."""
        return not any(result.failed or result.error for result in self.results)


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What ``doctor apply`` would do, and which findings it cannot mend."""

    steps: tuple[RepairStep, ...]
    refused: tuple[Finding, ...] = ()
