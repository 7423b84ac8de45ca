"""Redaction in a database's copies, which are rewritten or deleted, and the search in the databases beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import LcmError
from lcm_plugin.maintenance.backup import files_beside, remove_copy
from lcm_plugin.maintenance.redaction.conversation import Redacted
from lcm_plugin.maintenance.redaction.redaction import Redaction
from lcm_plugin.maintenance.redaction.targets import NamedThings, Target
from lcm_plugin.store.open import open_store
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.side_file import side_path
from lcm_plugin.store.waiting import WaitingFile

CopyChoice = Literal["rewrite", "delete", "keep"]


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The outcome for one copy or for another database.

    ``state`` is clean (it holds nothing of it), rewritten, deleted, kept, failed, or for another database: holds it,
    unknown.
    """

    path: str
    state: Literal["clean", "rewritten", "deleted", "kept", "failed", "holds it", "unknown"]
    found: Redacted
    detail: str = ""

    @property
    def may_hold(self) -> bool:
        """Whether the text may still be there, other than by choice."""
        return self.state in ("failed", "holds it", "unknown")


def redact_copies(
    store: Store,
    redaction_of: Callable[[Store], Redaction],
    target: Target,
    choice: CopyChoice,
    requested_by: str,
) -> list[CopyResult]:
    """Handles every copy of a database by choice; one that fails does not end the others."""
    return [_redact_copy(store, redaction_of, target, choice, requested_by, path) for path in store.copies()]


def redact_everywhere(
    store: Store,
    redaction_of: Callable[[Store], Redaction],
    target: Target,
    choice: CopyChoice,
    requested_by: str,
    found: Redacted,
) -> tuple[Redacted, list[CopyResult]]:
    """Removes what was ``found`` from the copies and from the database, and its traces from the database's files."""
    # Copies first: they may refer to payloads that go with the database's own.
    results = redact_copies(store, redaction_of, target, choice, requested_by)
    redaction = redaction_of(store)
    if found.anything:
        return redaction.apply(target, requested_by), results
    redaction.scrub()
    return found, results


def search_siblings(
    store: Store, redaction_of: Callable[[Store], Redaction], target: Target
) -> list[CopyResult]:
    """Searches the other databases of the folder. They are other hosts' or copies by hand, and only read."""
    return [_search_sibling(redaction_of, target, path) for path in store.siblings()]


def redact_waiting(config: LcmConfig, target: Target, *, apply: bool) -> list[CopyResult]:
    """Rewrites, or only searches, the messages that wait beside the database; empty when there is no file."""
    file = WaitingFile(side_path(config))
    results = [_damaged(path, target) for path in file.set_aside()]
    if isinstance(target, NamedThings) or not file.path.exists():
        return results
    try:
        count = file.rewrite(lambda message: target.message("", message), apply=apply)
    except LcmError as error:
        return [*results, CopyResult(str(file.path), "failed", Redacted(), str(error))]
    state: Literal["clean", "rewritten", "holds it"] = (
        "clean" if not count else "rewritten" if apply else "holds it"
    )
    return [*results, CopyResult(str(file.path), state, Redacted(messages=count))]


def _damaged(path: Path, target: Target) -> CopyResult:
    """A damaged file holds JSON in pages that cannot be read in order, so that a text may not be found."""
    holds = target.occurs_in(path.read_bytes())
    return CopyResult(
        str(path),
        "holds it" if holds else "unknown",
        Redacted(),
        "damaged; delete it when you can do without it",
    )


def _search_sibling(redaction_of: Callable[[Store], Redaction], target: Target, path: str) -> CopyResult:
    if isinstance(target, NamedThings):
        return CopyResult(
            path, "unknown", Redacted(), "ids mean other things there; look for the text itself"
        )
    try:
        sibling = open_store(LcmConfig(database=path), read_only=True)
        try:
            found = redaction_of(sibling).look(target)
        finally:
            sibling.close()
    except LcmError as error:
        return CopyResult(path, "unknown", Redacted(), str(error))
    holds = found.anything or found.untouched
    detail = f"redact it as well: lcm redact … --database {path}" if holds else ""
    return CopyResult(path, "holds it" if holds else "clean", found, detail)


def _redact_copy(
    store: Store,
    redaction_of: Callable[[Store], Redaction],
    target: Target,
    choice: CopyChoice,
    requested_by: str,
    path: str,
) -> CopyResult:
    if choice == "keep":
        return CopyResult(path, "kept", Redacted())
    if choice == "delete":
        try:
            remove_copy(path)
        except OSError as error:
            return CopyResult(path, "failed", Redacted(), str(error))
        return CopyResult(path, "deleted", Redacted())
    try:
        with store.open_copy(path) as copy:
            redaction = redaction_of(copy)
            found = redaction.look(target, may_be_missing=True)
            if found.anything:
                shares_files = not files_beside(path).root.is_dir()
                redaction.apply(target, requested_by, keep_bytes=shares_files)
            else:
                redaction.scrub()
    except LcmError as error:
        return CopyResult(path, "failed", Redacted(), str(error))
    return CopyResult(path, "rewritten" if found.anything else "clean", found)
