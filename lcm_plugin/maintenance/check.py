"""The integrity checker: verifies the rules of a live database.

Every check streams over its tables once, in read transactions of its own, and stops when asked to: a million
messages fit into bounded memory, and a running host is not held up, since readers never block a writer.
Nothing is ever written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from lcm_plugin.assembly.nearly_full import told_in
from lcm_plugin.errors import EngineClosed, ServerAway, StoreBusy, StoreError
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.maintenance.file_checks import FileChecks
from lcm_plugin.maintenance.repeats import find_repeats
from lcm_plugin.maintenance.rules import finding_of
from lcm_plugin.maintenance.summaries.checks import SummaryHealth
from lcm_plugin.sessions.library import Library
from lcm_plugin.store.failures import HookFailure
from lcm_plugin.store.integrity import AUDITS, FULL_TEXT, AuditStopped
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import Finding, IntegrityReport, Severity

_MOST_PER_RULE = 1_000
_INDEX_SAMPLE = 200
_DATABASE_AUDITS = frozenset({"blob_orphan"})
Stop = Callable[[], bool]


@dataclass(slots=True)
class _Findings:
    stop: Stop
    found: list[Finding] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    complete: bool = True

    def collect(self, name: str, findings: Iterator[Finding]) -> None:
        """Collects the findings of one check, up to a bound for each class, unless the whole check is to stop."""
        counts: dict[str, int] = {}
        self.checked.setdefault(name, 0)
        if self.stop():
            self.complete = False
            return
        try:
            for finding in findings:
                count = counts[finding.code] = counts.get(finding.code, 0) + 1
                if count <= _MOST_PER_RULE:
                    self.found.append(finding)
                    self.checked[name] += 1
                else:
                    self.complete = False
                    if len(counts) == 1:
                        return
        except (AuditStopped, StoreBusy):
            self.complete = False
        except (EngineClosed, ServerAway):
            raise
        except StoreError as error:
            # An unreadable table is damage; the other checks go on.
            known = {one.message for one in self.found if one.code == "structure"}
            damage = finding_of("structure", None, (), str(error))
            if damage.message not in known:
                self.found.append(damage)
                self.checked[name] += 1
        if self.stop():
            self.complete = False


class Checker:
    """Checks a database, whole or by conversation. Thread-safe."""

    def __init__(self, store: Store, payloads: PayloadStore, summaries: SummaryHealth) -> None:
        self._store = store
        self._files = FileChecks(store, payloads)
        self._summaries = summaries

    def check(
        self,
        conversations: Sequence[Conversation] | None = None,
        *,
        now: int = 0,
        stop: Stop = lambda: False,
        selected_by_host: bool | None = None,
        failing: Sequence[HookFailure] = (),
    ) -> IntegrityReport:
        """Checks the whole database, or the given conversations. ``stop`` ends it early.

        ``checked`` of the report counts the findings of each check that ran; an error is never hidden.
        ``complete`` is false when it ended early, or when a class has more than a thousand findings.
        """
        findings = _Findings(stop)
        if selected_by_host is False:
            findings.collect("host", iter([finding_of("host_other_engine", None, ())]))
        if failing:
            findings.collect("hooks", (finding_of("hook_failing", None, (), str(one)) for one in failing))
        if conversations is None:
            findings.collect("structure", self._structure(stop))
            findings.collect("schema", self._schema(stop))
            findings.collect("index", self._index(stop))
            findings.collect("log", self._files.log())
            findings.collect("rights", self._files.rights())
            findings.collect("stray_files", self._files.strays(stop))
        scopes = [None] if conversations is None else [row.conversation_id for row in conversations]
        for scope in scopes:
            for name in AUDITS:
                if scope is None or name not in _DATABASE_AUDITS:
                    findings.collect(name, self._audit(name, scope, now, stop))
        for conversation_id in self._ids() if conversations is None else [s for s in scopes if s is not None]:
            for name, check in (
                ("files", self._files.records),
                ("repeats", self._repeats),
                ("contexts", self._contexts),
                ("summaries", self._summary_flaws),
            ):
                findings.collect(name, check(conversation_id, stop))
        return IntegrityReport(tuple(findings.found), findings.checked, findings.complete)

    def check_summaries(self, summary_ids: Collection[str], stop: Stop) -> list[Finding]:
        """The flaws of some summaries."""
        return [
            finding_of(flaw.code, one.conversation_id, (one.summary_id,), flaw.detail)
            for one, flaw in self._summaries.flaws_of(summary_ids, stop)
        ]

    def audit(self, names: Sequence[str], conversation_id: int, now: int, stop: Stop) -> IntegrityReport:
        """Some of the `AUDITS` for one conversation."""
        findings = _Findings(stop)
        for name in names:
            findings.collect(name, self._audit(name, conversation_id, now, stop))
        return IntegrityReport(tuple(findings.found), findings.checked, findings.complete)

    def _structure(self, stop: Stop) -> Iterator[Finding]:
        with self._store.read() as reader, reader.interruptible(stop):
            faults = reader.structure_faults()
        for fault in faults:
            code = "index_differs" if fault.ref == FULL_TEXT else "structure"
            yield finding_of(code, None, (fault.ref,), fault.detail)

    def _schema(self, stop: Stop) -> Iterator[Finding]:
        with self._store.read() as reader, reader.interruptible(stop):
            faults = reader.schema_faults()
        yield from (finding_of("schema_differs", None, (fault.ref,), fault.detail) for fault in faults)

    def _index(self, stop: Stop) -> Iterator[Finding]:
        with self._store.read() as reader, reader.interruptible(stop):
            for breach in reader.index_faults(_INDEX_SAMPLE):
                yield finding_of("index_differs", breach.conversation_id, (breach.ref,), breach.detail)

    def _audit(self, name: str, conversation_id: int | None, now: int, stop: Stop) -> Iterator[Finding]:
        with self._store.read() as reader, reader.interruptible(stop):
            for breach in reader.audit(name, conversation_id=conversation_id, now=now):
                code = "summary_cycle" if name == "summary_depth" and _cyclic(reader, breach.ref) else name
                yield finding_of(code, breach.conversation_id, (breach.ref,), breach.detail)

    def _repeats(self, conversation_id: int, stop: Stop) -> Iterator[Finding]:
        with self._store.read() as reader, reader.interruptible(stop):
            for repeat in find_repeats(reader.message_identities(conversation_id)):
                at = reader.messages_at(conversation_id, [repeat.first_seq, repeat.last_seq])
                detail = f"seq {repeat.first_seq} to {repeat.last_seq} repeat those from seq {repeat.earlier_seq} on"
                refs = tuple(stored.head.ref for stored in at)
                yield finding_of("messages_repeated", conversation_id, refs, detail)

    def _contexts(self, conversation_id: int, stop: Stop) -> Iterator[Finding]:
        with self._store.read() as reader, reader.interruptible(stop):
            sent = reader.sent_contexts(conversation_id, limit=1)
        for text in filter(None, (told_in(one.notices) for one in sent)):
            yield finding_of("context_nearly_full", conversation_id, (), text)

    def _summary_flaws(self, conversation_id: int, stop: Stop) -> Iterator[Finding]:
        for summary, flaw in self._summaries.flaws(conversation_id, stop):
            yield finding_of(flaw.code, conversation_id, (summary.summary_id,), flaw.detail)

    def _ids(self) -> Iterator[int]:
        try:
            yield from (row.conversation_id for row in Library(self._store).conversations())
        except (EngineClosed, ServerAway):
            raise
        except StoreError:
            return  # reported by the checks that read the table before


def _cyclic(reader: Reader, summary_id: str) -> bool:
    """Whether a summary is, over any number of steps, its own source."""
    seen: set[str] = set()
    open_ids = list(reader.source_summaries(summary_id))
    while open_ids:
        source = open_ids.pop()
        if source == summary_id:
            return True
        if source not in seen:
            seen.add(source)
            open_ids += reader.source_summaries(source)
    return False


def worst(report: IntegrityReport) -> Severity | None:
    """The most severe finding's severity; None when there is none."""
    found = (finding.severity for finding in report.findings)
    return min(found, key=lambda severity: severity.rank, default=None)
