"""``lcm map``, ``lcm maps`` and ``lcm reduce``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcm_plugin.cli.open_engine import reading, writing
from lcm_plugin.cli.options import AsJson, Database, Limit
from lcm_plugin.cli.output import moment, print_json, print_table, progress, say
from lcm_plugin.errors import InputError

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.maps.options import MapOptions
    from lcm_plugin.maps.source import MapSource
    from lcm_plugin.maps.splitting import Split
    from lcm_plugin.store.maps.records import MapRecord
    from lcm_plugin.types import Session

_SPLITS = ("lines", "csv", "json", "markdown")
_OWN_SESSION = "lcm:maps"
_MOST_ROWS = 10_000

_File = Annotated[Path | None, typer.Argument(metavar="FILE", help="A text, CSV, JSON or Markdown file.")]
_Prompt = Annotated[str, typer.Option(help="What to say of each item; @FILE reads it from a file.")]
_Schema = Annotated[str, typer.Option(help="JSON schema of one answer, or @FILE.")]
_Tokens = Annotated[int | None, typer.Option("--tokens", min=1, help="Most tokens to spend.")]
_Money = Annotated[float | None, typer.Option("--budget", min=0, help="Most dollars to spend.")]


def map_(
    file: _File = None,
    prompt: _Prompt = "",
    schema: _Schema = "",
    query: Annotated[str, typer.Option(help="Messages that this search finds.")] = "",
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="msg_1-msg_60, sum_…, file_… or map_….")
    ] = None,
    role: Annotated[list[str] | None, typer.Option(help="Only messages of this role.")] = None,
    sender: Annotated[str, typer.Option(help="Only messages of this sender.")] = "",
    tool: Annotated[str, typer.Option(help="Only messages of this tool.")] = "",
    since: Annotated[
        str, typer.Option(help="Only messages from this time on: 2026-03-01, last week, March.")
    ] = "",
    before: Annotated[str, typer.Option(help="Only messages before this time.")] = "",
    conversation: Annotated[
        str | None,
        typer.Option(
            "--in",
            metavar="CONVERSATION",
            help="The conversation whose messages are items; all if not given.",
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help=f"How to split files: {', '.join(_SPLITS)}.")] = None,
    model: Annotated[str, typer.Option(help="litellm's name of a model; mapModel if not given.")] = "",
    budget: _Money = None,
    tokens: _Tokens = None,
    price: Annotated[
        str | None,
        typer.Option(metavar="IN/OUT", help="Dollars per million tokens, where litellm does not know them."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer.")] = 500,
    parallel: Annotated[int | None, typer.Option(min=1, max=256, help="Calls at a time.")] = None,
    agentic: Annotated[
        bool, typer.Option("--agentic", help="Let a helper look up history for each item.")
    ] = False,
    resume: Annotated[
        str | None, typer.Option(metavar="MAP", help="Go on with a map that was stopped.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show items, tokens and price; ask nothing.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the answers to a .jsonl or .csv file.")
    ] = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Ask a model the same question about many items, and keep the answers to count.

    What is answered is stored at once: Ctrl-C ends after the calls under way, and --resume goes on.

    Examples: `lcm map tickets.csv --prompt 'Which product?' --schema @product.json --dry-run` ·
    `lcm map --query refund --since March --prompt 'Is the user angry?' --schema '{"type": "boolean"}' --out angry.csv`
    """
    _check_out(out)
    with _opened(database, file, dry_run) as engine:
        if resume:
            record = engine.maps.resume(resume, budget_tokens=tokens, budget_usd=budget)
        else:
            session = _session(engine, conversation)
            source = _source(engine, file, query, ids, role, sender, tool, since, before, conversation, split)
            options = _options(max_tokens, agentic, tokens, budget, price)
            asked = _text(prompt), _schema_of(schema)
            if dry_run:
                _show_plan(asdict(engine.maps.plan(session, source, *asked, model, options)), as_json)
                return
            record = engine.maps.create(session, source, *asked, model, options)
            say(f"{record.map_id}: {record.items:,} items", error=True)
        record = _run(engine, record, parallel)
        if out is not None:
            _write(engine, record, out)
    _show(record, as_json)
    if record.state != "done":
        raise typer.Exit(1)


