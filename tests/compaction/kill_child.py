"""Processes that die, without warning, inside a compaction: in the model call or before a given statement.

    python kill_child.py FILLED_DATABASE FOLDER

Copies the database for each way to die, forks, and lets the copy's process die by SIGKILL. Statements are
counted from the end of the first publication to the end of the second, by SQLite's own trace, so that the
package needs no hook for it. Prints the copies whose process was killed, one a line.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from small_talk import Model

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.types import CompletionRequest

SESSION = Session("agent:kill:main")
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 600,
    "leaf_target_tokens": 150,
    "condensed_target_tokens": 200,
    "summary_max_calls_per_window": 100_000,
}
_MOST_STATEMENTS = 60


class DeadlyModel(Model):
    """Dies in its second call."""

    def answer(self, request: CompletionRequest, number: int) -> str:
        if number == 2:
            die()
        return super().answer(request, number)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_before(connection: sqlite3.Connection, number: int) -> None:
    """Kills the process before the statement with this number after the first publication."""
    publications = statements = 0

    def traced(statement: str) -> None:
        nonlocal publications, statements
        text = statement.lstrip()
        publications += text.startswith("INSERT INTO summaries ")
        counting = statements > 0 or (publications == 1 and text == "COMMIT")
        if counting and publications <= 2:
            statements += 1
            if statements == number:
                die()
        if publications == 2 and text == "COMMIT":
            publications = 3

    connection.set_trace_callback(traced)


def compact(database: Path, statement: int | None) -> None:
    config = LcmConfig(database=str(database), **SETTINGS)
    with Engine.open(config, DeadlyModel() if statement is None else Model()) as engine:
        if statement is not None:
            with engine.store.write() as writer:
                die_before(writer.db, statement)  # type: ignore[attr-defined]
        engine.compact(SESSION, force=True)


def killed(database: Path, statement: int | None) -> bool:
    """Whether the process that compacted a database was killed; it runs in a fork."""
    process = os.fork()
    if process == 0:
        try:
            compact(database, statement)
        finally:
            os._exit(0)
    return os.waitpid(process, 0)[1] == signal.SIGKILL


def main() -> None:
    filled, folder = Path(sys.argv[1]), Path(sys.argv[2])
    TokenCounter().text("loads the encoding once, for all forks")
    for statement in (None, *range(1, _MOST_STATEMENTS)):
        copy = Path(shutil.copy(filled, folder / f"killed-{statement or 'model'}.db"))
        if killed(copy, statement):
            print(copy, flush=True)
        elif statement:
            break


if __name__ == "__main__":
    main()
