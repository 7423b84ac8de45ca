"""The incident, and a replay of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

INCIDENT = Path(__file__).resolve().parents[1] / "examples" / "incident.jsonl"


@dataclass(frozen=True)
class Replayed:
    """A replay's database and what the command reported of it."""

    database: Path
    report: dict[str, Any]
