"""``lcm_grep``: search of messages, summaries and files within a scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.recall.filesearch import FilesFound, ReadFile, files_in, search_files
from lcm_plugin.recall.fitting import Items, View, cost_of
from lcm_plugin.recall.mapsearch import is_map, map_as_file, with_maps
from lcm_plugin.recall.match import Matcher
from lcm_plugin.recall.query import WORD, ParsedQuery, any_of, fold, parse_query
from lcm_plugin.recall.rank import Ranked
from lcm_plugin.recall.regex import RegexSearch
from lcm_plugin.recall.results import (
    LEAST_HIT_TOKENS,
    LEAST_TOKENS,
    TOKENS_PER_HIT,
    Cursor,
    Page,
    decode,
    file_hit,
    fingerprint,
    of_others,
)
from lcm_plugin.recall.scope import LeftOut, Scope, not_found, parse_refs, unanswered_request
from lcm_plugin.recall.semantic.meaning import Semantics
from lcm_plugin.recall.textsearch import THOROUGH, Effort, Patience, TextSearch
from lcm_plugin.recall.times import NO_TIMES, AskedTimes, format_instant, named_periods, parse_time
from lcm_plugin.recall.tools import LARGEST, GrepArguments
from lcm_plugin.recall.weaker import resolve
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import FileRecord
from lcm_plugin.store.search import Filter, RowKind, SearchRow, Stretch

SUMMARY_SHARE = 5
# A request that holds so much of a pattern asks the same.
REPEATED_SHARE = 0.66
FILES_SHARE = 5
FILES_SECONDS = 1.0
FROM_OTHERS = (
    "little of this was said in this session, so others were searched too: session_key names the session of a hit; read on "
    "with all_conversations"
)
NO_ROOM, NO_ROOM_TOKENS = "lines of files had no room; scope 'files' shows them", 30
# Of an answer's tokens, what notices may take.
NOTICES_SHARE = 0.3
MOST_FILES = 200
_MOST_COUNTED = 10_000
REGEX_HINT = "the pattern looks like a regular expression; use mode 'regex' to match it as one"


@dataclass(frozen=True, slots=True)
class Clockwork:
    """The present and the time zone of times without one."""

    now_ms: int
    zone: str


@dataclass(slots=True)
class _Outcome:
    """Rows of one kind for this page, and what is known of the rest."""

    rows: list[Ranked]
    total: int
    exact: bool
    next_position: int | None
    # Where the row after each of these begins: places in the ranking, or the row's own id (a regex).
    start: int = 0
    by_row: bool = False

    def position_after(self, shown: int) -> int | None:
        """Where the next page goes on when only the first ``shown`` rows had room on this one."""
        if shown >= len(self.rows):
            return self.next_position
        if self.by_row:
            return self.rows[shown - 1].row.row_id if shown else self.rows[0].row.row_id + 1
        return self.start + shown


@dataclass(slots=True)
class Grep:
    """One search. ``run`` answers it with a dict for a model."""

    reader: Reader
    scope: Scope
    arguments: GrepArguments
    clock: Clockwork
    read_file: ReadFile
    count: Callable[[str], int]
    own: int | None = None
    granted_tokens: int | None = None
    # Whether the scope was widened to other sessions since the caller's own held nothing.
    with_others: bool = False
    semantics: Semantics | None = None
    effort: Effort = THOROUGH
    patience: Patience = field(default_factory=Patience)
    notices: list[str] = field(default_factory=list)
    index_failed: bool = False
    left_out: LeftOut = field(init=False)
    times: AskedTimes = NO_TIMES
    # Of what is searched for, the largest share that one hit holds.
    best_share: float = 0.0

    def __post_init__(self) -> None:
        self.left_out = LeftOut(self._running_turn(), recall_answers=self.arguments.tool_name is None)

    def run(self) -> dict[str, Any]:
        """Hits, true totals or "at least", the cursor of the next page, and notices."""
        asked = self.arguments
        if not self.scope.conversation_ids:
            return self._answer([], 0, True, None)
        search = fingerprint(asked.model_dump(exclude={"cursor", "limit", "token_cap"}))
        if self.with_others:
            search = of_others(search)
            self._note(FROM_OTHERS)
        cursor = decode(asked.cursor, search) if asked.cursor else None
        regex = RegexSearch(asked.pattern) if asked.mode == "regex" else None
        periods, pattern = named_periods(asked.pattern, self.clock.now_ms, self.clock.zone)
        self.times = AskedTimes(tuple(periods), self.clock.zone)
        query = parse_query(pattern)
        if self.semantics is not None and self.semantics.missing:
            self._note(self.semantics.missing)
        if regex is None and query.looks_like_regex:
            self.notices.append(REGEX_HINT)
        rows = self._filter()
        if asked.scope == "files" or asked.file_ids:
            return self._answer_files(regex or query, cursor, search)
        newest = dict(cursor.newest) if cursor else self._newest()
        outcomes: dict[RowKind, _Outcome] = {}
        for kind in self._kinds():
            if cursor and kind not in cursor.position:
                continue
            start = cursor.position[kind] if cursor else 0
            wanted = self._room(kind, outcomes)
            bounded = replace(rows, up_to_id=newest[kind])
            if regex is not None:
                outcomes[kind] = self._regex(regex, kind, bounded, start, wanted)
            else:
                outcomes[kind] = self._words(query, kind, bounded, start, wanted)
        hits = [(kind, ranked) for kind in sorted(outcomes) for ranked in outcomes[kind].rows]
        files = self._moved_texts(regex or query, rows, len(hits)) if cursor is None else FilesFound()
        self.best_share = 1.0 if files.hits else self.best_share
        total = sum(outcome.total for outcome in outcomes.values()) + len(files.hits)
        exact = all(outcome.exact for outcome in outcomes.values()) and not files.not_searched

        def answer(views: list[View], shown: int) -> dict[str, Any]:
            position: dict[str, int] = {}
            for kind in sorted(outcomes):
                after = outcomes[kind].position_after(shown)
                shown -= min(shown, len(outcomes[kind].rows))
                if after is not None:
                    position[kind] = after
            following = Cursor(search, newest, position).encode() if position else None
            return self._answer(views, total, exact, following)

        self._shorten_notices()
        # An answer that shows no hit has the longest cursor.
        room = self._cap - cost_of(answer([], 0), self.count) - (NO_ROOM_TOKENS if files.hits else 0)
        everywhere = asked.all_conversations or asked.conversation_id is not None
        page = Page(
            self.reader,
            asked.context,
            self.clock.zone,
            self.count,
            room,
            self.own,
            everywhere,
            self._is_shown,
        )
        written, lines = page.write(hits, [file_hit(hit, self.clock.zone) for hit in files.hits])
        if len(lines) < len(files.hits):
            self._note(NO_ROOM)
        return answer([*written, *lines], len(written))

    @property
    def _limit(self) -> int:
        """How many hits a page takes: as many as are asked for and have room."""
        return min(self.arguments.limit, max(1, self._cap // LEAST_HIT_TOKENS))

    def _running_turn(self) -> Stretch | None:
        """The messages of the running turn when its request asks what the pattern asks."""
        if self.arguments.current_turn or self.arguments.mode == "regex":
            return None
        request = unanswered_request(self.reader, self.own)
        if request is None:
            return None
        row = self.reader.search_rows("message", [request.message_id]).get(request.message_id)
        query = parse_query(self.arguments.pattern)
        if row is None or not query.is_phrase_like or not parse_query(row.text).asks:
            return None
        repeated = sum(map(bool, Matcher(query).find(row.text).spans))
        if repeated < REPEATED_SHARE * len(query.units):
            return None
        return request.conversation_id, request.seq, LARGEST

    @property
    def _cap(self) -> int:
        """The most tokens of the whole answer."""
        asked = self.arguments
        cap = max(LEAST_TOKENS, TOKENS_PER_HIT * asked.limit)
        return min(cap, asked.token_cap or cap, self.granted_tokens or cap)

    def _is_shown(self, row: SearchRow) -> bool:
        return row not in self.left_out

    def _shorten_notices(self) -> None:
        """Leaves out the last notices when they would take too much of the answer."""
        while self.notices and cost_of(self.notices, self.count) > self._cap * NOTICES_SHARE:
            self.notices.pop()

    def _moved_texts(self, what: ParsedQuery | RegexSearch, rows: Filter, taken: int) -> FilesFound:
        """Lines of texts that stood in messages before they moved to files, on the first page of a search of messages.

        They take what rows leave of the page, a fifth of it at least. What was not searched is told.
        """
        asked = self.arguments
        searchable = isinstance(what, RegexSearch) or bool(what.units)
        if asked.scope == "summaries" or not searchable:
            return FilesFound()
        among = self.scope.filter_ids
        records = self.reader.newest_files(among, limit=MOST_FILES + 1)
        unlisted = 0
        if len(records) > MOST_FILES:
            unlisted = self.reader.count_files(among, most=_MOST_COUNTED) - MOST_FILES
        records = [record for record in records[:MOST_FILES] if _is_within(record, rows)]
        if asked.roles or asked.tool_name or asked.sender:
            # A file does not say whose message it stood in.
            found = FilesFound(not_searched=len(records))
        else:
            room = max(self._limit - taken, self._limit // FILES_SHARE, 1)
            found = search_files(self.reader, records, self.read_file, what, room, seconds=FILES_SECONDS)
            del found.hits[room:]
        found.not_searched += unlisted
        if found.not_searched:
            self._note(
                f"{found.not_searched:,} file(s) were not searched; scope 'files' searches all, file_ids some of them"
            )
        if found.missing:
            self._note(f"{len(found.missing)} file(s) cannot be read: {', '.join(found.missing[:5])}")
        return found

    def _filter(self) -> Filter:
        asked = self.arguments
        since = parse_time(asked.since, self.clock.now_ms, self.clock.zone, "since")
        before = parse_time(asked.before, self.clock.now_ms, self.clock.zone, "before")
        if since is not None and before is not None and since >= before:
            raise InputError(f"since = {asked.since!r} must be earlier than before = {asked.before!r}")
        roles = tuple(asked.roles) if asked.roles else None
        return Filter(
            self.scope.filter_ids, roles, asked.tool_name or None, since, before, senders=self._senders()
        )

    def _senders(self) -> tuple[str, ...] | None:
        """The full names of the senders who are asked for: each holds all words that were given."""
        if not self.arguments.sender:
            return None
        known = self.reader.message_senders(self.scope.filter_ids)
        names = senders_named(self.arguments.sender, known)
        if not names:
            self._note(
                f"nobody named {self.arguments.sender!r} wrote here; known are {', '.join(known[:10]) or 'no names'}"
            )
        return names

    def _kinds(self) -> tuple[RowKind, ...]:
        scope = self.arguments.scope
        # A role or a tool is something that only messages have.
        if scope == "messages" or (
            scope == "both" and (self.arguments.roles or self.arguments.tool_name or self.arguments.sender)
        ):
            return ("message",)
        return ("summary",) if scope == "summaries" else ("summary", "message")

    def _newest(self) -> dict[str, int]:
        return {kind: self.reader.newest_row(kind) for kind in ("message", "summary")}

    def _room(self, kind: RowKind, outcomes: dict[RowKind, _Outcome]) -> int:
        """How many rows of a kind the page takes: with both, summaries take a fifth, messages the rest."""
        limit = self._limit
        if kind == "summary" and self.arguments.scope == "both":
            return max(1, limit // SUMMARY_SHARE)
        return limit - sum(len(outcome.rows) for outcome in outcomes.values())

    def _regex(self, regex: RegexSearch, kind: RowKind, rows: Filter, start: int, wanted: int) -> _Outcome:
        bounded = replace(rows, up_to_id=min(start - 1, rows.up_to_id or start)) if start else rows
        found = regex.rows(self.reader, kind, bounded, wanted, self.left_out)
        self.index_failed |= found.index_failed
        self.best_share = 1.0 if found.rows else self.best_share
        if found.stopped_at is not None:
            when = format_instant(found.stopped_at.at, self.clock.zone)
            self.notices.append(
                f"stopped early at {found.stopped_at.ref} ({when}): the time was over; go on with next_cursor"
            )
        last = (
            found.stopped_at.row_id if found.stopped_at else found.rows[-1].row.row_id if found.rows else None
        )
        return _Outcome(
            found.rows,
            len(found.rows),
            not found.more and not start,
            last if found.more else None,
            by_row=True,
        )

    def _words(self, query: ParsedQuery, kind: RowKind, rows: Filter, start: int, wanted: int) -> _Outcome:
        if not query.units:
            self._note("the pattern holds nothing that can be searched for")
            return _Outcome([], 0, True, None)
        resolved = resolve(query, self.reader, kind, rows)
        for note in resolved.notes:
            self._note(note)
        outcome = self._attempt(resolved.query, kind, rows, start, wanted)
        if not outcome.rows and not start and resolved.query.all_of and len(resolved.query.units) > 1:
            outcome = self._attempt(any_of(resolved.query), kind, rows, start, wanted)
            if outcome.rows:
                self._note("no row holds all parts of the pattern; these hold some of them")
        return outcome

    def _attempt(self, query: ParsedQuery, kind: RowKind, rows: Filter, start: int, wanted: int) -> _Outcome:
        search = TextSearch(
            self.reader,
            kind,
            query,
            rows,
            self.semantics,
            self.times,
            self.left_out,
            self.effort,
            self.patience,
        )
        sort = self.arguments.sort
        if sort == "recency":
            found = search.by_recency(start + wanted)
        else:
            found = search.by_relevance(start + wanted, hybrid=sort == "hybrid")
        if found.scanned:
            self.index_failed = True
            self._note("the search index is not ready; rows were scanned instead")
        if found.stopped_at is not None:
            when = format_instant(found.stopped_at.at, self.clock.zone)
            self._note(f"stopped early at {found.stopped_at.ref} ({when}): the time was over")
        if found.unread is not None:
            self._note_unread(kind, found.unread)
        page = found.rows[start : start + wanted]
        self.best_share = max([self.best_share, *(_share_held(query, one) for one in page)])
        end = start + len(page)
        more = end if end < len(found.rows) and page else None
        return _Outcome(page, found.total, found.exact_total, more, start)

    def _note_unread(self, kind: RowKind, last: SearchRow) -> None:
        """Says what is neither indexed nor was read: a history that came in at once a moment ago."""
        state = self.reader.index_state()
        lag = state.message_lag if kind == "message" else state.summary_lag
        when = format_instant(last.at, self.clock.zone)
        plural = "messages" if kind == "message" else "summaries"
        self._note(
            f"{lag:,} {plural} are not indexed yet; of them those since {last.ref} ({when}) were searched, the "
            "older ones will be found once a running host or `lcm worker` has indexed them"
        )

    def _note(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)

    def _answer_files(
        self, what: ParsedQuery | RegexSearch, cursor: Cursor | None, search: str
    ) -> dict[str, Any]:
        if isinstance(what, ParsedQuery) and not what.units:
            self._note("the pattern holds nothing that can be searched for")
            return self._answer([], 0, True, None)
        start = cursor.position.get("file", 0) if cursor else 0
        end = start + self._limit
        read_file = with_maps(self.read_file)
        found = search_files(self.reader, self._file_records(), read_file, what, end + 1)
        self._note_files(found)
        self._shorten_notices()
        self.best_share = 1.0 if found.hits else 0.0
        exact = not found.out_of_time and not (isinstance(what, RegexSearch) and len(found.hits) > end)

        def answer(views: list[View]) -> dict[str, Any]:
            after = start + len(views)
            more = Cursor(search, {}, {"file": after}).encode() if after < len(found.hits) else None
            return self._answer(views, len(found.hits), exact, more)

        lines = Items(self._cap - cost_of(answer([]), self.count), self.count)
        for hit in found.hits[start:end]:
            if not lines.add(lambda room, hit=hit: file_hit(hit, self.clock.zone), 0):  # type: ignore[misc]
                break
        return answer(lines.views)

    def _file_records(self) -> list[FileRecord]:
        if not self.arguments.file_ids:
            return files_in(self.reader, self.scope.conversation_ids)
        records = []
        for text in self.arguments.file_ids:
            if is_map(text):
                records.append(map_as_file(self.reader, self.scope, text))
                continue
            for ref in parse_refs(text):
                record = self.reader.file(ref.text) if ref.kind == "file" else None
                if record is None or record.conversation_id not in self.scope:
                    raise not_found(f"file {ref.text}")
                records.append(record)
        return records

    def _note_files(self, found: FilesFound) -> None:
        for ids, why in (
            (found.binary, "hold no text"),
            (found.cut, "are searched only at their beginning"),
            (found.missing, "cannot be read"),
        ):
            if ids:
                self._note(f"{len(ids)} file(s) {why}: {', '.join(ids[:5])}")
        if found.out_of_time:
            self._note("stopped early: the time was over before all files were searched")

    def _answer(
        self, hits: Sequence[dict[str, Any]], total: int, exact: bool, next_cursor: str | None
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "hits": list(hits),
            "total": total if exact else f"at least {max(total, len(hits))}",
            "total_is_exact": exact,
        }
        if next_cursor is not None:
            answer["next_cursor"] = next_cursor
        if self.notices:
            answer["notices"] = self.notices
        return answer


def _share_held(query: ParsedQuery, hit: Ranked) -> float:
    """Of a query's units the share that a hit holds; what stands in the place of a unit counts its weight."""
    pairs = zip(query.units, hit.matches.spans, strict=True)
    return sum(unit.weight for unit, spans in pairs if spans) / len(query.units)


def _is_within(record: FileRecord, rows: Filter) -> bool:
    since_ok = rows.since is None or record.created_at >= rows.since
    return since_ok and (rows.before is None or record.created_at < rows.before)


def senders_named(asked: str, known: Sequence[str]) -> tuple[str, ...]:
    """The full names that hold all words of a name."""
    words = set(WORD.findall(fold(asked)))
    return tuple(name for name in known if words <= set(WORD.findall(fold(name))))
