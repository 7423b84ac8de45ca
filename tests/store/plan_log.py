"""The plans that PostgreSQL really carried out, told by the server itself (``auto_explain``) on the connection.

Also those of the checks of foreign keys and of cursors, and each with the rows that it really read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import psycopg

_SETTINGS = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "auto_explain.log_level": "notice",
    "auto_explain.log_nested_statements": "on",
}
_READS = ("Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Seq Scan")


@dataclass(frozen=True, slots=True)
class Plan:
    """One statement as it was carried out: its text, and the tree of its nodes."""

    text: str
    root: dict[str, Any]

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Every node of the tree."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", ())

    def faults(self, large: set[str], most_rows: int) -> list[str]:
        """Where it reads a large table without an index, or more rows than ``most_rows`` in any way."""
        found = []
        for node in self.nodes():
            kind, table = node["Node Type"], node.get("Relation Name", "")
            rows = _rows(node)
            if kind == "Seq Scan" and table in large and node["Actual Loops"]:
                found.append(f"reads all of {table}")
            elif kind in _READS and table in large and rows > most_rows:
                found.append(f"reads {rows:,} rows of {table}")
            elif (
                kind in ("Sort", "Incremental Sort")
                and (taken := sum(map(_given, node["Plans"]))) > most_rows
            ):
                found.append(f"sorts {taken:,} rows")
        return [f"{fault}: {self.text}" for fault in found]


@dataclass(slots=True)
class PlanLog:
    """Collects what the connections of one database are told."""

    plans: list[Plan] = field(default_factory=list)

    def hear(self, notice: psycopg.errors.Diagnostic) -> None:
        """Takes one notice of the server."""
        _, _, plan = (notice.message_primary or "").partition("plan:\n")
        if plan:
            told = json.loads(plan)
            if "Actual Rows" not in told["Plan"]:
                return  # it was only asked for
            self.plans.append(Plan(" ".join(told["Query Text"].split()), told["Plan"]))

    def of(self, work: Callable[[], object]) -> list[Plan]:
        """The plans of some work."""
        self.plans.clear()
        work()
        return list(self.plans)


def explaining(url: str, **settings: str) -> str:
    """The URL with which the plan of every statement is told."""
    options = " ".join(f"-c {name}={value}" for name, value in {**_SETTINGS, **settings}.items())
    return f"{url}{'&' if '?' in url else '?'}options={quote(options)}"


def _given(node: dict[str, Any]) -> int:
    """Rows that a node hands on."""
    return int(node["Actual Rows"] * node["Actual Loops"])


def _rows(node: dict[str, Any]) -> int:
    """Rows that a node looks at."""
    lost = sum(node.get(name, 0) for name in ("Rows Removed by Filter", "Rows Removed by Index Recheck"))
    return int((node["Actual Rows"] + lost) * node["Actual Loops"])
