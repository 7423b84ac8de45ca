"""``lcm redact``."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcm_plugin.cli.errors import INTERNAL
from lcm_plugin.cli.open_engine import reading, writing
from lcm_plugin.cli.options import AsJson, Database
from lcm_plugin.cli.output import print_json, say, working
from lcm_plugin.text import plural

if TYPE_CHECKING:
    from lcm_plugin.maintenance.redaction.conversation import Redacted
    from lcm_plugin.maintenance.redaction.copies import CopyResult
    from lcm_plugin.maintenance.redaction.targets import Target

CONFIRMATION = "redact"
_MOST_PLACES = 20


class Copies(StrEnum):
    """The treatment of copies of the database beside it."""

    REWRITE = "rewrite"
    DELETE = "delete"
    KEEP = "keep"


def redact(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="PATTERN|ID",
            help="An RE2 expression, or ids (msg_42, sum_…, file_…); - reads a line from standard input.",
        ),
    ],
    literal: Annotated[
        bool, typer.Option("--literal", help="The argument is the secret itself, not an expression.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Remove it; without this it is only shown.")] = False,
    confirm: Annotated[
        str, typer.Option(metavar="WORD", help=f"With --apply: the word {CONFIRMATION}.")
    ] = "",
    copies: Annotated[
        Copies, typer.Option(help="With --apply: what happens to copies that lcm made of the database.")
    ] = Copies.REWRITE,
    remember: Annotated[
        bool,
        typer.Option(
            "--remember", help="With --apply: add the expression to redactPatterns in the settings."
        ),
    ] = False,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Take a leaked secret out of messages, summaries, payloads, the index, copies and what waits to be stored.

    Shows counts and ids unless --apply is given, and never the secret. No copy is made before, since it would
    hold the secret. A named message loses all its text; summaries above it are listed, as they may repeat it.
    Exit code 1 when a copy, another database in the folder or a payload still holds it; each is named.

    Examples: `lcm redact 'sk-[A-Za-z0-9]{20,}'` · `lcm redact --literal - --apply --confirm redact < secret.txt`
    """
    from lcm_plugin.errors import InputError

    if apply and confirm != CONFIRMATION:
        raise InputError(
            f"this changes stored texts for ever: --apply needs --confirm {CONFIRMATION} as well"
        )
    if remember and literal:
        raise InputError(
            "--remember would write the secret into the settings; give an expression for its kind"
        )
    target, expression = _target(what, literal)
    if remember and expression is None:
        raise InputError("--remember needs an expression, not ids")
    from lcm_plugin.maintenance.account import account_name
    from lcm_plugin.maintenance.redaction.copies import redact_everywhere, redact_waiting, search_siblings

    results: list[CopyResult] = []
    with writing(database) if apply else reading(database) as engine:
        with working("looking"):
            found = engine.redaction(engine.store).look(target)
            beside = engine.store.copies()
            # Before the database: what is stored of it from now on no longer holds the text.
            waiting = redact_waiting(engine.config, target, apply=apply)
        if apply:
            with working("removing"):
                found, results = redact_everywhere(
                    engine.store, engine.redaction, target, copies.value, account_name(), found
                )
        with working("looking beside it"):
            siblings = search_siblings(engine.store, engine.redaction, target)
    remembered = _remember(expression) if remember and apply and expression else ""
    _print(found, beside, results, siblings, waiting, as_json, apply, remembered)
    left = any(result.may_hold for result in [*results, *siblings, *waiting])
    if apply and (left or found.kept or found.untouched):
        raise typer.Exit(INTERNAL)


def _target(what: list[str], literal: bool) -> tuple[Target, str | None]:
    """The target, and the expression when it is one."""
    from lcm_plugin.maintenance.redaction.targets import are_ids, target_of

    if what == ["-"]:
        what = [sys.stdin.readline().rstrip("\n")]
    is_expression = not literal and not are_ids(what)
    return target_of(what, literal=literal), what[0] if is_expression else None


def _remember(expression: str) -> str:
    from lcm_plugin.config.file import read_file, write_value

    known = read_file().get("redactPatterns") or []
    patterns = [known] if isinstance(known, str) else list(known)
    if expression not in patterns:
        patterns.append(expression)
    place, _ = write_value("redactPatterns", patterns)
    return str(place)


def _print(
    found: Redacted,
    beside: list[str],
    results: list[CopyResult],
    siblings: list[CopyResult],
    waiting: list[CopyResult],
    as_json: bool,
    applied: bool,
    remembered: str,
) -> None:
    data: dict[str, Any] = {
        "applied": applied,
        "messages": found.messages,
        "summaries": found.summaries,
        "files": found.files,
        "notes": found.notes,
        "pins": found.pins,
        "map_texts": found.map_texts,
        "places": found.places,
        "binary_files_untouched": found.untouched,
        "summaries_above": found.above,
        "copies": [{"path": r.path, "state": r.state, "detail": r.detail} for r in results]
        if applied
        else [{"path": path, "state": "not looked at"} for path in beside],
        "other_databases": [{"path": r.path, "state": r.state, "detail": r.detail} for r in siblings],
        "waiting": [
            {"path": r.path, "state": r.state, "detail": r.detail, "messages": r.found.messages}
            for r in waiting
        ],
        "payload_files_kept": found.kept,
        "remembered_in": remembered,
    }
    if as_json:
        print_json(data)
        return
    verb = "redacted" if applied else "found in"
    say(
        f"{verb} {plural(found.messages, 'message')}, {plural(found.summaries, 'summary')}, "
        f"{plural(found.files, 'payload')}, {plural(found.notes, 'note')} about them, {plural(found.pins, 'pin')}, "
        f"{plural(found.map_texts, 'text')} of maps"
    )
    if found.places:
        more = f" … and {len(found.places) - _MOST_PLACES:,} more" if len(found.places) > _MOST_PLACES else ""
        say("  " + " ".join(found.places[:_MOST_PLACES]) + more)
    if found.untouched:
        say(
            f"binary payloads hold it and stay; redact them by id: {' '.join(found.untouched[:_MOST_PLACES])}"
        )
    if found.above:
        say(f"summaries above, which may repeat it: {' '.join(found.above)}")
    if found.kept:
        say(f"payload files that another database refers to, and that hold it still: {' '.join(found.kept)}")
    for kind, places in (
        ("copy", data["copies"]),
        ("other database", data["other_databases"]),
        ("messages that wait to be stored in", data["waiting"]),
    ):
        for place in places:
            detail = f" ({place['detail']})" if place.get("detail") else ""
            say(f"{kind} {place['path']}: {place['state']}{detail}")
    if remembered:
        say(f"written to redactPatterns in {remembered}; running hosts take it up when they restart")
    if not applied and (found.anything or any(place["messages"] for place in data["waiting"])):
        say(f"nothing was changed: --apply --confirm {CONFIRMATION} removes it, without a copy before")
    elif applied and found.anything and not remembered:
        say("to keep such secrets out from now on, set redactPatterns (see --remember)")
