"""This package's own export, which goes back row by row; see `lcm_plugin.interchange.transfer`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lcm_plugin.engine import Engine
from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.importing import files_below
from lcm_plugin.interchange.importers.packed import unpacked
from lcm_plugin.interchange.transfer.jsonl_read import is_export, load_jsonl
from lcm_plugin.interchange.transfer.payloads import PayloadPlace
from lcm_plugin.services import payload_folder

NAME = "lcm"


@dataclass(slots=True)
class NativeReport:
    """One export. ``known`` conversations are here already; ``archived`` ones met an active one of their key."""

    path: str
    format: str = NAME
    conversations: int = 0
    known: int | None = None
    archived: int = 0
    messages: int = 0
    summaries: int = 0
    files: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {name: getattr(self, name) for name in self.__slots__}


def holds_native_export(path: Path) -> bool:
    """Whether a file is an export of this package."""
    if not path.is_file():
        return False
    with unpacked(path) as plain, plain.open("rb") as file:
        return is_export(file.readline(65_536))


def native_exports(paths: Iterable[Path]) -> list[Path]:
    """The exports of this package among some files and below some folders."""
    found = (file for path in paths for file in (files_below(path) if path.is_dir() else [path]))
    return [path for path in found if holds_native_export(path)]


def look_over_native(path: Path) -> NativeReport:
    """The counts of the file's closing line. Raises `InputError` when its closing line is missing."""
    report = NativeReport(str(path))
    ended = False
    with unpacked(path) as plain, plain.open("rb") as file:
        for line in file:
            if line.startswith(b'{"conversation":'):
                report.conversations += not line.startswith(b'{"conversation":null')
            elif line.startswith(b'{"end":'):
                rows = json.loads(line).get("rows", {})
                report.messages, report.summaries = rows.get("messages", 0), rows.get("summaries", 0)
                report.files = rows.get("large_files", 0)
                ended = True
    if not ended:
        raise InputError(f"{path}: the file is cut short: its closing line is missing")
    return report


def load_native(
    engine: Engine, path: Path, progress: Callable[[int], None] = lambda done: None
) -> NativeReport:
    """Takes the file in, all or nothing; doing it twice does no harm."""
    place = PayloadPlace(payload_folder(engine.config, engine.store))
    with unpacked(path) as plain, plain.open("rb") as file:
        try:
            loaded = load_jsonl(file, engine.store, place, progress=progress)
        except InputError as error:
            raise InputError(f"{path}, {error}") from error
    return NativeReport(
        str(path),
        conversations=loaded.conversations,
        known=loaded.known,
        archived=loaded.archived,
        messages=loaded.rows.get("messages", 0),
        summaries=loaded.rows.get("summaries", 0),
        files=loaded.files,
    )
