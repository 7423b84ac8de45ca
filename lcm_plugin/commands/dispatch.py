"""Which word runs which command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches

from lcm_plugin.assembly.notices import IGNORED
from lcm_plugin.commands import (
    actions,
    cleaning,
    doctor,
    editing,
    maps,
    pins,
    recall,
    resets,
    settings,
    status,
    tree,
)
from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.texts import FAILED
from lcm_plugin.errors import LcmError
from lcm_plugin.sessions.access import Access
from lcm_plugin.text import harmless
from lcm_plugin.types import CommandResult, Session

NAMES = ("/lcm", "/lossless")
_HELP_LINE = "`/lcm help` lists all commands."
_UNBOUND = "This chat is not bound to a session yet, so there is nothing to show. It is bound with its first message."


@dataclass(frozen=True, slots=True)
class Command:
    """One command. ``arguments`` is how its arguments are written, ``most`` how many words they may be.

    With ``verbatim`` they are one text, as it was written.
    """

    run: Callable[[EngineFacade, Session, list[str]], CommandResult]
    help: str
    arguments: str = ""
    most: int = 0
    needs_session: bool = True
    verbatim: bool = False


def _help(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    lines = [f"- `{entry['name']}`: {entry['help']}" for entry in command_list()]
    return CommandResult("\n".join(["**Lossless context management**", *lines]), {"commands": command_list()})


COMMANDS: dict[str, Command] = {
    "status": Command(
        status.status, "what is stored, what the context holds, what is owed", needs_session=False
    ),
    "help": Command(_help, "this list", needs_session=False),
    "tree": Command(tree.tree, "the summaries of this session, or one of them, drawn as a tree", "[ID]", 1),
    "show": Command(recall.show, "a message, summary or file word for word", "ID [OFFSET]", 2),
    "grep": Command(
        recall.grep, "search this session's history, summarised parts included", "WORDS …", 1 << 16
    ),
    "edit": Command(
        editing.edit,
        "put a text of yours in a summary's place, or the one before back; both are kept",
        "ID back | ID TEXT",
        1,
        verbatim=True,
    ),
    "compact": Command(
        actions.compact,
        "summarise older messages now, with what concerns WORDS in detail; undo takes the last compaction back",
        "[undo | [BUDGET] WORDS …]",
        1 << 10,
    ),
    "pin": Command(
        pins.pin, "keep a message or a text in every context, word for word", "ID | TEXT", 1, verbatim=True
    ),
    "pins": Command(pins.pins, "what is pinned"),
    "unpin": Command(pins.unpin, "take pins out of every context", "ID … | all", 1 << 10),
    "maps": Command(
        maps.maps, "maps of this session: how far they are, what they cost; stop ends one", "[stop ID]", 2
    ),
    "new": Command(resets.preview_new, "what `/new` would keep and drop, without doing it", "[DEPTH]", 1),
    "reset": Command(resets.preview_reset, "what `/reset` would archive, without doing it"),
    "undo": Command(actions.undo, "bring back what the last `/new` or compaction took out of the context"),
    "config": Command(
        settings.config, "the settings, or one of them: value, source, range", "[KEY]", 1, needs_session=False
    ),
    "doctor": Command(
        doctor.doctor,
        "check that everything of this session is whole; apply mends what can be mended",
        "[apply [delete] | clean … | hide ID | show ID]",
        cleaning.MOST_WORDS,
    ),
    "prune": Command(
        cleaning.prune,
        "remove old conversations for ever; shows what would go unless it is confirmed",
        cleaning.PRUNE_ARGUMENTS,
        cleaning.MOST_WORDS,
    ),
    "backup": Command(actions.backup, "write a checked copy of the database beside it", needs_session=False),
}


def is_command(text: str) -> bool:
    """Whether a user's text is one of our commands; ``/lcm@name`` counts, as group chats write it."""
    words = text.split(maxsplit=1) if isinstance(text, str) else ()
    return bool(words) and words[0].split("@")[0].lower() in NAMES


def command_list() -> list[dict[str, str]]:
    """Every command, as it is written, with a line of help."""
    return [
        {"name": " ".join(filter(None, ("/lcm", name, command.arguments))), "help": command.help}
        for name, command in COMMANDS.items()
    ]


def run_command(engine: EngineFacade, session: Session, text: str) -> CommandResult:
    """Answers a command, after the session's pending notices; an error becomes the answer.

    No character of it steers a terminal.
    """
    answer = _run(engine, session, text)
    news = engine.session_notices.take(session)
    return replace(answer, text=harmless("\n\n".join((*news, answer.text))))


def _run(engine: EngineFacade, session: Session, text: str) -> CommandResult:
    words = text.split()
    name = words[1].lower() if len(words) > 1 else "status"
    command = COMMANDS.get(name)
    if command is None:
        return _unknown(words[1])
    arguments = text.split(maxsplit=2)[2:] if command.verbatim else words[2:]
    if len(arguments) > command.most:
        return _misused(name, command)
    if command.needs_session and (refusal := _refusal(engine, session)):
        return CommandResult(refusal, {"outcome": FAILED}, ok=False)
    try:
        return command.run(engine, session, arguments)
    except LcmError as error:
        return CommandResult(f"Failed: {error}", {"outcome": FAILED, "error": str(error)}, ok=False)


def _refusal(engine: EngineFacade, session: Session) -> str:
    if not session.name:
        return _UNBOUND
    return IGNORED if engine.access(session) is Access.NONE else ""


def _unknown(word: str) -> CommandResult:
    near = get_close_matches(word.lower(), COMMANDS, n=1, cutoff=0.5)
    hint = f" Did you mean `/lcm {near[0]}`?" if near else ""
    shown = word[:40].replace("`", "'")
    return CommandResult(
        f"There is no command `/lcm {shown}`.{hint} {_HELP_LINE}",
        {"outcome": FAILED, "nearest": near[0] if near else None},
        ok=False,
    )


def _misused(name: str, command: Command) -> CommandResult:
    written = " ".join(filter(None, ("/lcm", name, command.arguments)))
    return CommandResult(f"It is written `{written}`. {_HELP_LINE}", {"outcome": FAILED}, ok=False)
