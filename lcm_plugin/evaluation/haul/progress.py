"""How far a haul is, kept in a folder so that one that was broken off goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.evaluation.resume import ResumeFile


@dataclass(slots=True)
class Progress:
    """What the hosts of a haul have played.

    ``done`` has the steps of each session, ``memory`` the MiB that each host in turn had last, ``half_bytes`` the
    database's size half way, 0 before it.
    """

    file: ResumeFile
    done: list[int]
    largest: int = 0
    faults: int = 0
    half_bytes: int = 0
    memory: list[float] = field(default_factory=list)
    _host: int = 0
    _cpu: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        for entry in self.file.entries:
            self._take(entry)

    @property
    def at(self) -> int:
        """The steps of all sessions together."""
        return sum(self.done)

    @property
    def cpu_seconds(self) -> float:
        """What all hosts took."""
        return sum(self._cpu)

    def note(self, entry: Mapping[str, Any]) -> None:
        """Takes and keeps an entry: a step that a host played, or the size half way."""
        self._take(entry)
        self.file.add(entry)

    def _take(self, entry: Mapping[str, Any]) -> None:
        if "half_bytes" in entry:
            self.half_bytes = entry["half_bytes"]
            return
        self.done[entry["session"]] = entry["step"]
        self.largest = max(self.largest, entry["largest"])
        self.faults += entry["faults"]
        if entry["host"] != self._host:
            self._host = entry["host"]
            self.memory.append(0.0)
            self._cpu.append(0.0)
        self.memory[-1], self._cpu[-1] = entry["memory"], entry["cpu"]
