"""``lcm edit``: a person's text for a summary, and the way back."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lcm_plugin.cli import completion
from lcm_plugin.cli.open_engine import writing
from lcm_plugin.cli.options import AsJson, Database
from lcm_plugin.cli.output import print_json, say
from lcm_plugin.errors import InputError
from lcm_plugin.maintenance.account import account_name

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine


def edit(
    name: Annotated[
        str, typer.Argument(metavar="SUM", help="The summary.", autocompletion=completion.summary_ids)
    ],
    text: Annotated[
        str | None, typer.Argument(help="Its new text; without it your editor opens with the present one.")
    ] = None,
    database: Database = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Read the new text from this file; - is standard input."),
    ] = None,
    back: Annotated[
        bool, typer.Option("--back", help="Put the newest text back that no person wrote.")
    ] = False,
    to: Annotated[
        int | None, typer.Option("--to", min=1, help="With --back: this text instead, the first one is 1.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put a text of yours in a summary's place. The one before is kept: `lcm show --text`, `lcm edit --back`.

    It must be shorter than its source, and pass the checks that a model's text must pass. `lcm web --write` does
    the same on a summary's page.

    Examples: `lcm edit sum_1f0c22ab90de3344` · `lcm edit sum_1f0c22ab90de3344 --file better.md` ·
    `lcm edit sum_1f0c22ab90de3344 --back`
    """
    from lcm_plugin.commands.editing import change_lines

    if sum((text is not None, file is not None, back)) > 1:
        raise InputError("give a text, --file or --back, only one of them")
    if to is not None and not back:
        raise InputError("--to belongs to --back")
    with writing(database) as engine:
        texts, by = engine.summary_texts, account_name()
        if back:
            changed = texts.go_back(name, by, to=to)
        else:
            new = text if text is not None else _read(file) if file else _from_editor(engine, name)
            changed = texts.edit(name, new, by)
    if as_json:
        print_json(
            {
                "id": changed.summary.summary_id,
                "tokens": changed.summary.tokens,
                "level": changed.summary.level,
                "derived": list(changed.derived),
            }
        )
        return
    for line in change_lines(changed):
        say(line)


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error


def _from_editor(engine: Engine, name: str) -> str:
    """The text after a person changed it in their editor."""
    present = engine.library.summary(name).content
    if not sys.stdin.isatty():
        raise InputError("give the new text, --file PATH or --back; an editor opens in a terminal only")
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, f"{name}.md")
        draft.write_text(present, encoding="utf-8")
        try:
            code = subprocess.run([*shlex.split(command), str(draft)], check=False).returncode
        except (OSError, ValueError) as error:
            raise InputError(f"the editor {command!r} cannot be started ({error}); set EDITOR") from error
        if code != 0:
            raise InputError(f"the editor {command!r} ended with code {code}: nothing was changed")
        return draft.read_text(encoding="utf-8")
