"""Exit codes, and the one place where an error becomes a line on standard error.

0 fine, 1 internal fault or failed proof, 2 bad usage or input, 3 not found, 4 bad setting, 5 database.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from lcm_plugin.errors import ConfigError, InputError, LcmError, NotFound, StoreError

OK, INTERNAL, USAGE, NOT_FOUND, CONFIG, DATABASE = range(6)
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
    print(f"lcm: {' '.join(message.split())}", file=sys.stderr)


class GuardedGroup(TyperGroup):
    """A command group that turns errors into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except LcmError as error:
                complain(str(error))
                raise typer.Exit(exit_code(error)) from error
            except BrokenPipeError as error:
                # The reader of a pipe (`| head`) has seen enough.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(OK) from error
            except (typer.Exit, typer.Abort, _UsageError):
                raise
            except Exception as error:
                if os.environ.get(TRACEBACK_VARIABLE):
                    raise
                name = type(error).__name__
                complain(f"internal error: {name}: {error} ({TRACEBACK_VARIABLE}=1 shows where)")
                raise typer.Exit(INTERNAL) from error


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    complain(f"warning: {message}")
