"""The command line's root: global options and the commands, each in a module of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from lcm_plugin.cli.commands import (
    backup,
    compact,
    config,
    doctor,
    edit,
    export,
    import_,
    install,
    maps,
    mcp,
    migrate,
    pins,
    prune,
    redact,
    serve,
    worker,
)
from lcm_plugin.cli.commands.look import browse, context, recall, status, talk, web
from lcm_plugin.cli.commands.trials import chat, evaluate, replay
from lcm_plugin.cli.errors import GuardedGroup

app = typer.Typer(
    cls=GuardedGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from lcm_plugin import __version__

        print(f"lcm {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Lossless Context Management: look at, search and look after a host's stored conversations.

    Exit codes: 0 fine, 1 internal fault or failed check, 2 usage or input, 3 not found, 4 setting, 5 database,
    6 work is left.
    """


# The commands by the panel of the help in which they stand.
_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Look": (
        *(status.status, web.web),
        *(
            browse.conversations,
            browse.rename,
            talk.talk,
            browse.messages,
            browse.summaries,
            context.context,
            browse.tree,
            browse.show,
        ),
    ),
    "Find again": (recall.grep, recall.describe, recall.expand, recall.ask, mcp.mcp),
    "Count": (maps.map_, maps.maps, maps.reduce),
    "Look after": (
        *(doctor.doctor, doctor.rescue, compact.compact, backup.backup, backup.restore),
        *(edit.edit, pins.pin, pins.pins, pins.unpin, worker.worker),
    ),
    "Remove": (prune.prune, prune.removed, redact.redact),
    "Put into an agent": (install.install_, serve.serve),
    "Bring in and out": (import_.import_, export.export, migrate.migrate_store),
    "Try it": (replay.replay, chat.chat),
}
for _panel, _commands in _PANELS.items():
    for _command in _commands:
        _name = _command.__name__.strip("_").replace("_", "-")
        app.command(_name, rich_help_panel=_panel)(_command)
app.add_typer(evaluate.evaluation, name="eval", rich_help_panel="Try it")
config.add_to(app)
