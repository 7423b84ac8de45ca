"""Finding things again from a shell: ``grep, describe, expand, ask``, the agent's own tools."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcm_plugin.cli import completion
from lcm_plugin.cli.open_engine import reading, writing
from lcm_plugin.cli.options import AsJson, Database
from lcm_plugin.cli.output import console, print_json, print_table, print_text, say
from lcm_plugin.errors import InputError, LcmError, ModelError, NotFound
from lcm_plugin.text import plural

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

_In = Annotated[
    str | None,
    typer.Option(
        "--in",
        metavar="CONVERSATION",
        help="Only these: a number, session key or id, title, project, or a glob of these; all if not given.",
    ),
]
_MOST_SEARCHED = 100
_MOST_NAMED = 3
_Since = Annotated[str | None, typer.Option(help="Only from this time on: ISO 8601, or an age (2h, 3d).")]
_Before = Annotated[str | None, typer.Option(help="Only before this time.")]
_Cap = Annotated[int | None, typer.Option(min=100, help="Most tokens to print.")]
_Offset = Annotated[int, typer.Option(min=0, help="Go on here.")]


def grep(
    pattern: Annotated[
        str, typer.Argument(help='Words, "exact phrases", identifiers; or with --regex a pattern.')
    ],
    database: Database = None,
    regex: Annotated[
        bool, typer.Option("--regex", "-E", help="PATTERN is a regular expression (RE2).")
    ] = False,
    scope: Annotated[str, typer.Option(help="both, messages, summaries or files.")] = "both",
    role: Annotated[
        list[str] | None, typer.Option(help="Only this role; may be given several times.")
    ] = None,
    since: _Since = None,
    before: _Before = None,
    sort: Annotated[str, typer.Option(help="relevance, recency or hybrid.")] = "relevance",
    conversation: _In = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most hits.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="Go on after the page that gave this.")] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 1 when nothing is found.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search messages and summaries, best hits first.

    In a terminal each hit stands below its session and time, with what was said before and after; in a pipe it is a
    line with tabs.

    Examples: `lcm grep 'poison message'` · `lcm grep -E 'PAY-1\\d+' --role tool --since 2d`
    """
    arguments = _given(
        pattern=pattern,
        mode="regex" if regex else "full_text",
        scope=scope,
        roles=role,
        since=since,
        before=before,
        sort=sort,
        limit=limit,
        context=int(sys.stdout.isatty() and not as_json),
        cursor=cursor,
    )
    with _opened(database) as engine:
        answer = _answer(engine, "lcm_grep", arguments, conversation)
        if as_json:
            print_json(answer)
        elif not answer["hits"]:
            say("nothing found", error=True)
            if not regex and conversation is None and not pattern.isdigit():
                _say_named(engine, pattern)
        elif sys.stdout.isatty():
            _print_hits(engine, answer["hits"])
        else:
            print_table(
                ("id", "time", "who", "text"),
                [
                    (hit["id"], hit["time"], hit.get("role") or hit["kind"], hit["snippet"])
                    for hit in answer["hits"]
                ],
            )
    if not as_json:
        _remark(answer)
    if exit_code and not answer["hits"]:
        raise typer.Exit(1)


def _say_named(engine: Engine, words: str) -> None:
    """Names the conversations whose title or project the words are: no message need hold them."""
    try:
        found = engine.library.matching(words)
    except NotFound:
        return
    keys = ", ".join(dict.fromkeys(row.session_key for row in found[:_MOST_NAMED]))
    more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
    say(
        f"it is the name of {plural(len(found), 'conversation')}, {keys}{more}: --in searches there",
        error=True,
    )


def describe(
    name: Annotated[
        str,
        typer.Argument(metavar="ID", help="msg_…, sum_… or file_…", autocompletion=completion.stored_ids),
    ],
    database: Database = None,
    offset: _Offset = 0,
    cap: _Cap = None,
    as_json: AsJson = False,
) -> None:
    """Show what a message, summary or file is, and its text, as the agent's tool does.

    Examples: `lcm describe sum_1f0c22ab90de3344` · `lcm describe file_90ab… --offset 4000`
    """
    answer = _call("lcm_describe", _given(id=name, offset=offset, token_cap=cap), database, None)
    _print_views(answer, as_json)