def maps(database: Database = None, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List maps, newest first, with how far they are and what they cost.

    Example: `lcm maps --limit 5`
    """
    with reading(database) as engine:
        found = engine.maps.listed(limit=limit)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    print_table(
        ("map", "made", "state", "items", "done", "failed", "tokens", "cost", "source"),
        [
            (
                *(one.map_id, moment(one.created_at), one.state, one.items, one.done, one.failed),
                *(one.spent, _dollars(one), one.source),
            )
            for one in found
        ],
        yields="source",
    )


def reduce(
    handles: Annotated[
        list[str], typer.Argument(metavar="MAP", help="Maps: answers_1, answers_2 … in the SELECT.")
    ],
    sql: Annotated[str, typer.Option(help="One SELECT (SQLite).")],
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Count, group, sum, sort and join the answers of maps with one SELECT; it can read nothing else.

    Table `answers` has the columns place, ref, item, state, error and the schema's properties.

    Example: `lcm reduce map_0123456789abcdef --sql 'SELECT product, count(*) FROM answers GROUP BY 1'`
    """
    with reading(database) as engine:
        records = [engine.maps.get(handle) for handle in handles]
        result = engine.maps.reduce(records, sql, _MOST_ROWS)
    if as_json:
        print_json([dict(zip(result.columns, row, strict=True)) for row in result.rows])
    else:
        print_table(result.columns, result.rows)
    if result.more:
        say(f"only the first {_MOST_ROWS:,} rows are shown", error=True)


@contextmanager
def _opened(database: str | None, file: Path | None, dry_run: bool) -> Iterator[Engine]:
    """The database; a file's first map makes it, and only looking at a file needs none."""
    if file is None or not dry_run:
        with writing(database, create=file is not None) as engine:
            yield engine
        return
    with TemporaryDirectory(prefix="lcm-") as folder, writing(f"{folder}/lcm.db", create=True) as engine:
        yield engine


def _run(engine: Engine, record: MapRecord, parallel: int | None) -> MapRecord:
    import signal
    import threading

    stop = threading.Event()
    before = {name: signal.signal(name, lambda *_: stop.set()) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        with progress("asking", record.items, "items") as update:

            def show(now: MapRecord) -> None:
                update(now.done + now.failed, _dollars(now) if now.cost else f"{now.spent:,} tokens")

            return engine.maps.run(record.map_id, parallel=parallel, stop=stop.is_set, progress=show)
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _source(
    engine: Engine,
    file: Path | None,
    query: str,
    ids: list[str] | None,
    role: list[str] | None,
    sender: str,
    tool: str,
    since: str,
    before: str,
    conversation: str | None,
    split: str | None,
) -> MapSource:
    from lcm_plugin.maps.source import MapSource

    how: Any = split
    if split is not None and split not in _SPLITS:
        raise InputError(f"--split = {split!r} must be one of {', '.join(_SPLITS)}")
    if file is not None:
        if query or ids:
            raise InputError("a map is made over a FILE, or over --id, or over messages: give one of them")
        return MapSource(items=_file_items(file, how), label=file.name)
    chosen = engine.library.conversation(conversation).conversation_id if conversation else None
    return MapSource(
        ids=ids or (),
        query=query,
        roles=role or (),
        sender=sender,
        tool_name=tool,
        since=since,
        before=before,
        split=how,
        all_conversations=conversation is None,
        conversation_id=chosen,
        current_turn=True,
    )


def _file_items(file: Path, split: Split | None) -> Iterator[tuple[str, str]]:
    from lcm_plugin.maps.splitting import pieces, split_of

    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            for place, piece in pieces(lines, split or split_of(file.name), file.name):
                yield f"{file.name} {place}", piece
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error


def _session(engine: Engine, conversation: str | None) -> Session:
    """Whose the map is: the conversation that is named, else one of the shell's own."""
    from lcm_plugin.types import Session

    if conversation is None:
        return Session(_OWN_SESSION, "")
    chosen = engine.library.conversation(conversation)
    return Session(chosen.session_key, chosen.session_id)


def _options(
    max_tokens: int, agentic: bool, tokens: int | None, budget: float | None, price: str | None
) -> MapOptions:
    from lcm_plugin.maps.options import MapOptions

    both: tuple[float | None, float | None] = None, None
    if price is not None:
        try:
            first, second = (float(part) for part in price.split("/"))
        except ValueError as error:
            raise InputError(f"--price = {price!r} must be two numbers, for example 0.15/0.60") from error
        both = first, second
    return MapOptions(
        agentic=agentic,
        max_tokens=max_tokens,
        budget_tokens=tokens,
        budget_usd=budget,
        price_in=both[0],
        price_out=both[1],
    )


def _text(given: str) -> str:
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{given[1:]} cannot be read: {error}") from error


def _schema_of(given: str) -> Any:
    text = _text(given)
    if not text.strip():
        raise InputError(
            '--schema is needed, for example --schema \'{"type": "boolean"}\' or --schema @answer.json'
        )
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"--schema is not JSON: {error}") from error


def _check_out(out: Path | None) -> None:
    if out is not None and out.suffix not in (".jsonl", ".csv"):
        raise InputError(f"--out = {out} must end in .jsonl or .csv")


def _write(engine: Engine, record: MapRecord, out: Path) -> None:
    """The answers with their places, one a line."""
    from lcm_plugin.maps.contract import Contract

    columns = Contract(json.loads(record.answer_schema)).columns
    with out.open("w", encoding="utf-8", newline="") as file:
        if out.suffix == ".csv":
            _write_csv(engine, record, columns, file)
            return
        for item in engine.maps.items(record.map_id):
            row = {"place": item.place, "ref": item.ref, "item": item.content, "state": item.state}
            row |= {"answer": json.loads(item.answer)} if item.answer is not None else {"error": item.error}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_csv(engine: Engine, record: MapRecord, columns: tuple[str, ...], file: Any) -> None:
    import csv

    from lcm_plugin.store.maps.query import cell

    writer = csv.writer(file)
    writer.writerow(("place", "ref", "item", "state", "error", *columns))
    for item in engine.maps.items(record.map_id):
        answer = json.loads(item.answer) if item.answer is not None else None
        values = (cell(answer, column) for column in columns)
        writer.writerow((item.place, item.ref, item.content, item.state, item.error, *values))


def _show_plan(plan: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    usd = plan["usd"]
    say(
        f"{plan['items']:,} items, {plan['tokens_in']:,} tokens of prompts, at most {plan['most_tokens_out']:,} of answers; "
        + (f"at most ${usd:,.2f}" if usd is not None else "the model's price is not known: --price IN/OUT")
    )


def _show(record: MapRecord, as_json: bool) -> None:
    if as_json:
        print_json(asdict(record))
        return
    reason = f" ({record.reason})" if record.reason else ""
    left = f", {record.left:,} left" if record.left else ""
    say(
        f"{record.map_id}: {record.state}{reason}, {record.done:,} answered, {record.failed:,} failed{left}, "
        f"{record.spent:,} tokens, {_dollars(record)}"
    )
    if record.state != "done":
        say(f"go on with: lcm map --resume {record.map_id}")


def _dollars(record: MapRecord) -> str:
    return f"${record.cost / 1_000_000:,.4f}" if record.cost else "-"
