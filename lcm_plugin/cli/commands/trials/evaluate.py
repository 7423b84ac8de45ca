"""``lcm eval``: measurements on public data sets, on generated data and of planted facts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from lcm_plugin.cli.errors import INTERNAL, complain
from lcm_plugin.cli.options import AsJson
from lcm_plugin.cli.output import print_json, print_pairs, print_table, print_text, say, working
from lcm_plugin.errors import InputError

evaluation = typer.Typer(no_args_is_help=True, help="Measure what is remembered, and what it costs.")
_DATA = {
    "locomo": "LoCoMo: long chats of two people, with questions. PATH is its JSON file.",
    "beam": "BEAM: chats of up to ten million tokens. PATH is a JSON file of its rows, or a folder of its `chats/`.",
    "longmemeval": "LongMemEval: each question has a history of its own. PATH is one of its JSON files.",
    "realtalk": "REALTALK: real chats of two people over weeks. PATH is a chat's JSON file, or their folder.",
    "tau": "tau-bench: recorded runs of a customer service agent with tools. PATH has a run with `messages` a line.",
    "oolong": "OOLONG: counts over a long text. PATH is a file of its rows as JSON lines.",
}

_Path = Annotated[Path, typer.Argument(metavar="PATH", help="The data set, as its authors publish it.")]
_Systems = Annotated[str, typer.Option(help="Of lcm, truncate, head-tail, full; separated by commas.")]
_Windows = Annotated[str, typer.Option(help="Tokens of the windows, separated by commas.")]
_Talks = Annotated[int | None, typer.Option(min=1, help="Only the first so many talks.")]
_Messages = Annotated[int | None, typer.Option(min=1, help="Only the first so many messages of each talk.")]
_Questions = Annotated[int | None, typer.Option(min=1, help="Only about so many questions of each talk.")]
_Model = Annotated[
    str, typer.Option(metavar="NAME", help="A model, by its litellm name, that answers the questions.")
]
_Judge = Annotated[
    str, typer.Option(metavar="NAME", help="The model that judges the answers; else the same one.")
]
_Url = Annotated[str, typer.Option(metavar="URL", help="The models' server, when it is one of your own.")]
_Seeds = Annotated[int, typer.Option(min=1, help="How often a model answers each question.")]
_Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the plugin.")
]
_Resume = Annotated[
    Path | None, typer.Option(help="Keep what is measured in this file, and go on from it after a break.")
]
_Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
_Seed = Annotated[int, typer.Option(help="What the data is made from.")]


def _measure(
    data: str, path: Path | None, options: dict[str, Any], resume: Path | None, as_json: bool, markdown: bool
) -> None:
    from lcm_plugin.evaluation.report import as_markdown, as_table
    from lcm_plugin.evaluation.run import Plan, document, run

    plan = Plan(
        data,
        path,
        systems=tuple(options.pop("systems").split(",")),
        windows=_numbers(options.pop("windows")),
        settings=dict(_pair(one) for one in options.pop("settings") or ()),
        **options,
    )
    with working(f"lcm eval {data}") as told:
        found = document(run(plan, resume, told), plan)
    if as_json:
        print_json(found)
    else:
        print_text(as_markdown(found) if markdown else as_table(found))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(one.replace("_", "")) for one in text.split(","))
    except ValueError as error:
        raise InputError(f"{text!r} must be whole numbers, separated by commas") from error


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set takes KEY=VALUE, not {text!r}")
    return key, value


def _command(data: str, about: str) -> Callable[..., None]:
    def command(
        path: _Path,
        systems: _Systems = "lcm,truncate,head-tail,full",
        windows: _Windows = "8000,32000,128000",
        talks: _Talks = None,
        messages: _Messages = None,
        questions: _Questions = None,
        model: _Model = "",
        judge: _Judge = "",
        base_url: _Url = "",
        seeds: _Seeds = 3,
        settings: _Set = None,
        resume: _Resume = None,
        as_json: AsJson = False,
        markdown: _Markdown = False,
    ) -> None:
        options = {
            "systems": systems,
            "windows": windows,
            "talks": talks,
            "messages": messages,
            "questions": questions,
            "model": model,
            "judge": judge,
            "base_url": base_url,
            "seeds": seeds,
            "settings": settings,
        }
        _measure(data, path, options, resume, as_json, markdown)

    command.__doc__ = f"""{about}

    Plays the talks through the plugin's hooks and asks the questions; beside it, in the same run, agents without it.
    No key is needed; with --model the questions are answered with the plugin's tools and judged.

    Example: `lcm eval {data} PATH --windows 8000 --talks 2`
    """
    return command


for _name, _about in _DATA.items():
    evaluation.command(_name)(_command(_name, _about))


@evaluation.command("generated")
def generated(
    systems: _Systems = "lcm,truncate,head-tail,full",
    windows: _Windows = "8000,32000",
    talks: _Talks = None,
    questions: _Questions = None,
    seed: _Seed = 1,
    settings: _Set = None,
    as_json: AsJson = False,
    markdown: _Markdown = False,
) -> None:
    """A small data set that is made from a seed: facts in a tool-heavy talk. Needs no file.

    Example: `lcm eval generated --windows 8000`
    """
    options = {
        "systems": systems,
        "windows": windows,
        "talks": talks,
        "questions": questions,
        "seed": seed,
        "settings": settings,
    }
    _measure("generated", None, options, None, as_json, markdown)


@evaluation.command("canaries")
def canaries(
    after: Annotated[str, typer.Option(help="Compactions after which to ask, separated by commas.")] = "3,30",
    window: Annotated[int, typer.Option(min=4_000, help="Tokens of the model's window.")] = 16_000,
    seed: _Seed = 1,
    settings: _Set = None,
    as_json: AsJson = False,
) -> None:
    """Plant exact words in a long talk full of tool calls, and ask for them after some compactions.

    30 facts, rules that a user gave, a plan, numbers that changed and things that were taken back, through the plugin's
    hooks. Ends with exit code 1 when the goals are missed: all facts found word for word, 27 of 30 in view without a call
    when the question names them, the newest value taken for true, nothing that was taken back.

    Example: `lcm eval canaries --after 3`
    """
    from lcm_plugin.evaluation.canaries.asking import counts, missed
    from lcm_plugin.evaluation.canaries.core import run
    from lcm_plugin.version import VERSION

    given = dict(_pair(one) for one in settings or ())
    with working("lcm eval canaries"):
        sightings = run(seed, window, given, _numbers(after))
    rows, failures = counts(sightings), missed(sightings)
    sets = "".join(f" --set {key}={value}" for key, value in given.items())
    command = f"lcm eval canaries --after {after} --window {window} --seed {seed}{sets}"
    if as_json:
        print_json({"command": command, "version": VERSION, "rows": rows, "missed": failures})
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
        say(f"{command} (lcm_plugin {VERSION})")
    for failure in failures:
        complain(failure)
    if failures:
        raise typer.Exit(INTERNAL)


@evaluation.command("haul")
def haul(
    tokens: Annotated[
        int, typer.Option(min=10_000, help="About so many tokens of talk in all.")
    ] = 30_000_000,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions, of three kinds of hosts in turn.")] = 100,
    kills: Annotated[int, typer.Option(min=0, help="How often the host is killed.")] = 30,
    window: Annotated[int, typer.Option(min=4_000, help="Tokens of the model's window.")] = 32_000,
    seed: _Seed = 1,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the database here, and go on from it after a break."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play weeks of generated talk with resets, branches and killed hosts, and check that all of it is there.

    Three kinds of hosts (what is new, the whole list, the whole list with ids), in a process that is killed now and then.
    Ends with exit code 1 unless nothing is lost, doubled or out of order, every context fits and could be sent, every
    message looked for is found in time, and the database and memory grow no faster than the talk.

    Example: `lcm eval haul --tokens 300000 --sessions 6 --kills 3`
    """
    from lcm_plugin.evaluation.haul.run import haul as run_haul
    from lcm_plugin.version import VERSION

    command = f"lcm eval haul --tokens {tokens} --sessions {sessions} --kills {kills} --window {window} --seed {seed}"
    with working("lcm eval haul") as told:
        result = run_haul(tokens, sessions, kills, seed, window, told, resume)
    if as_json:
        print_json({"command": command, "version": VERSION, **result.as_dict()})
    else:
        print_pairs([(name, str(value)) for name, value in result.as_dict().items()])
        say(f"{command} (lcm_plugin {VERSION})")
    for failure in result.missed:
        complain(failure)
    if result.missed:
        raise typer.Exit(INTERNAL)