def expand(
    names: Annotated[
        list[str],
        typer.Argument(metavar="SUM", help="Summaries to open.", autocompletion=completion.stored_ids),
    ],
    database: Database = None,
    depth: Annotated[int, typer.Option(min=0, help="Levels down.")] = 1,
    offset: _Offset = 0,
    cap: _Cap = None,
    as_json: AsJson = False,
) -> None:
    """Open summaries: the summaries and messages they were made of, word for word.

    Example: `lcm expand sum_1f0c22ab90de3344 --depth 2`
    """
    arguments = _given(summary_ids=names, depth=depth, offset=offset, token_cap=cap)
    _print_views(_call("lcm_expand", arguments, database, None), as_json)


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    database: Database = None,
    conversation: _In = None,
    as_json: AsJson = False,
) -> None:
    """Have a question answered from the stored history, with the ids it rests on.

    With a model (setting expansionModel or summaryModel) it reads and answers; without one the best passages
    are printed.

    Example: `lcm ask 'Which index did we build that night?'`
    """
    answer = _call("lcm_expand_query", {"prompt": question}, database, conversation, writes=True)
    if as_json:
        print_json(answer)
        return
    if answer.get("answer"):
        print_text(answer["answer"])
    quotes = [row for row in answer.get("evidence", ()) if f"[{row['id']}]" not in answer.get("answer", "")]
    if quotes:
        print_table(
            ("id", "quote"), [(row["id"], row["quote"]) for row in quotes], yields="quote", wraps=True
        )
    _remark(answer)


def _print_hits(engine: Engine, hits: Sequence[dict[str, Any]]) -> None:
    from lcm_plugin.cli.hits import HitList

    screen = console()
    for line in HitList(engine, hits).lines(screen.width):
        screen.print(line)


@contextmanager
def _opened(database: str | None, writes: bool = False) -> Iterator[Engine]:
    """The database as one who may run this command sees it: all of it."""
    opening = writing if writes else reading
    with opening(database, recall_scope="all", ignore_session_patterns=[]) as engine:
        yield engine


def _call(
    tool: str, arguments: dict[str, Any], database: str | None, conversation: str | None, writes: bool = False
) -> dict[str, Any]:
    with _opened(database, writes) as engine:
        return _answer(engine, tool, arguments, conversation)


def _answer(engine: Engine, tool: str, arguments: dict[str, Any], conversation: str | None) -> dict[str, Any]:
    """A tool's answer about some conversations, or the whole database."""
    from lcm_plugin.sessions.names import newest_first
    from lcm_plugin.types import Session

    if conversation is None:
        calls = [("lcm", arguments | {"all_conversations": True})]
    else:
        rows = newest_first(engine.library.matching(conversation))
        if tool != "lcm_grep":
            rows = [engine.library.conversation(conversation)]
        calls = [
            (row.session_key or "lcm", arguments | {"conversation_id": row.conversation_id})
            for row in rows[:_MOST_SEARCHED]
        ]
        if len(rows) > _MOST_SEARCHED:
            say(f"note: only the {_MOST_SEARCHED} last used of {len(rows)} are searched", error=True)
    answers = [engine.call_tool(Session(key), tool, given) for key, given in calls]
    for answer in answers:
        if "error" in answer:
            raise _error(answer)
    return answers[0] if len(answers) == 1 else _merged(answers, arguments)


def _merged(answers: Sequence[dict[str, Any]], arguments: dict[str, Any]) -> dict[str, Any]:
    """The hits of several conversations: by time where that is asked for, else the best of each first."""
    ranks = zip_longest(*(answer["hits"] for answer in answers))
    hits = [hit for rank in ranks for hit in rank if hit is not None]
    if arguments.get("sort") == "recency":
        hits.sort(key=lambda hit: str(hit["time"]), reverse=True)
    return {"hits": hits[: arguments["limit"]]}


def _error(answer: dict[str, Any]) -> LcmError:
    code = str(answer.get("error_code", ""))
    if code == "NOT_FOUND":
        return NotFound(answer["error"])
    return ModelError(answer["error"]) if code.startswith("DELEGATE") else InputError(answer["error"])


def _given(**arguments: Any) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None and value != []}


def _print_views(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    for view in answer.get("items", [answer]):
        facts = {key: value for key, value in view.items() if key not in ("content", "text", "parts")}
        print_text(
            "  ".join(f"{key}={value}" for key, value in facts.items() if not isinstance(value, (list, dict)))
        )
        for text in _texts(view):
            print_text(text)
        print_text("")
    _remark(answer)


def _texts(view: dict[str, Any]) -> list[str]:
    own = [view[key] for key in ("content", "text") if isinstance(view.get(key), str)]
    return own + [part["text"] for part in view.get("parts", ()) if isinstance(part.get("text"), str)]


def _remark(answer: dict[str, Any]) -> None:

    for name, option in (("next_offset", "--offset"), ("next_cursor", "--cursor")):
        if answer.get(name) is not None:
            say(f"more: {option} {answer[name]}", error=True)
    for notice in answer.get("notices", ()):
        say(f"note: {notice}", error=True)
