"""The search part of the store seam.

A store finds rows and hands over their texts; what counts as a match in the end, how matches are
ranked and what is shown of them is decided above it, the same for every store. Rows are messages or
summaries; both have integer row ids that grow with time. Text is every part of a message that a
person could have read, joined by newlines, without reasoning and without inline binaries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_letters, digits
from typing import Literal, NamedTuple, Protocol, TypeAlias

from lcm_plugin.errors import StoreError

RowKind = Literal["message", "summary"]
Order = Literal["relevance", "recency"]
# A conversation, and the first and last seq of a piece of it.
Stretch: TypeAlias = tuple[int, int, int]


# It begins with the capital, which few characters are, so that most of a text is passed over fast.
_BOUNDARY = re.compile(r"[A-Z](?<=[a-z][a-z].)(?=[a-z][a-z])")
_REST_OF_NAME = re.compile(r"[A-Za-z0-9]*")
_NAME_CHARACTERS = frozenset(ascii_letters + digits)


def name_parts(text: str) -> Iterator[tuple[int, int]]:
    """Where the parts of names like ``retryLimit`` stand, which are words of their own for every index.

    A part is told by two small letters and a capital with two small ones, so that encoded data has few of them.
    """
    start = end = 0
    for boundary in _BOUNDARY.finditer(text):
        at = boundary.start()
        if at >= end:
            if end:
                yield start, end
            start = at
            while start and text[start - 1] in _NAME_CHARACTERS:
                start -= 1
            end = _REST_OF_NAME.match(text, at).end()  # type: ignore[union-attr]  # it matches anything
        yield start, at
        start = at
    if end:
        yield start, end


class IndexUnusable(StoreError):
    """There is no full-text index that answers; rows can still be scanned."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One thing to find: a ``word`` (any form of it) or a run of Chinese, Japanese or Korean (``cjk``).

    Several words in one text are a phrase. Each of ``forms`` counts as well.
    """

    kind: Literal["word", "cjk"]
    text: str
    forms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WordQuery:
    """Rows with any of the clauses, or with ``all`` of them."""

    clauses: tuple[Clause, ...]
    all: bool = False


@dataclass(frozen=True, slots=True)
class Substring:
    """A text of at least three characters that must occur, whatever its case."""

    text: str


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one of the conditions holds."""

    terms: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the conditions holds."""

    terms: tuple[Condition, ...]


Condition: TypeAlias = Substring | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows may be found at all. None means no limit; times are instants in milliseconds.

    ``since`` is inclusive, ``before`` exclusive; a summary passes when any of its time does.
    ``spans`` are times like these two, of which a row must be in one: all are looked for at once.
    ``up_to_id`` hides rows that are newer than a first page. Roles, tools and senders apply to messages only.
    """

    conversation_ids: tuple[int, ...] | None
    roles: tuple[str, ...] | None = None
    tool_name: str | None = None
    since: int | None = None
    before: int | None = None
    up_to_id: int | None = None
    senders: tuple[str, ...] | None = None
    spans: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """A found row and the store's own score, higher is better."""

    row_id: int
    score: float


class SearchRow(NamedTuple):
    """A row with its text. ``position`` is the message's seq, or the summary's first seq.

    ``tool_name``: a tool that the message calls or answers. ``hidden``: no context shows it. A search makes hundreds of
    rows, and a named tuple takes a third of a frozen dataclass's time.
    """

    row_id: int
    ref: str
    conversation_id: int
    position: int
    role: str
    sender: str | None
    at: int
    tokens: int
    text: str
    depth: int = -1
    until: int = 0
    tool_name: str | None = None
    hidden: bool = False

    @property
    def is_message(self) -> bool:
        """Whether it is a message, not a summary."""
        return self.depth < 0

    @property
    def is_tool_output(self) -> bool:
        """Whether a tool speaks: some providers have its results under the user's role."""
        return self.role == "tool" or (self.role == "user" and self.tool_name is not None)


@dataclass(frozen=True, slots=True)
class IndexState:
    """``available``: the database can index at all. ``usable``: the index answers. ``lag``: rows not in it yet."""

    available: bool
    usable: bool
    message_lag: int
    summary_lag: int


