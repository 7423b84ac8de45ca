"""Commands that show stored rows: ``conversations, messages, summaries, tree, show``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from lcm_plugin.cli import completion
from lcm_plugin.cli.open_engine import reading, writing
from lcm_plugin.cli.options import (
    AsJson,
    ConversationName,
    Database,
    Limit,
    Role,
    message_number,
    parse_moment,
)
from lcm_plugin.cli.output import console, moment, print_json, print_pairs, print_table, print_text, say
from lcm_plugin.errors import NotFound

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.sessions.names import NamedConversation
    from lcm_plugin.store.records import Conversation

Row = TypeVar("Row")
_Since = Annotated[
    str | None, typer.Option(help="Only from this time on: a date, a time, or an age (2h, 3d).")
]
_Until = Annotated[str | None, typer.Option(help="Only before this time.")]


def conversations(
    sessions: Annotated[
        str,
        typer.Argument(
            metavar="SESSIONS",
            help="A session key, title, project or a glob of these (* without, ** with colons), a session id, or a number.",
        ),
    ] = "**",
    database: Database = None,
    active: Annotated[bool, typer.Option("--active", help="Only those in use.")] = False,
    since: _Since = None,
    until: _Until = None,
    after: Annotated[int, typer.Option(help="Go on after this number.")] = 0,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List conversations, the last used first.

    --since and --until look at when a conversation was last used. The title is the one that it was given (`lcm rename`,
    the host, an imported file), else its first words; records beside the talk do not count as messages.

    Examples: `lcm conversations` · `lcm conversations 'agent:main:**' --active` · `lcm conversations ~/work/app` ·
    `lcm conversations --since 7d`
    """
    from lcm_plugin.sessions.library import EVERYTHING
    from lcm_plugin.sessions.names import named, newest_first

    first, end = parse_moment(since), parse_moment(until)

    with reading(database) as engine:
        library = engine.library
        fitting: Iterable[Conversation] = ()
        if sessions == EVERYTHING:
            fitting = library.conversations(active_only=active)
        else:
            with suppress(NotFound) if "*" in sessions else nullcontext():  # a list may be empty
                fitting = library.matching(sessions)
        found = newest_first(
            row
            for row in fitting
            if (row.active or not active)
            and (first is None or row.updated_at >= first)
            and (end is None or row.updated_at < end)
        )
        if after:
            found = found[next((at for at, row in enumerate(found, 1) if row.conversation_id == after), 0) :]
        rows, following = page(found, limit)
        with engine.store.read() as reader:
            shown = named(reader, rows)
    last = rows[-1].conversation_id if following and rows else None
    if as_json:
        print_json({"conversations": [asdict(one.row) | one.as_dict() for one in shown], "next": last})
    else:
        _print_named(shown)
        hint(last, "--after")


def _print_named(shown: Iterable[NamedConversation]) -> None:
    print_table(
        (
            "number",
            "state",
            "messages",
            "context tokens",
            "last used",
            "session",
            "source",
            "project",
            "title",
        ),
        [
            (
                one.row.conversation_id,
                "active" if one.row.active else one.row.archive_cause or "archived",
                one.messages,
                one.row.context_tokens,
                moment(one.row.updated_at),
                one.row.session_key,
                one.row.source,
                one.row.project,
                one.title,
            )
            for one in shown
        ],
        yields="title",
    )


