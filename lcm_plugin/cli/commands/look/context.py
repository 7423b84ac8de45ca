"""``lcm context``: the active context, and what the calls of the newest turns were given."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcm_plugin.cli.open_engine import reading
from lcm_plugin.cli.options import AsJson, ConversationName, Database, Limit
from lcm_plugin.cli.output import moment, print_json, print_pairs, print_table, say
from lcm_plugin.errors import InputError
from lcm_plugin.text import size

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.store.records import Conversation


def context(
    conversation: ConversationName,
    database: Database = None,
    turns: Annotated[bool, typer.Option("--turns", help="List the turns whose calls are on record.")] = False,
    turn: Annotated[int | None, typer.Option(min=1, help="What this turn's last call was given.")] = None,
    against: Annotated[
        int | None, typer.Option(min=1, help="With --turn: compare with this turn, not with the one before.")
    ] = None,
    why: Annotated[
        str, typer.Option(help="Why this id is in view or not: in the next call, or in that of --turn.")
    ] = "",
    brief: Annotated[
        bool,
        typer.Option("--brief", help="With --turn: one line for each summary and each run of messages."),
    ] = False,
    after: Annotated[int, typer.Option(help="Go on after this ordinal.")] = 0,
    limit: Limit = 1_000,
    as_json: AsJson = False,
) -> None:
    """Show what the active context is made of, item by item; or what the calls of the newest turns were given.

    Examples: `lcm context agent:main:main` · `lcm context 3 --turns` · `lcm context 3 --turn 12` ·
    `lcm context 3 --turn 12 --brief` · `lcm context 3 --turn 12 --why msg_42`
    """
    if turn is None and (brief or against is not None):
        raise InputError("--brief and --against are about a turn: name one with --turn")
    with reading(database) as engine:
        chosen = engine.library.conversation(conversation)
        if turns:
            _show_turns(engine, chosen, limit, as_json)
        elif turn is not None:
            _show_turn(engine, chosen, turn, against, why, brief, as_json)
        elif why:
            _show_why(engine, chosen, why, as_json)
        else:
            _show_items(engine, chosen, after, limit, as_json)


def _show_items(engine: Engine, chosen: Conversation, after: int, limit: int, as_json: bool) -> None:
    from lcm_plugin.cli.commands.look.browse import hint, page, what

    items, following = page(engine.library.items(chosen.conversation_id, after=after), limit)
    last = items[-1].ordinal if following and items else None
    if as_json:
        listed = [
            {
                "ordinal": one.ordinal,
                "kind": one.kind,
                "id": one.ref,
                "depth": one.depth,
                "tokens": one.tokens,
            }
            for one in items
        ]
        number, tokens = chosen.conversation_id, chosen.context_tokens
        print_json({"conversation": number, "tokens": tokens, "items": listed, "next": last})
        return
    print_table(
        ("ordinal", "id", "what", "tokens"),
        [(item.ordinal, item.ref, what(item), item.tokens) for item in items],
    )
    hint(last, "--after")


def _show_turns(engine: Engine, chosen: Conversation, limit: int, as_json: bool) -> None:
    from lcm_plugin.commands.calls import turn_list

    with engine.store.read() as reader:
        found = turn_list(reader, chosen, limit)
    if as_json:
        print_json({"conversation": chosen.conversation_id, "turns": found})
        return
    print_table(
        ("turn", "when", "calls", "tokens", "budget", "same", "request", "text"),
        [
            (
                one["turn"],
                moment(one["at"]),
                one["calls"],
                one["tokens"],
                one["budget"],
                "" if one["same"] is None else one["same"],
                one["request"],
                one["text"],
            )
            for one in found
        ],
        yields="text",
    )


def _show_turn(
    engine: Engine,
    chosen: Conversation,
    turn: int,
    against: int | None,
    why: str,
    brief: bool,
    as_json: bool,
) -> None:
    from lcm_plugin.commands.calls import past_call

    with engine.store.read() as reader:
        found = past_call(engine, reader, chosen, turn, against, why)
    if as_json:
        print_json({"conversation": chosen.conversation_id} | found)
        return
    if found["why"]:
        _say_why(found["why"])
        return
    if brief:
        _print_brief(found)
        return
    layers = ", ".join(f"{one['name']} {one['tokens']:,}" for one in found["layers"])
    quotes = " ".join(found["recalled"]) or found["no_quotes"] or "none"
    print_pairs(
        [
            ("turn", f"{turn}, {moment(found['at'])}, for {found['request'] or 'no request'}"),
            ("tokens", f"{found['tokens']:,} of {found['budget']:,}; room left {found['free']:,}"),
            ("layers", layers),
            ("quoted", quotes),
            ("policy", found["policy"]),
        ]
    )
    if found["difference"]:
        _print_difference(found["difference"])
    rows = [(one["id"], one["what"], one["layer"], one["tokens"], one["text"]) for one in found["items"]]
    print_table(("id", "what", "layer", "tokens", "text"), rows, yields="text")


def _print_brief(found: dict[str, Any]) -> None:
    """The layers of a call in order: each summary, the runs of messages, what is quoted, and the request."""
    rows = [(found["tokens"], "all", f"of {found['budget']:,}")]
    for _, run in groupby(found["items"], lambda one: _brief_key(one, found["request"])):
        items = list(run)
        rows.append((sum(one["tokens"] for one in items), *_brief_line(items, found["request"])))
    quoted = sum(one["tokens"] for one in found["layers"] if one["name"] == "recalled")
    if found["recalled"]:
        rows.append((quoted, "recalled", f"quotes of {len(found['recalled'])} messages that fit the request"))
    print_table(
        ("tokens", "layer", "what"), [(f"{tokens:,}", *rest) for tokens, *rest in rows], yields="what"
    )


def _brief_key(item: dict[str, Any], request: str) -> tuple[str, str]:
    alone = item["layer"] != "messages" or item["id"] == request
    return item["layer"], item["id"] if alone else ""


def _brief_line(items: list[dict[str, Any]], request: str) -> tuple[str, str]:
    first, count = items[0], len(items)
    if first["id"] == request:
        return "request", first["text"]
    if first["layer"] == "summaries":
        return f"summary, {first['what']}", f"{first['messages']:,} messages"
    if first["layer"] != "messages":
        return first["layer"], first["text"]
    shortened = sum(one["shortened"] for one in items)
    whole = "message, word for word" if count == 1 else "messages, word for word"
    return "messages", f"{count:,} {whole}" + (f", but for {shortened:,} cut short" if shortened else "")


def _print_difference(found: dict[str, Any]) -> None:
    same = found["same"]
    say(
        f"since turn {found['from']}: {same['tokens']:,} of {same['of']:,} tokens, {size(same['bytes'])}, stand unchanged "
        "at the beginning: a provider may have them cached"
    )
    rows = [(name, one) for name in ("came", "left") for one in found[name]]
    print_table(
        ("change", "first", "last", "why"),
        [(name, one["first"], one["last"], one["why"]) for name, one in rows],
        yields="why",
    )


def _show_why(engine: Engine, chosen: Conversation, why: str, as_json: bool) -> None:
    from lcm_plugin.commands.calls import next_call

    if not chosen.active:
        raise InputError("the conversation is archived: there is no next call; name one with --turn")
    found = next_call(engine, chosen, why)["why"]
    if as_json:
        print_json(found)
    else:
        _say_why(found)


def _say_why(found: dict[str, Any]) -> None:
    way = "".join(f" -> {one}" for one in found["way"])
    say(f"{found['id']} {'is in view' if found['in_view'] else 'is not in view'}: {found['why']}{way}")
