"""Runs a replay: opens the database, checks the options, plays, proves, reports."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lcm_plugin.cli.dag import draw, is_balanced
from lcm_plugin.cli.replay.host import ReplayHost, TranscriptClock
from lcm_plugin.cli.replay.proof import places, prove
from lcm_plugin.cli.replay.report import Report
from lcm_plugin.cli.replay.turns import split_turns
from lcm_plugin.cli.transcripts import Entry
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import InputError, ModelUnavailable, StoreUnavailable
from lcm_plugin.sessions.access import Access
from lcm_plugin.types import Message, Session

if TYPE_CHECKING:
    from rich.tree import Tree

    from lcm_plugin.engine import Engine

EXTRACTIVE = "extractive"
LARGEST_SHARE = 0.9
"""The newest user text together with the system message may take this share of the budget: the rest
is the plugin's margin and the wrapper of at least one summary."""


@dataclass(frozen=True, slots=True)
class Options:
    """The command line's options. ``fresh_tail`` None leaves the setting as it is."""

    files: tuple[str, ...]
    budget: int
    session: str
    database: str
    summarizer: str = EXTRACTIVE
    fresh_tail: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The report, the DAG to draw, and the answer of ``/lcm``."""

    report: Report
    tree: Tree
    lcm_says: str


def run_replay(entries: Sequence[Entry], options: Options, progress: Callable[[int], None]) -> Outcome:
    """Plays all entries. Raises `InputError` before anything is written when that cannot work."""
    from lcm_plugin.messages.tokens import TokenCounter

    _check_summarizer(options.summarizer)
    started = time.perf_counter()
    counter = TokenCounter()
    tokens = [counter.message(entry.message) for entry in entries]
    _check_budget(entries, tokens, options.budget)
    clock = TranscriptClock()
    with _opened(options, clock) as engine:
        session = Session(options.session, id="replay")
        if engine.access(session) is not Access.FULL:
            raise InputError(f"the settings do not let session {options.session!r} be stored")
        known = _known(engine, session, entries, options)
        host = _host(engine, session, options, clock, counter.message)
        turns = _play(host, entries, known, progress)
        return _outcome(engine, session, host, entries, sum(tokens), options, turns, known, started)


def _opened(options: Options, clock: TranscriptClock) -> Engine:
    from lcm_plugin.engine import Engine

    try:
        return Engine.open(_config(options), clock=clock)
    except StoreUnavailable as error:
        # The place was an argument: a wrong one is bad input, not a fault of a database in use.
        raise InputError(str(error)) from error


def _config(options: Options) -> LcmConfig:
    values: dict[str, Any] = {
        "database": options.database,
        "summary_model": "" if options.summarizer == EXTRACTIVE else options.summarizer,
        # A replay runs hours of talk in seconds: the guards against a runaway bill must not see that.
        "summary_max_calls_per_window": 1_000_000,
        "summary_max_tokens_per_window": 1_000_000_000,
    }
    if options.fresh_tail is not None:
        values["fresh_tail_count"] = options.fresh_tail
    return LcmConfig(**values)


def _check_summarizer(name: str) -> None:
    if name == EXTRACTIVE:
        return
    from lcm_plugin.summarize.litellm_client import load

    try:
        load()
    except ModelUnavailable as error:
        raise InputError(f"--summarizer {name}: {error}") from error


def _check_budget(entries: Sequence[Entry], tokens: Sequence[int], budget: int) -> None:
    """The newest user text is never shortened, so that it must fit beside the system message."""
    system = 0
    for entry, count in zip(entries, tokens, strict=True):
        role = entry.message["role"]
        if role in ("system", "developer"):
            system = count
        elif role == "user" and system + count > budget * LARGEST_SHARE:
            beside = f" beside a system message of {system:,}" if system else ""
            raise InputError(
                f"{entry.place}: a user message of {count:,} tokens{beside} does not fit a budget of {budget:,}; "
                f"at least {int((system + count) / LARGEST_SHARE) + 1:,} are needed"
            )


def _known(engine: Engine, session: Session, entries: Sequence[Entry], options: Options) -> int:
    """How many entries an earlier run stored. They must be the transcript's beginning."""
    stored = engine.messages(session)
    following = 0
    for position, place in enumerate(places([entry.message for entry in entries], stored)):
        if following == len(stored):
            return position
        if place is None:
            break
        following = max(following, place + 1)
    if following < len(stored):
        raise InputError(
            f"session {options.session!r} in {options.database} holds another conversation "
            f"(its message {following + 1} is not in the transcript there); "
            "choose another --session or --database"
        )
    return len(entries)


def _host(
    engine: Engine,
    session: Session,
    options: Options,
    clock: TranscriptClock,
    count: Callable[[Message], int],
) -> ReplayHost:
    from lcm_plugin.plugin import LcmPlugin

    return ReplayHost(
        LcmPlugin(engine=engine), engine, session, budget=options.budget, clock=clock, count=count
    )


def _play(host: ReplayHost, entries: Sequence[Entry], known: int, progress: Callable[[int], None]) -> int:
    turns = 0
    progress(known)
    for turn in split_turns(entries, known):
        host.play(turn)
        turns += 1
        progress(turn.start + len(turn.entries))
    return turns


def _outcome(
    engine: Engine,
    session: Session,
    host: ReplayHost,
    entries: Sequence[Entry],
    tokens_in: int,
    options: Options,
    turns: int,
    known: int,
    started: float,
) -> Outcome:
    host.inspect(engine.assemble(session, options.budget), for_model_call=False)
    conversation = engine.library.conversation(options.session)
    outline = engine.library.outline(conversation.conversation_id)
    proof = prove([entry.message for entry in entries], engine.library.walk(conversation.conversation_id))
    causes = Counter(
        one.fallback_cause for one in engine.library.summaries(conversation.conversation_id) if one.fallback
    )
    report = Report(
        files=options.files,
        session=options.session,
        database=options.database,
        messages=len(entries),
        resumed_at=known,
        turns=turns,
        tokens_in=tokens_in,
        budget=options.budget,
        figures=host.figures,
        summaries_by_depth=engine.library.summary_counts(conversation.conversation_id),
        fallback_summaries=sum(causes.values()),
        fallback_causes=dict(causes),
        balanced=is_balanced(outline),
        proof=proof,
        seconds=time.perf_counter() - started,
        cpu_seconds=time.process_time(),
    )
    return Outcome(report, draw(options.session, outline), host.command("/lcm"))


def temporary_database(folder: str) -> str:
    """Where a replay without ``--database`` keeps its data."""
    return str(Path(folder) / "replay.db")
