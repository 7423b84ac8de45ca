"""Wiring: which service gets what. One set of services per engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lcm_plugin.assembly.assembler import Assembler
from lcm_plugin.assembly.render import Renderer
from lcm_plugin.compaction.background import Background
from lcm_plugin.compaction.calibration import Calibration
from lcm_plugin.compaction.service import Compaction
from lcm_plugin.compaction.windows import Windows
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
from lcm_plugin.maintenance.jobs import IntegrityJobs
from lcm_plugin.maintenance.prune import Retention
from lcm_plugin.maintenance.recent_warnings import Troubles
from lcm_plugin.maintenance.recount import Recount
from lcm_plugin.maintenance.redact import Redaction
from lcm_plugin.maintenance.repair import Repairer
from lcm_plugin.maintenance.resummarise import Rewriter
from lcm_plugin.maintenance.sampling import Sampler
from lcm_plugin.maintenance.summaries import SummaryHealth
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.recall.semantic import Semantics
from lcm_plugin.recall.service import Recall
from lcm_plugin.sessions.access import SessionGate
from lcm_plugin.sessions.conversations import SessionDirectory
from lcm_plugin.sessions.library import Library
from lcm_plugin.sessions.lifecycle import Lifecycle
from lcm_plugin.sessions.record import Record
from lcm_plugin.sessions.subagents import Subagents
from lcm_plugin.sessions.withdrawal import Withdrawals
from lcm_plugin.store.guards import StoredGuards
from lcm_plugin.store.open import is_server
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.records import Part
from lcm_plugin.summarize.file_prose import FileProse
from lcm_plugin.summarize.summarizer import Summarizer
from lcm_plugin.types import Completer


@dataclass(frozen=True, slots=True)
class Services:
    """Everything an engine delegates to."""

    events: EventBus
    troubles: Troubles
    counter: TokenCounter
    gate: SessionGate
    directory: SessionDirectory
    payloads: PayloadStore
    summarizer: Summarizer
    library: Library
    record: Record
    background: Background
    calibration: Calibration
    windows: Windows
    recount: Recount
    ingestor: Ingestor
    arrivals: Arrivals
    subagents: Subagents
    recall: Recall
    lifecycle: Lifecycle
    assembler: Assembler
    compaction: Compaction
    doctor: Doctor
    integrity_jobs: IntegrityJobs
    retention: Retention
    redaction: Callable[[Store], Redaction]
    read_part: Callable[[Part], str]
    stop_sampling: Callable[[], None]


def build_services(
    config: LcmConfig,
    store: Store,
    completer: Completer | None,
    clock: Callable[[], int],
    before: Services | None = None,
) -> Services:
    """The services over one store. Nothing is read or started here.

    Those ``before`` knew another database under the same store: what they remember of its rows is dropped, while
    listeners, background threads and the newest warnings go on.
    """
    counter = TokenCounter()
    if before is None:
        events, troubles = EventBus(), Troubles(clock)
        background = Background(failed=events.job_failed)
        events.subscribe(troubles.note)
    else:
        events, background, troubles = before.events, before.background, before.troubles
        before.stop_sampling()
    gate = SessionGate(config)
    payloads = PayloadStore(config, counter.text, payload_folder(config, store))
    guards = StoredGuards(store)
    summarizer = Summarizer(config, counter, events, completer, guards, clock)
    completions = summarizer.completions
    calibration = Calibration(StoredGuards(store))
    windows = Windows(StoredGuards(store), clock)

    def read_part(part: Part) -> str:
        with store.read() as reader:
            return payloads.read_part(reader, part)

    def payloads_of(of: Store) -> PayloadStore:
        own = files_beside(of.location)
        return PayloadStore(config, counter.text, own) if own.root.is_dir() else payloads

    prose = ProseWriter(
        store, payloads, FileProse(config, counter, completions, events), events, background.submit
    )
    withdrawals = Withdrawals(counter, config.timezone)
    standing = StandingTexts(config.host_note_patterns, config.control_message_patterns)
    intake = Intake(Redactor(config.redact_patterns), standing)
    ingestor = Ingestor(
        store,
        counter,
        payloads,
        intake,
        events,
        clock,
        withdrawals,
        prune_heartbeats=config.prune_heartbeat_ok,
        standing=standing,
        files_stored=prose.stored,
    )
    directory, library = SessionDirectory(store, gate), Library(store, read_part)
    subagents = Subagents(store, gate, ingestor, events, read_part, config.bootstrap_tokens)
    compaction = Compaction(
        config, store, summarizer, counter, calibration, windows, background, events, clock
    )
    health = SummaryHealth(store, counter, config, compaction.summary_target)
    rewriter = Rewriter(store, summarizer, counter, health, compaction.summary_target, config.timezone, clock)
    checker, repairer = Checker(store, payloads, health), Repairer(store, rewriter, payloads.folder, clock)
    doctor = Doctor(store, checker, repairer, events, clock, lambda: background.closing)
    jobs = IntegrityJobs(store, doctor, events, clock)
    return Services(
        events=events,
        troubles=troubles,
        counter=counter,
        gate=gate,
        directory=directory,
        payloads=payloads,
        summarizer=summarizer,
        library=library,
        record=Record(store, directory, library.whole, withdrawals, clock),
        background=background,
        calibration=calibration,
        windows=windows,
        recount=Recount(store, counter, events, config.timezone),
        ingestor=ingestor,
        arrivals=Arrivals(store, directory, intake),
        subagents=subagents,
        recall=Recall(
            config,
            store,
            gate,
            payloads,
            completions,
            counter.text,
            events,
            clock,
            Semantics(store, events, enabled=config.semantic_search, folder=config.semantic_model_dir),
            subagents.granted,
        ),
        lifecycle=Lifecycle(store, events, clock),
        assembler=Assembler(Renderer(counter, config.timezone, read_part), counter, events),
        compaction=compaction,
        doctor=doctor,
        integrity_jobs=jobs,
        retention=Retention(store, payloads, events, clock),
        # Of the database itself, or of a copy of it.
        redaction=lambda of: Redaction(
            of, payloads_of(of), counter, standing, events, clock, config.timezone
        ),
        read_part=read_part,
        stop_sampling=events.subscribe(Sampler(checker, jobs, background, events, clock).note),
    )


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
