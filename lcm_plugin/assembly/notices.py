"""The sentences about what is missing: for the model inside the context, for a person beside it."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_plugin.assembly.render import Rendered

TOO_LARGE = (
    "The newest user message, with the tool results to answer cut as far as they can be, is larger than the budget; "
    "it is sent without history."
)
ALONE = (
    "Only the newest user message and the tool results to answer fit into the budget; all else was left out."
)
NOTHING = "No message of the conversation fits into the budget."
IGNORED = "This session is ignored (`ignoreSessionPatterns`): nothing of it is stored, and its context is the host's."
OPENING = "The conversation begins with the assistant."
OPENING_TOKENS = 96
_MOST_RUNS = 6
FAULTY = (
    "Some messages are left out, since no provider would take them. They are stored: lcm_grep finds them."
)


def instructions_text(left_out: Sequence[str]) -> str | None:
    """One line with the instructions that did not fit, oldest first; None when all did."""
    if not left_out:
        return None
    return (
        f"Left out for lack of room, though in force: system messages {', '.join(left_out)}. "
        "Read them with lcm_describe."
    )


def pins_text(left_out: Sequence[str]) -> str | None:
    """One line with the pins that did not fit; None when all did."""
    if not left_out:
        return None
    return f"Left out for lack of room: the pins {', '.join(left_out)}. They stand again in a larger context."


def left_out_text(items: Sequence[Rendered], left_out: Sequence[Rendered], older: str | None) -> str | None:
    """One line with the ids that cover what was left out of ``items``; None when nothing was.

    ``older`` is the ref before which nothing was even looked at.
    """
    runs = _runs(items, left_out)
    if older is not None and runs and runs[0][0] == older:
        older = _first_kept(items, left_out, runs.pop(0)[-1])
    named = [_span(run) for run in runs[-_MOST_RUNS:]]
    hidden = runs[:-_MOST_RUNS]
    if older is not None and hidden:
        named.insert(0, f"most of what came before {hidden[-1][-1]}")
    elif older is not None:
        named.insert(0, f"what came before {older}")
    elif hidden:
        named.insert(0, f"parts of {_span([hidden[0][0], hidden[-1][-1]])}")
    if not named:
        return None
    return f"Left out for lack of room: {', '.join(named)}. Find it with lcm_grep, read it with lcm_describe."


def _first_kept(items: Sequence[Rendered], left_out: Sequence[Rendered], after: str) -> str:
    """The first message that is not left out behind a ref; the ref itself when none is."""
    gone = {item.ref for item in left_out}
    behind = False
    for item in items:
        if behind and item.ref not in gone:
            return item.ref
        behind = behind or item.ref == after
    return after


def _runs(items: Sequence[Rendered], left_out: Sequence[Rendered]) -> list[list[str]]:
    """Refs of messages that were left out, in runs that stand together; each summary alone."""
    gone = {item.ref for item in left_out}
    runs: list[list[str]] = []
    together = False
    for item in items:
        if item.ref not in gone:
            together = False
            continue
        alone = item.kind == "summary"
        if together and not alone:
            runs[-1].append(item.ref)
        else:
            runs.append([item.ref])
        together = not alone
    return runs


def _span(run: Sequence[str]) -> str:
    return run[0] if run[0] == run[-1] else f"{run[0]}-{run[-1]}"
