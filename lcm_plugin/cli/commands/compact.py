"""``lcm compact``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lcm_plugin.cli.errors import WORK_LEFT
from lcm_plugin.cli.open_engine import writing
from lcm_plugin.cli.options import AsJson, ConversationName, Database
from lcm_plugin.cli.output import print_json, say, working
from lcm_plugin.text import plural
from lcm_plugin.types import Reason

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.events import Event
    from lcm_plugin.types import CompactionResult


# What ends a compaction before all is done that is due: another process, a bound of the settings, or the model.
_LEAVES_WORK = {Reason.LOCKED, Reason.DEFERRED, Reason.CALLS_USED_UP, Reason.MODEL_FAILED}


def compact(
    conversation: ConversationName,
    database: Database = None,
    budget: Annotated[
        int | None, typer.Option(help="Tokens that a context may have, at least 1,000.")
    ] = None,
    focus: Annotated[
        str, typer.Option(metavar="WORDS", help="Keep what concerns these words in detail.")
    ] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take the last compaction back instead.")] = False,
    due: Annotated[bool, typer.Option("--due", help="Only what is due, not as far as it goes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compact a conversation now; safe while its host runs. Exit code 6: some of it is left for another run.

    Examples: `lcm compact agent:main:main` · `lcm compact 3 --due --budget 32000` · `lcm compact 3 --undo` ·
    `lcm compact 3 --focus "database migration"`
    """
    from lcm_plugin.config import checked_budget
    from lcm_plugin.errors import LcmError
    from lcm_plugin.types import Session

    if budget is not None:
        checked_budget(budget, "--budget")
    with writing(database) as engine:
        chosen = engine.library.conversation(conversation)
        session = Session(chosen.session_key, chosen.session_id)
        if undo:
            back = engine.undo_compaction(session)
            if back.refusal:
                raise LcmError(f"nothing was undone: {back.refusal}")
            if as_json:
                print_json(asdict(back))
            else:
                say(
                    f"{plural(back.summaries, 'summary')} taken apart; "
                    f"{back.tokens_before:,} -> {back.tokens_after:,} tokens"
                )
            return
        with working("compacting") as tell, _passes_told(engine, tell):
            result = engine.compact(session, force=not due, budget=budget, focus=focus)
    _print_result(result, as_json=as_json)
    if result.reason in _LEAVES_WORK:
        raise typer.Exit(WORK_LEFT)


def _print_result(result: CompactionResult, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(result))
        return
    detail = f": {result.detail}" if result.detail else ""
    done = f"{plural(result.passes, 'pass')}, {plural(len(result.summaries), 'new summary')}"
    say(f"{result.reason.value}{detail}; {result.tokens_before:,} -> {result.tokens_after:,} tokens, {done}")


@contextmanager
def _passes_told(engine: Engine, tell: Callable[[str], None]) -> Iterator[None]:
    done = 0

    def listen(event: Event) -> None:
        nonlocal done
        if event.name == "compaction.pass":
            done += 1
            tell(plural(done, "pass"))

    stop = engine.subscribe(listen)
    try:
        yield
    finally:
        stop()
