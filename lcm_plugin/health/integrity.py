"""The integrity checker: invariants 1 to 6, looked up in a live database.

Every check streams over its tables once and stops when told to, so that a million messages fit into
bounded memory and a running host is not held up: readers never block a writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lcm_plugin.errors import InputError, LcmError, NotFound
from lcm_plugin.health.rules import RULES
from lcm_plugin.ingest.externalise import PayloadStore
from lcm_plugin.store.audit_base import AUDITS
from lcm_plugin.store.base import Reader, Store
from lcm_plugin.store.records import Conversation, FileRecord
from lcm_plugin.types import Finding, IntegrityReport, Severity

_MOST_PER_RULE = 1_000
_PAGE = 200


@dataclass(slots=True)
class _Findings:
    stop: Callable[[], bool]
    found: list[Finding] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    complete: bool = True

    def collect(self, code: str, findings: Iterator[Finding]) -> None:
        """Takes what one check yields, up to a bound, unless the whole check is to stop."""
        count = 0
        for finding in findings:
            if count >= _MOST_PER_RULE or self.stop():
                self.complete = False
                break
            self.found.append(finding)
            count += 1
        self.checked[code] = count


def check(
    store: Store,
    payloads: PayloadStore,
    conversations: tuple[Conversation, ...] | None = None,
    *,
    now: int = 0,
    stop: Callable[[], bool] = lambda: False,
) -> IntegrityReport:
    """Checks the whole database, or the given conversations. ``stop`` ends it early.

    ``checked`` of the report counts the findings of each check that ran; an error is never hidden.
    """
    findings = _Findings(stop)
    with store.read() as reader:
        if conversations is None:
            findings.collect("structure", _structure(reader))
        scopes = [None] if conversations is None else [row.conversation_id for row in conversations]
        for scope in scopes:
            for name in AUDITS:
                if stop():
                    findings.complete = False
                    break
                findings.collect(name, _audit(reader, name, scope, now))
            findings.collect("files", _files(reader, payloads, scope, stop))
    return IntegrityReport(tuple(findings.found), findings.checked, findings.complete)


def _structure(reader: Reader) -> Iterator[Finding]:
    for fault in reader.structure_faults():
        yield _finding("structure", None, (), fault)


def _audit(reader: Reader, name: str, conversation_id: int | None, now: int) -> Iterator[Finding]:
    for breach in reader.audit(name, conversation_id=conversation_id, now=now):
        yield _finding(name, breach.conversation_id, (breach.ref,), breach.detail)


def _files(
    reader: Reader, payloads: PayloadStore, conversation_id: int | None, stop: Callable[[], bool]
) -> Iterator[Finding]:
    for record in _file_records(reader, conversation_id):
        if stop():
            return
        try:
            payloads.read_file(reader, record.file_id)
        except NotFound as error:
            yield _finding("file_missing", record.conversation_id, (record.file_id,), str(error))
        except (InputError, LcmError) as error:
            yield _finding("file_changed", record.conversation_id, (record.file_id,), str(error))


def _file_records(reader: Reader, conversation_id: int | None) -> Iterator[FileRecord]:
    ids = [conversation_id] if conversation_id is not None else _all_ids(reader)
    for one in ids:
        after = ""
        while page := reader.files(one, after=after, limit=_PAGE):
            yield from page
            after = page[-1].file_id


def _all_ids(reader: Reader) -> Iterator[int]:
    after = 0
    while page := reader.conversations(after_id=after, limit=_PAGE):
        yield from (row.conversation_id for row in page)
        after = page[-1].conversation_id


def _finding(code: str, conversation_id: int | None, ids: tuple[str, ...], detail: str) -> Finding:
    rule = RULES[code]
    message = f"{rule.meaning}: {', '.join(ids)} {detail}".strip().rstrip(":")
    return Finding(code, rule.severity, message, ids, conversation_id, rule.repair)


def worst(report: IntegrityReport) -> Severity | None:
    """The most severe finding's severity; None when there is none."""
    order = [Severity.ERROR, Severity.WARNING, Severity.INFO]
    found = {finding.severity for finding in report.findings}
    return next((severity for severity in order if severity in found), None)