def rename(
    conversation: ConversationName,
    title: Annotated[str, typer.Argument(help="Its title; an empty one takes it away.")],
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Give a conversation a title; the host and later imports leave it as it is.

    Examples: `lcm rename 3 'Harbour map'` · `lcm rename agent:main:main 'Daily talk'`
    """
    from lcm_plugin.sessions.names import rename as give_title

    with writing(database) as engine:
        chosen = engine.library.conversation(conversation)
        with engine.store.write() as writer:
            give_title(writer, chosen, title)
    if as_json:
        print_json({"conversation_id": chosen.conversation_id, "title": title})
    else:
        say(f"conversation {chosen.conversation_id}: {title or 'no title'}")


def messages(
    conversation: ConversationName,
    database: Database = None,
    after: Annotated[int, typer.Option(help="Go on after this position.")] = 0,
    limit: Limit = 50,
    since: _Since = None,
    until: _Until = None,
    role: Role = None,
    records: Annotated[bool, typer.Option("--records", help="Also what no model is shown.")] = False,
    as_json: AsJson = False,
) -> None:
    """List a conversation's messages, oldest first.

    Records beside the talk (settings, events and the like of an imported session) are left out without --records.

    Examples: `lcm messages agent:main:main` · `lcm messages 3 --role user --since 2d` ·
    `lcm messages 3 --json | jq '.messages[].message'`
    """

    first, end = parse_moment(since), parse_moment(until)
    with reading(database) as engine:
        library = engine.library
        chosen = library.conversation(conversation)
        stored = (
            row
            for row in library.messages(chosen.conversation_id, after_seq=after)
            if (role is None or row.head.role == role)
            and (records or not row.head.hidden)
            and (first is None or row.head.created_at >= first)
            and (end is None or row.head.created_at < end)
        )
        rows, following = page(stored, limit)
        whole = [(row.head, library.whole(row)) for row in rows]
    last = rows[-1].head.seq if following and rows else None
    if as_json:
        listed = [
            {
                "id": head.ref,
                "position": head.seq,
                "at": head.created_at,
                "tokens": head.tokens,
                "message": message,
            }
            for head, message in whole
        ]
        print_json({"conversation": chosen.conversation_id, "messages": listed, "next": last})
        return
    print_table(
        ("position", "id", "time", "role", "tokens", "text"),
        [
            (head.seq, head.ref, moment(head.created_at), head.role, head.tokens, _gist(message))
            for head, message in whole
        ],
        yields="text",
    )
    hint(last, "--after")


def summaries(
    conversation: ConversationName,
    database: Database = None,
    after: Annotated[str | None, typer.Option(help="Go on after this summary.")] = None,
    limit: Limit = 50,
    depth: Annotated[int | None, typer.Option(min=0, help="Only this depth; 0 are the leaves.")] = None,
    since: _Since = None,
    until: _Until = None,
    as_json: AsJson = False,
) -> None:
    """List a conversation's summaries in the order in which they were made.

    --since and --until choose those that tell of something in that time.

    Examples: `lcm summaries agent:main:main` · `lcm summaries 3 --depth 1 --since 2d`
    """

    first, end = parse_moment(since), parse_moment(until)
    with reading(database) as engine:
        chosen = engine.library.conversation(conversation)
        found = (
            row
            for row in engine.library.summaries(chosen.conversation_id, after=after, depth=depth)
            if (first is None or row.latest_at >= first) and (end is None or row.earliest_at < end)
        )
        rows, following = page(found, limit)
    last = rows[-1].summary_id if following and rows else None
    if as_json:
        listed = [asdict(row) for row in rows]
        print_json({"conversation": chosen.conversation_id, "summaries": listed, "next": last})
        return
    print_table(
        ("id", "depth", "from", "to", "messages", "tokens", "text"),
        [
            (
                row.summary_id,
                row.depth,
                moment(row.earliest_at),
                moment(row.latest_at),
                row.message_count,
                row.tokens,
                row.content,
            )
            for row in rows
        ],
        yields="text",
    )
    hint(last, "--after")


def tree(
    conversation: ConversationName,
    database: Database = None,
    branches: Annotated[int, typer.Option(min=2, help="Most branches shown of each node.")] = 6,
    levels: Annotated[
        int | None, typer.Option(min=1, help="Levels shown; as many as fit if not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw the summaries as a tree, from the context down to the messages.

    Examples: `lcm tree agent:main:main` · `lcm tree 3 --levels 4 --branches 20`
    """
    from lcm_plugin.cli.dag import as_data, draw

    with reading(database) as engine:
        chosen = engine.library.conversation(conversation)
        items = engine.library.outline(chosen.conversation_id)
    outline = [node for node in items if node.message is None or not node.message.hidden]
    if as_json:
        print_json({"conversation": chosen.conversation_id, "context": [as_data(node) for node in outline]})
        return
    title = chosen.session_key or f"conversation {chosen.conversation_id}"
    console().print(draw(title, outline, branches=branches, levels=levels))


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="msg_…, sum_…, a conversation's number or session key.",
            autocompletion=completion.ids,
        ),
    ],
    database: Database = None,
    text_number: Annotated[
        int | None,
        typer.Option("--text", min=1, help="Of a summary that was edited or rewritten: its first text is 1."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print one thing in full: a message's words, a summary, a conversation; with --json as it is stored.

    Examples: `lcm show msg_42` · `lcm show sum_1f0c22ab90de3344 --text 1` · `lcm show msg_42 --json`
    """
    from lcm_plugin.cli.talk import message_text

    with reading(database) as engine:
        library = engine.library
        if name.startswith("msg_"):
            stored = library.message(message_number(name))
            value: dict[str, Any] = {
                "id": name,
                "at": stored.head.created_at,
                "message": library.whole(stored),
            }
            text = message_text(library.in_full(stored), value["message"])
        elif name.startswith("sum_"):
            value, text = _summary(engine, name, text_number)
        else:
            value, text = asdict(library.conversation(name)), None
    if as_json:
        print_json(value)
    elif text is None:
        print_pairs(
            [(key.replace("_", " "), _told(key, one)) for key, one in value.items() if one not in (None, "")]
        )
    else:
        print_text(text)


def _summary(engine: Engine, name: str, number: int | None) -> tuple[dict[str, Any], str]:
    """A summary with the texts that it had before, and its text, or that of a number."""
    from lcm_plugin.maintenance.summaries.texts import text_of

    summary = engine.library.summary(name)
    with engine.store.read() as reader:
        earlier = reader.earlier_texts(summary.conversation_id, name)
    if earlier and number is None:
        last = earlier[-1]
        by = f" by {last.replaced_by}" if last.replaced_by else ""
        say(
            f"changed{by} at {moment(last.replaced_at)}: it is text {len(earlier) + 1}, --text 1 shows the first",
            error=True,
        )
    return asdict(summary) | {"earlier": [asdict(one) for one in earlier]}, text_of(summary, earlier, number)


def _told(name: str, value: Any) -> str:
    """A conversation's value for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return moment(value) if name.endswith("_at") else str(value)


def page(rows: Iterable[Row], limit: int) -> tuple[list[Row], bool]:
    """The first rows, and whether more follow."""
    source: Iterator[Row] = iter(rows)
    first = list(islice(source, limit))
    return first, next(source, None) is not None


def hint(last: object, option: str) -> None:
    """Names the option that goes on, when there is more."""
    if last is not None:
        say(f"more: {option} {last}", error=True)


def _gist(message: dict[str, Any]) -> str:
    from lcm_plugin.messages.blocks import calls_of, text_of

    calls = [call.name or "?" for call in calls_of(message)]
    return text_of(message)[:400] or (f"calls {', '.join(calls)}" if calls else "")


def what(item: Any) -> str:
    if item.message is not None:
        return "record" if item.hidden else str(item.message.role)
    return "leaf summary" if item.depth == 0 else f"summary of depth {item.depth}"
