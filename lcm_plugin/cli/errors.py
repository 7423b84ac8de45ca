"""Exit codes, and the one place where an error becomes a line on standard error.

0 fine, 1 internal fault or failed proof, 2 bad usage or input, 3 not found, 4 bad setting, 5 database,
6 work is left, 130 interrupted with Ctrl-C. With ``--json`` an error is a JSON document on standard output as well.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from lcm_plugin.errors import ConfigError, InputError, LcmError, NotFound, StoreError
from lcm_plugin.text import harmless, harmless_json, plural

OK, INTERNAL, USAGE, NOT_FOUND, CONFIG, DATABASE, WORK_LEFT = range(7)
INTERRUPTED = 130
"""The exit code that shells give a program that SIGINT ended."""
_CODES: tuple[tuple[type[LcmError], int], ...] = (
    (InputError, USAGE),
    (NotFound, NOT_FOUND),
    (ConfigError, CONFIG),
    (StoreError, DATABASE),
)
# What typer raises for a wrong command line, under typer's own click as well as under the separate one.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
TRACEBACK_VARIABLE = "LCM_TRACEBACK"


def exit_code(error: LcmError) -> int:
    """The code for an error of this package."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL)


def complain(message: str) -> None:
    """One line on standard error."""
    print(harmless(f"lcm: {' '.join(message.split())}"), file=sys.stderr)


def warn_of_missing(files: Sequence[str], verb: str = "are missing or damaged") -> None:
    """A warning on standard error that names the payload files whose bytes are not there, if any."""
    if files:
        some = ", ".join(files[:5])
        complain(f"warning: the bytes of {plural(len(files), 'file')} {verb}: {some}")


class GuardedGroup(TyperGroup):
    """A command group that turns errors into one line and an exit code."""

    _wants_json = False

    def main(self, args: Any = None, *rest: Any, **more: Any) -> Any:
        """Runs the program; remembers whether its answer is to be JSON, for errors on the way to a command."""
        words = list(sys.argv[1:] if args is None else args)
        self._wants_json = "--json" in words[: words.index("--") if "--" in words else None]
        return super().main(args, *rest, **more)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                result = super().invoke(ctx)
                sys.stdout.flush()
                return result
            except LcmError as error:
                _answer(ctx, str(error), exit_code(error))
                complain(str(error))
                raise typer.Exit(exit_code(error)) from error
            except KeyboardInterrupt as error:
                raise typer.Exit(INTERRUPTED) from error
            except BrokenPipeError as error:
                # The reader of a pipe (`| head`) has seen enough.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(OK) from error
            except _UsageError as error:
                error.message = _refusal(error)  # type: ignore[attr-defined]
                if ctx.parent is None:  # it passes through every group on its way out
                    _answer(ctx, error.format_message(), USAGE)  # type: ignore[attr-defined]
                raise
            except (typer.Exit, typer.Abort):
                raise
            except Exception as error:
                if os.environ.get(TRACEBACK_VARIABLE):
                    raise
                name = type(error).__name__
                _answer(ctx, f"internal error: {name}: {error}", INTERNAL)
                complain(f"internal error: {name}: {error} ({TRACEBACK_VARIABLE}=1 shows where)")
                raise typer.Exit(INTERNAL) from error


def _refusal(error: Any) -> str:
    """The message of a wrong command line, in plain words where typer takes pydantic's."""
    from pydantic import ValidationError

    from lcm_plugin.config.refusals import refusal

    if isinstance(error.__cause__, ValidationError):
        (first, *_) = error.__cause__.errors()
        return f"{first['input']!r} {refusal(first)}"
    return str(error.message.replace("Value error, ", ""))


def _answer(ctx: Any, message: str, code: int) -> None:
    """The error as JSON, once, if the command line, which the outermost group has seen, asks for that."""
    program = ctx.find_root().command
    if getattr(program, "_wants_json", False):
        program._wants_json = False
        print(harmless_json(json.dumps({"error": message, "exit_code": code})))


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    complain(f"warning: {message}")
