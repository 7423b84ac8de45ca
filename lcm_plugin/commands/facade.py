"""The engine's interface for commands, so that they are a layer below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from lcm_plugin.compaction.calibration import Calibration
from lcm_plugin.compaction.service import Compaction
from lcm_plugin.compaction.windows import Budgets
from lcm_plugin.config import LcmConfig
from lcm_plugin.maintenance.doctor import Doctor
from lcm_plugin.maintenance.hook_health import HookHealth
from lcm_plugin.maintenance.jobs import IntegrityJobs
from lcm_plugin.maintenance.prune import Retention
from lcm_plugin.maintenance.recent_warnings import RecentWarnings
from lcm_plugin.maintenance.recount import Recount
from lcm_plugin.maintenance.summaries.texts import SummaryTexts
from lcm_plugin.maps.service import Maps
from lcm_plugin.recall.active.service import ActiveRecall
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.conversations import SessionDirectory
from lcm_plugin.sessions.lifecycle import Pruned
from lcm_plugin.sessions.notices import SessionNotices
from lcm_plugin.sessions.pins import Pins
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Conversation
from lcm_plugin.summarize.summarizer import Summarizer
from lcm_plugin.types import CompactionResult, CompactionUndo, Context, IntegrityReport, Pin, Session


class EngineFacade(Protocol):
    """The engine as commands see it; `engine.Engine` documents the methods."""

    config: LcmConfig
    store: Store
    clock: Callable[[], int]
    selected_by_host: bool | None
    active_recall: ActiveRecall
    budgets: Budgets
    calibration: Calibration
    compaction: Compaction
    doctor: Doctor
    hook_health: HookHealth
    integrity_jobs: IntegrityJobs
    maps: Maps
    pin_board: Pins
    recount: Recount
    retention: Retention
    session_notices: SessionNotices
    sessions: SessionDirectory
    summarizer: Summarizer
    summary_texts: SummaryTexts
    recent_warnings: RecentWarnings

    def access(self, session: Session) -> Access: ...
    def call_tool(self, session: Session, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]: ...
    def compact(
        self, session: Session, force: bool = False, budget: int | None = None, *, focus: str = ""
    ) -> CompactionResult: ...
    def undo_compaction(self, session: Session) -> CompactionUndo: ...
    def new_session(self, session: Session, retain_depth: int | None = None) -> Pruned: ...
    def preview_new(self, session: Session, retain_depth: int | None = None) -> Pruned: ...
    def undo_new(self, session: Session) -> int: ...
    def reset_session(self, session: Session) -> Conversation | None: ...
    def pin(self, session: Session, what: str) -> Pin: ...
    def pins(self, session: Session) -> list[Pin]: ...
    def unpin(self, session: Session, *names: str) -> list[Pin]: ...
    def check(self, session: Session | None = None) -> IntegrityReport: ...
    def look_ahead(
        self, session: Session, budget: int | None, overhead: int, model: str | None, recall: bool
    ) -> Context: ...
    def bytes_of(self, reader: Reader, refs: Sequence[str]) -> dict[str, tuple[int, int]]: ...
    def backup(self, target: str | None = None) -> str: ...
