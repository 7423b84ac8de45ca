"""Wiring: which service gets what. One set of services per engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lcm_plugin.assembly.assembler import Assembler
from lcm_plugin.assembly.contexts import Contexts
from lcm_plugin.assembly.render import Renderer
from lcm_plugin.background import Background
from lcm_plugin.compaction.calibration import Calibration
from lcm_plugin.compaction.service import Compaction
from lcm_plugin.compaction.windows import Budgets, Windows
from lcm_plugin.config import LcmConfig
from lcm_plugin.events import EventBus
from lcm_plugin.files.describe import ProseWriter
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.files.store import FileFolder
from lcm_plugin.ingest.arrivals import Arrivals
from lcm_plugin.ingest.host_noise import StandingTexts
from lcm_plugin.ingest.ingestor import Ingestor
from lcm_plugin.ingest.intake import Intake
from lcm_plugin.ingest.redaction import Redactor
from lcm_plugin.maintenance.backup import files_beside
from lcm_plugin.maintenance.check import Checker
from lcm_plugin.maintenance.doctor import Doctor
from lcm_plugin.maintenance.hook_health import HookHealth
from lcm_plugin.maintenance.idle import IdleWork
from lcm_plugin.maintenance.jobs import IntegrityJobs
from lcm_plugin.maintenance.prune import Retention
from lcm_plugin.maintenance.recent_warnings import RecentWarnings
from lcm_plugin.maintenance.recount import Recount
from lcm_plugin.maintenance.redaction.redaction import Redaction
from lcm_plugin.maintenance.repair import Repairer
from lcm_plugin.maintenance.sampling import Sampler
from lcm_plugin.maintenance.summaries.checks import SummaryHealth
from lcm_plugin.maintenance.summaries.rewriting import Rewriter
from lcm_plugin.maintenance.summaries.texts import SummaryTexts
from lcm_plugin.maps.schemas import MAP_TOOL_NAMES
from lcm_plugin.maps.service import Maps
from lcm_plugin.maps.source import Sources
from lcm_plugin.maps.tools import MapTools
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.recall.active.service import ActiveRecall
from lcm_plugin.recall.catchup import index_all, rows_behind
from lcm_plugin.recall.semantic.meaning import Semantics
from lcm_plugin.recall.service import Recall
from lcm_plugin.recall.tools import PIN_TOOL
from lcm_plugin.sessions.access import SessionGate
from lcm_plugin.sessions.context_log import ContextLog
from lcm_plugin.sessions.conversations import SessionDirectory
from lcm_plugin.sessions.library import Library
from lcm_plugin.sessions.lifecycle import Lifecycle
from lcm_plugin.sessions.notices import SessionNotices
from lcm_plugin.sessions.pin_tool import call_pin_tool
from lcm_plugin.sessions.pins import Pins
from lcm_plugin.sessions.record import Record
from lcm_plugin.sessions.subagents import Subagents
from lcm_plugin.sessions.withdrawal import Withdrawals
from lcm_plugin.store.guards import StoredGuards
from lcm_plugin.store.open import is_server
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Conversation, Part
from lcm_plugin.summarize.file_prose import FileProse
from lcm_plugin.summarize.summarizer import Summarizer
from lcm_plugin.types import Completer

INDEX_SECONDS = 0.25
"""How long a turn may index, when so much is pending that nothing old can be looked for: some thousands of rows."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything an engine delegates to."""

    events: EventBus
    recent_warnings: RecentWarnings
    notices: SessionNotices
    counter: TokenCounter
    sessions: SessionDirectory
    payloads: PayloadStore
    summarizer: Summarizer
    library: Library
    record: Record
    background: Background
    calibration: Calibration
    windows: Windows
    budgets: Budgets
    recount: Recount
    ingestor: Ingestor
    arrivals: Arrivals
    subagents: Subagents
    recall: Recall
    active_recall: ActiveRecall
    lifecycle: Lifecycle
    contexts: Contexts
    compaction: Compaction
    pins: Pins
    maps: Maps
    doctor: Doctor
    summary_texts: SummaryTexts
    integrity_jobs: IntegrityJobs
    idle: IdleWork
    retention: Retention
    redaction: Callable[[Store], Redaction]
    stop_listening: tuple[Callable[[], None], ...]


class ServiceHolder:
    """Whose attributes are the services that hosts, commands and the shell use."""

    hook_health: HookHealth

    def _take_services(self, services: Services) -> None:
        self._services = services
        self.events = services.events
        self.recent_warnings = services.recent_warnings
        self.session_notices = services.notices
        self.counter = services.counter
        self.sessions = services.sessions
        self.payloads = services.payloads
        self.summarizer = services.summarizer
        self.library = services.library
        self.record = services.record
        self.background = services.background
        self.calibration = services.calibration
        self.windows = services.windows
        self.budgets = services.budgets
        self.recount = services.recount
        self.recall = services.recall
        self.active_recall, self.quotes_for = services.active_recall, services.contexts.quotes_for
        self.beside_own_list, self.quoted_beside = (
            services.contexts.beside_own_list,
            services.contexts.quoted_beside,
        )
        self.look_ahead, self.bytes_of = services.contexts.look_ahead, services.contexts.bytes_of
        self.assemble_turn = services.contexts.assemble_turn
        self.compaction = services.compaction
        self.retention = services.retention
        self.redaction = services.redaction
        self.doctor, self.summary_texts = services.doctor, services.summary_texts
        self.doctor.failures = lambda: self.hook_health.failures()
        self.integrity_jobs = services.integrity_jobs
        self.arrivals = services.arrivals
        self.pin_board = services.pins
        self.maps = services.maps
        self.map = services.maps.map


