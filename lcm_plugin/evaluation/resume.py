"""A file of what is measured already, from which a run that was broken off goes on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lcm_plugin.errors import InputError


class ResumeFile:
    """JSON lines: the first is what the run is made of, each other one an entry. Without a path nothing is kept.

    ``entries`` are those that the file had when it was opened. Raises `InputError` for a file of another run.
    """

    def __init__(self, path: Path | None, provenance: Mapping[str, Any]) -> None:
        self._path = path
        self.entries: list[dict[str, Any]] = []
        if path is None:
            return
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if not text:
            self.add(provenance)
            return
        if not text.endswith("\n"):  # the run ended within this line
            path.write_text(text + "\n", encoding="utf-8")
        first, *rest = text.splitlines()
        if first != json.dumps(provenance):
            raise InputError(f"{path} belongs to another run: {first}")
        self.entries = list(_whole(rest))

    def add(self, entry: Mapping[str, Any]) -> None:
        """Keeps one entry."""
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")


def _whole(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The entries but for lines that the end of a run broke off."""
    for line in lines:
        with suppress(ValueError):
            yield json.loads(line)