class VectorReader(Protocol):
    """Queries of vectors, which a model made of messages for search by meaning.

    All of it is derived. The tables come into being with the first vector, hold the vectors of one model only, and
    can be thrown away at any time. A message's vectors are one byte string, which only the embedder can read; it is
    empty for a message without text. A database without vectors answers like an empty one.
    """

    def vector_model(self) -> str | None:
        """The name of the model whose vectors are stored; None when there are none."""

    def vectors(self, message_ids: Sequence[int]) -> dict[int, bytes]:
        """The vectors of messages by id; those that have none yet are left out."""

    def vector_count(self) -> int:
        """How many messages have vectors."""

    def vectors_after(self, message_id: int) -> Iterator[list[tuple[int, int, bytes]]]:
        """The messages after one that have vectors, in order, in batches: id, conversation and vectors."""

    def messages_without_vectors(self, model: str, limit: int) -> list[int]:
        """The oldest messages that this model has not seen, in order."""


class VectorWriter(Protocol):
    """Changes of vectors."""

    def store_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        """Stores what `messages_without_vectors` named; those of another model are thrown away first."""

    def forget_vectors(self, message_ids: Sequence[int]) -> None:
        """Throws vectors away; call it before texts change. The messages are then without vectors again."""


class SearchReader(VectorReader, Protocol):
    """Queries. The index may lag behind; `unindexed_rows` gives what it does not hold yet."""

    def index_state(self) -> IndexState:
        """How the index stands, without reading it through."""

    def find_words(
        self, kind: RowKind, query: WordQuery, rows: Filter, *, order: Order, limit: int, offset: int = 0
    ) -> list[Scored]:
        """Indexed rows with the words, best or newest first.

        Raises `IndexUnusable` when there is no index that answers.
        """

    def rows_with_words(
        self, kind: RowKind, words: Sequence[str], beginnings: Sequence[str], rows: Filter, limit: int
    ) -> list[int]:
        """Up to ``limit`` indexed rows with any of many words, or with a word that begins with one of some letters.

        Only the conversations and ``up_to_id`` of the filter count. Raises `IndexUnusable`.
        """

    def count_words(self, kind: RowKind, query: WordQuery, rows: Filter, cap: int) -> int:
        """How many indexed rows have the words; stops counting at ``cap``."""

    def count_each(
        self, kind: RowKind, queries: Sequence[WordQuery], rows: Filter, cap: int
    ) -> Iterator[int]:
        """`count_words` of some queries: one by one as they are taken, or at once where a server is waited for."""

    def document_shares(self, kind: RowKind, clauses: Sequence[Clause], rows: Filter) -> list[float]:
        """In which share of the filter's conversations' rows each clause occurs, 0 to 1; may be estimated."""

    def newest_row(self, kind: RowKind) -> int:
        """The highest row id there is; 0 when there is none."""

    def row_count(self, kind: RowKind, rows: Filter) -> int:
        """About how many rows the filter's conversations hold, without a scan."""

    def scan(self, kind: RowKind, rows: Filter, condition: Condition | None = None) -> Iterator[SearchRow]:
        """Rows newest first, streamed; with a condition only those that an index cannot rule out."""

    def unindexed_rows(self, kind: RowKind, rows: Filter) -> Iterator[SearchRow]:
        """The rows that the index does not hold yet, newest first, streamed."""

    def search_rows(self, kind: RowKind, row_ids: Sequence[int]) -> dict[int, SearchRow]:
        """Rows by id; unknown ids are left out."""

    def rows_within(self, stretches: Sequence[Stretch]) -> list[SearchRow]:
        """The messages of some stretches that are not hidden, each once, by conversation and in order."""

    def message_senders(self, conversation_ids: Sequence[int] | None) -> list[str]:
        """Who wrote in these conversations (in the newest ones with None), when hosts said so; at most 300 names."""

    def session_keys(self, prefix: str) -> dict[int, str]:
        """The conversations whose session key starts with a text, with their keys; all for the empty text."""


class SearchWriter(VectorWriter, Protocol):
    """Maintenance of the index. None of it is needed for a message to be stored."""

    def index_pending(self, limit: int = 500) -> int:
        """Indexes up to ``limit`` rows that are not indexed yet and returns how many it did."""

    def unindex_messages(self, message_ids: Sequence[int]) -> None:
        """Takes messages and their vectors out of the index; call it before their texts change or their rows go."""

    def reindex_messages(self, message_ids: Sequence[int]) -> None:
        """Puts messages back into the index with the texts they have now."""

    def unindex_summaries(self, summary_ids: Sequence[str]) -> None:
        """Takes summaries out of the index; call it before their rows go."""

    def reindex_summaries(self, summary_ids: Sequence[str]) -> None:
        """Puts summaries back into the index with the texts they have now."""

    def reset_index(self) -> None:
        """Throws the index away; what `index_pending` does from then on builds it again."""