def build_services(
    config: LcmConfig,
    store: Store,
    completer: Completer | None,
    clock: Callable[[], int],
    before: Services | None = None,
) -> Services:
    """The services over one store. Nothing is read or started here.

    Those ``before`` knew another database under the same store: what they remember of its rows is dropped, while
    listeners, background threads, notices and the newest warnings go on.
    """
    base = _Base(config, store, clock, *_lasting(clock, before))
    counter, events, background, payloads = base.counter, base.events, base.background, base.payloads
    summarizer = Summarizer(config, counter, events, completer, StoredGuards(store), clock)
    calibration, windows = Calibration(StoredGuards(store)), Windows(StoredGuards(store), clock)
    budgets = Budgets(config, windows, events)
    withdrawals = Withdrawals(counter, config.timezone)
    intake = Intake(Redactor(config.redact_patterns), base.standing)
    ingestor = _ingestor(base, summarizer, intake, withdrawals)
    library = Library(store, base.read_part)
    subagents = Subagents(store, base.gate, ingestor, events, base.read_part, config.bootstrap_tokens)
    compaction = Compaction(
        config,
        store,
        base.sessions,
        summarizer,
        counter,
        calibration,
        windows,
        budgets,
        background,
        events,
        clock,
    )
    pins = _pins(base, compaction)
    semantics = _semantics(base)
    recall = _recall(base, summarizer, subagents, pins, semantics)
    active_recall = ActiveRecall(config, counter, events, semantics, recall.own_scope, clock)
    contexts = _contexts(base, active_recall, budgets, calibration, compaction)
    maps = _maps(base, summarizer, recall)
    recount = Recount(store, counter, events, config.timezone)
    doctor, texts = _doctor(base, summarizer, compaction)
    jobs = IntegrityJobs(store, doctor, events, clock)
    sampler = Sampler(doctor.checker, jobs, background, events, clock)
    idle = _idle_work(base, recall, recount, jobs, maps)
    return Services(
        events=events,
        recent_warnings=base.recent_warnings,
        notices=base.notices,
        counter=counter,
        sessions=base.sessions,
        payloads=payloads,
        summarizer=summarizer,
        library=library,
        record=Record(store, base.sessions, library.whole, withdrawals, clock),
        background=background,
        calibration=calibration,
        windows=windows,
        budgets=budgets,
        recount=recount,
        ingestor=ingestor,
        arrivals=Arrivals(store, base.sessions, intake),
        subagents=subagents,
        recall=recall,
        active_recall=active_recall,
        lifecycle=Lifecycle(store, base.sessions, events, clock, config.new_session_retain_depth),
        contexts=contexts,
        compaction=compaction,
        pins=pins,
        maps=maps,
        doctor=doctor,
        summary_texts=texts,
        integrity_jobs=jobs,
        idle=idle,
        retention=Retention(store, payloads, events, clock),
        redaction=base.redaction,
        stop_listening=tuple(map(events.subscribe, (sampler.note, ingestor.note))),
    )


def _lasting(
    clock: Callable[[], int], before: Services | None
) -> tuple[EventBus, RecentWarnings, Background, SessionNotices]:
    """What outlives the services of one database."""
    if before is not None:
        for stop in before.stop_listening:
            stop()
        return before.events, before.recent_warnings, before.background, before.notices
    events, recent_warnings = EventBus(), RecentWarnings(clock)
    events.subscribe(recent_warnings.note)
    return events, recent_warnings, Background(failed=events.job_failed), SessionNotices()


class _Base:
    """What most services need."""

    def __init__(
        self,
        config: LcmConfig,
        store: Store,
        clock: Callable[[], int],
        events: EventBus,
        recent_warnings: RecentWarnings,
        background: Background,
        notices: SessionNotices,
    ) -> None:
        self.config = config
        self.store = store
        self.clock = clock
        self.events = events
        self.recent_warnings = recent_warnings
        self.background = background
        self.notices = notices
        self.counter = TokenCounter()
        self.standing = StandingTexts(config.host_note_patterns, config.control_message_patterns)
        self.context_log = ContextLog(config.context_log_turns)
        self.gate = SessionGate(config)
        self.sessions = SessionDirectory(store, self.gate)
        self.payloads = PayloadStore(config, self.counter.text, payload_folder(config, store))

    def read_part(self, part: Part) -> str:
        """The text of a part, also of one that was moved out of its message."""
        with self.store.read() as reader:
            return self.payloads.read_part(reader, part)

    def redaction(self, store: Store) -> Redaction:
        """Redacts the database itself or a copy of it, each with the files that belong to it."""
        own = files_beside(store.location)
        payloads = PayloadStore(self.config, self.counter.text, own) if own.root.is_dir() else self.payloads
        return Redaction(
            store, payloads, self.counter, self.standing, self.events, self.clock, self.config.timezone
        )


