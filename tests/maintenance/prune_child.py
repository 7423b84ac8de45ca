"""Prunes or redacts a database, slowly enough to be killed in the middle: ``prune_child.py PATH prune|redact``."""

from __future__ import annotations

import sys

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.maintenance import prune as retention
from lcm_plugin.maintenance.redaction.targets import MatchingTexts
from lcm_plugin.maintenance.selection import LaneKind, Selection


def main(path: str, what: str) -> None:
    # Small batches, so that there are many places between two transactions to be killed at.
    retention._BATCH = 10
    with Engine.open(LcmConfig(database=path)) as engine:
        print("ready", flush=True)
        if what == "prune":
            chosen = Selection(older_than_ms=0, kinds=frozenset({LaneKind.ARCHIVED}))
            engine.retention.apply(engine.retention.plan(chosen), "a person")
        else:
            engine.redaction(engine.store).apply(MatchingTexts.of_text("sk-Zq81xW77aaPQ"), "a person")
        print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
