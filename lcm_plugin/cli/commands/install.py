"""``lcm install``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lcm_plugin.cli.errors import INTERNAL
from lcm_plugin.cli.options import AsJson, Database
from lcm_plugin.cli.output import print_json, say
from lcm_plugin.errors import ConfigError, InputError
from lcm_plugin.hosts.agents.names import Agent, Extent

if TYPE_CHECKING:
    from lcm_plugin.hosts.agents.install import Installed

_Agent = Annotated[
    Agent, typer.Argument(metavar="AGENT", help="claude-code, codex, gemini, opencode or openclaw.")
]
_Project = Annotated[
    bool, typer.Option("--project", help="Only for the project in this folder (Claude Code, opencode).")
]
_User = Annotated[bool, typer.Option("--user", help="For all projects of this user: the default.")]
_CaptureOnly = Annotated[
    bool, typer.Option("--capture-only", help="Leave contexts and compaction to the agent (opencode).")
]
_Uninstall = Annotated[bool, typer.Option("--uninstall", help="Take it out again. What is stored stays.")]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be written and run, and do nothing.")
]


def install_(
    agent: _Agent,
    user: _User = False,
    project: _Project = False,
    capture_only: _CaptureOnly = False,
    uninstall_: _Uninstall = False,
    dry_run: _DryRun = False,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Put lcm into a coding agent: from the next session on every turn is stored, and old passages are quoted.

    Writes the agent's own plugin (hooks, recall tools, a skill) and has the agent install it; says what is left to do.
    Needs the extra: `pip install 'lcm_plugin[mcp]'`. Exit code 1 when the agent refused.

    Examples: `lcm install claude-code` · `lcm install codex` · `lcm install claude-code --uninstall`
    """
    from lcm_plugin.hosts.agents.install import install, uninstall

    if user and project:
        raise InputError("--user and --project exclude each other")
    extent = Extent.PROJECT if project else Extent.USER
    if uninstall_:
        done = uninstall(agent, extent, dry_run=dry_run)
    else:
        _check_extra()
        done = install(agent, extent, database, dry_run=dry_run, capture_only=capture_only)
    if as_json:
        print_json(asdict(done) | {"dry_run": dry_run})
    else:
        _print(done, dry_run=dry_run)
    if done.failed:
        raise typer.Exit(INTERNAL)


def _check_extra() -> None:
    try:
        import mcp.server.lowlevel  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"the agents' plugins need the extra: pip install 'lcm_plugin[mcp]' ({error})"
        ) from error


def _print(done: Installed, *, dry_run: bool) -> None:
    for names, would, did in ((done.files, "write", "Wrote"), (done.removed, "remove", "Removed")):
        if names:
            say(f"{f'Would {would}' if dry_run else did} {len(names)} files below {done.folder}:")
        for name in names:
            say(f"  {name}")
    for command in done.commands:
        say(f"{'Would run' if dry_run else 'Ran'}: {command}")
    if done.failed:
        say(f"It failed: {done.failed}")
    for line in done.left_to_do:
        say(f"Left to do: {line}")
