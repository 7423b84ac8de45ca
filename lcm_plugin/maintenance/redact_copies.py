"""Redaction in the copies that were made of a database: rewritten, or deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from lcm_plugin.errors import LcmError
from lcm_plugin.maintenance.backup import files_beside, remove_copy
from lcm_plugin.maintenance.redact import Redaction
from lcm_plugin.maintenance.redact_sweep import Redacted
from lcm_plugin.maintenance.redact_targets import Target
from lcm_plugin.store.protocol import Store

CopyChoice = Literal["rewrite", "delete", "keep"]


@dataclass(frozen=True, slots=True)
class CopyResult:
    """What became of one copy. ``state`` is clean (it holds nothing of it), rewritten, deleted, kept or failed."""

    path: str
    state: Literal["clean", "rewritten", "deleted", "kept", "failed"]
    found: Redacted
    detail: str = ""


def redact_copies(
    store: Store,
    redaction_of: Callable[[Store], Redaction],
    target: Target,
    choice: CopyChoice,
    requested_by: str,
) -> list[CopyResult]:
    """Handles every copy of a database by choice; one that fails does not end the others."""
    return [_redact_copy(store, redaction_of, target, choice, requested_by, path) for path in store.copies()]


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