def _ingestor(base: _Base, summarizer: Summarizer, intake: Intake, withdrawals: Withdrawals) -> Ingestor:
    prose = FileProse(base.config, base.counter, summarizer.completions, base.events)
    writer = ProseWriter(base.store, base.payloads, prose, base.events, base.background.submit)
    return Ingestor(
        base.store,
        base.sessions,
        base.counter,
        base.payloads,
        intake,
        base.events,
        base.clock,
        withdrawals,
        base.context_log,
        prune_heartbeats=base.config.prune_heartbeat_ok,
        standing=base.standing,
        files_stored=writer.stored,
    )


def _pins(base: _Base, compaction: Compaction) -> Pins:
    def room(reader: Reader, conversation: Conversation | None) -> int:
        return compaction.known_limits(reader, conversation).room

    return Pins(base.config, base.store, base.sessions, base.counter, room, base.events, base.clock)


def _idle_work(base: _Base, recall: Recall, recount: Recount, jobs: IntegrityJobs, maps: Maps) -> IdleWork:
    """What is done between turns; a search that finds the index behind starts it."""
    config = base.config
    own = maps if config.maps else None
    behind = partial(rows_behind, base.store)
    idle = IdleWork(
        base.background, recall.catch_up, behind, recount, jobs, own, always=config.semantic_search
    )
    recall.index_later, recall.is_indexing = idle.look, idle.is_indexing
    return idle


def _semantics(base: _Base) -> Semantics:
    config = base.config
    return Semantics(
        base.store,
        base.events,
        enabled=config.semantic_search,
        model=config.semantic_model,
        folder=config.semantic_model_dir,
    )


def _contexts(
    base: _Base,
    active_recall: ActiveRecall,
    budgets: Budgets,
    calibration: Calibration,
    compaction: Compaction,
) -> Contexts:
    config, events = base.config, base.events
    renderer = Renderer(base.counter, config.timezone, base.read_part)
    assembler = Assembler(renderer, base.counter, events, active_recall)
    return Contexts(
        config,
        base.store,
        base.sessions,
        renderer,
        assembler,
        active_recall,
        budgets,
        calibration,
        compaction,
        base.notices,
        base.context_log,
        base.clock,
        events,
        partial(index_all, base.store, events, INDEX_SECONDS),
        base.counter.message,
    )


def _recall(
    base: _Base, summarizer: Summarizer, subagents: Subagents, pins: Pins, semantics: Semantics
) -> Recall:
    config, store, events = base.config, base.store, base.events
    recall = Recall(
        config,
        store,
        base.gate,
        base.payloads,
        summarizer.completions,
        base.counter.text,
        events,
        base.clock,
        semantics,
        subagents.granted,
    )
    if config.pin_tool:
        recall.add_tools((PIN_TOOL,), partial(call_pin_tool, pins))
    return recall


def _maps(base: _Base, summarizer: Summarizer, recall: Recall) -> Maps:
    config, store, count = base.config, base.store, base.counter.text

    def sources(maps: Maps) -> Sources:
        return Sources(config, store, recall, base.payloads, base.clock, maps.find_in)

    maps = Maps(
        config,
        store,
        base.sessions,
        recall,
        sources,
        summarizer.completions,
        count,
        base.events,
        base.clock,
    )
    if config.maps:
        tools = MapTools(maps, config, base.background, count)
        recall.add_tools(MAP_TOOL_NAMES, tools.call, tools.describe)
    return maps


def _doctor(base: _Base, summarizer: Summarizer, compaction: Compaction) -> tuple[Doctor, SummaryTexts]:
    config, store, counter, target = base.config, base.store, base.counter, compaction.summary_target
    health = SummaryHealth(store, counter, config, target)
    redactor = Redactor(config.redact_patterns)
    texts = SummaryTexts(store, counter, health, redactor, config.timezone, base.clock)
    rewriter = Rewriter(store, summarizer, counter, health, target, texts, config.timezone, base.clock)
    checker = Checker(store, base.payloads, health)
    repairer = Repairer(store, rewriter, base.payloads.folder, base.clock)
    doctor = Doctor(store, checker, repairer, base.events, base.clock, lambda: base.background.closing)
    return doctor, texts


def payload_folder(config: LcmConfig, store: Store) -> FileFolder | None:
    """Where payloads lie: the configured folder, beside the database, or None for inside it."""
    return payload_folder_at(config, store.location)


def payload_folder_at(config: LcmConfig, location: str) -> FileFolder | None:
    """The same for a database that may not be there yet. A copy has a folder of its own (`health.backup`)."""
    setting = config.large_files_dir
    if setting == "db" or (not setting and is_server(location)):
        return None
    if setting:
        return FileFolder(Path(setting).expanduser())
    own = files_beside(location)
    return own if own.root.is_dir() else FileFolder(Path(location).with_name("lcm-files"))
