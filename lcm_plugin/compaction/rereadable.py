"""Which tools only read: what they returned can be had again, from the store or by the same call.

A tool is known by its name. A shell is a tool of any kind: there the command decides.
"""

from __future__ import annotations

import re
import shlex
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
_HARMLESS_REDIRECT = re.compile(r"[12]?>\s*/dev/null|2>&1")
_SUBSTITUTION = re.compile(r"`|\$\(")
_OPERATORS = "();<>|&\n"
_BETWEEN = re.compile(r"(?:&&|[|;\n])+")
_READERS = """
cat cd cut date df diff dmesg du echo fd file find grep egrep fgrep head id jq journalctl less ls lsof md5sum nl netstat
od printenv ps pwd rg sed sha256sum sort ss stat strings tail tree type uname uniq uptime wc which whoami xxd yq
"""
_PROGRAMS = frozenset(_READERS.split())
# With these a program that otherwise reads writes, or starts another one.
_WRITING_OPTIONS = {
    "date": re.compile(r"-s|--set"),
    "dmesg": re.compile(r"-[cCDEn]|--(?:clear|console|read-clear)"),
    "fd": re.compile(r"-[xX]|--exec"),
    "find": re.compile(r"-(?:exec|ok|delete|fprint|fls)"),
    "journalctl": re.compile(r"--(?:vacuum|rotate|flush|sync|relinquish|setup|update)"),
    "rg": re.compile(r"--pre"),
    "sed": re.compile(r"-\w*i|--in-place"),
    "sort": re.compile(r"-\w*o|--output"),
    "tree": re.compile(r"-o"),
    "xxd": re.compile(r"-r"),
    "yq": re.compile(r"-\w*i|--inplace|--in-place"),
}
_SUBCOMMANDS = {
    "git": frozenset(("blame", "diff", "grep", "log", "ls-files", "ls-tree", "rev-parse", "show", "status")),
    "kubectl": frozenset(("describe", "get", "logs", "top")),
    "docker": frozenset(("images", "inspect", "logs", "ps", "stats")),
    "systemctl": frozenset(("cat", "list-timers", "list-unit-files", "list-units", "show", "status")),
}
_WITH_VALUE = frozenset(
    ("-C", "-c", "-n", "-H", "--namespace", "--context", "--git-dir", "--work-tree", "--host")
)


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
    if _SUBSTITUTION.search(command):
        return False
    lexer = shlex.shlex(_HARMLESS_REDIRECT.sub("", command), posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    pieces: list[list[str]] = [[]]
    try:
        for word in lexer:
            if _BETWEEN.fullmatch(word):
                pieces.append([])
            elif set(word) <= set(_OPERATORS):
                return False
            else:
                pieces[-1].append(word)
    except ValueError:
        return False
    programs = [words for words in pieces if words]
    return bool(programs) and all(map(_reads, programs))


def _reads(words: Sequence[str]) -> bool:
    program, options = words[0].rpartition("/")[2], words[1:]
    if program in _PROGRAMS:
        writing = _WRITING_OPTIONS.get(program)
        return writing is None or not any(map(writing.match, options))
    return _subcommand(options) in _SUBCOMMANDS.get(program, frozenset())


def _subcommand(words: Sequence[str]) -> str | None:
    """The first word that is no option and no option's value: of `git -C path log` it is `log`."""
    rest = iter(words)
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return None
