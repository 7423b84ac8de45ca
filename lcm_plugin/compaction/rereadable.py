"""Which tools only read: what they returned can be had again, from the store or by the same call.

A tool is known by its name. A shell is a tool of any kind: there the command decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from lcm_plugin.messages.sendable import parse_json

_SHELLS = (
    "bash", "shell", "sh", "terminal", "exec*", "run_command", "run_shell*", "run_terminal*", "local_shell*"
)  # fmt: skip
_COMMAND_KEYS = ("command", "cmd", "script")
# A server's prefix: `mcp__github__get_issue`, `github.get_issue`.
_LAST_NAME = re.compile(r"[^.:/]+$")
_BETWEEN = re.compile(r"\|\||&&|[|;\n]")
_HARMLESS_REDIRECT = re.compile(r"[12]?>\s*/dev/null|2>&1")
_WRITES = re.compile(r"[>`&]|\$\(|\s-(?:exec|execdir|delete|ok|i)\b|--in-place")
_READERS = """
cat cd cut date df diff dmesg du echo fd file find grep egrep fgrep head id jq journalctl less ls lsof md5sum nl netstat
od printenv ps pwd rg sha256sum sort ss stat strings tail tree type uname uniq uptime wc which whoami xxd yq
"""
_PROGRAMS = frozenset(_READERS.split())
_SUBCOMMANDS = {
    "git": frozenset(("blame", "diff", "grep", "log", "ls-files", "ls-tree", "rev-parse", "show", "status")),
    "kubectl": frozenset(("describe", "get", "logs", "top")),
    "docker": frozenset(("images", "inspect", "logs", "ps", "stats")),
    "systemctl": frozenset(("cat", "list-timers", "list-unit-files", "list-units", "show", "status")),
    "sed": frozenset(("-n",)),
}


def only_reads(globs: Sequence[str], tool: str, arguments: Any) -> bool:
    """Whether a call reads and does nothing else: by the tool's name, for a shell by its command. Case does not matter."""
    name = tool.lower()
    names = {name, name.rpartition("__")[2], *_LAST_NAME.findall(name)}
    if _matches(globs, names):
        return True
    command = _command(arguments) if globs and _matches(_SHELLS, names) else None
    return command is not None and _is_reading(command)


def _matches(globs: Sequence[str], names: set[str]) -> bool:
    return any(fnmatchcase(name, glob.lower()) for glob in globs for name in names)


def _command(arguments: Any) -> str | None:
    """The command that a shell was called with."""
    if isinstance(arguments, str):
        try:
            arguments = parse_json(arguments)
        except ValueError:
            return None
    if not isinstance(arguments, Mapping):
        return None
    given = next((arguments[key] for key in _COMMAND_KEYS if key in arguments), None)
    if isinstance(given, list) and all(isinstance(word, str) for word in given):
        # Codex: ["bash", "-lc", "the command"].
        return given[-1] if given[:1] == ["bash"] else " ".join(given)
    return given if isinstance(given, str) else None


def _is_reading(command: str) -> bool:
    """Whether every program of a command line is known to read only."""
    command = _HARMLESS_REDIRECT.sub("", command)
    pieces = [words for piece in _BETWEEN.split(command) if (words := piece.split())]
    return bool(pieces) and not _WRITES.search(_BETWEEN.sub(" ", command)) and all(map(_reads, pieces))


def _reads(words: Sequence[str]) -> bool:
    program = words[0].rpartition("/")[2]
    if program in _PROGRAMS:
        return True
    allowed = _SUBCOMMANDS.get(program, frozenset())
    # Options with a value (`git -C path log`) stand before the subcommand.
    named = [word for word in words[1:] if word in allowed or (program != "sed" and not word.startswith("-"))]
    return bool(allowed) and any(word in allowed for word in named[:2])
