"""The formats that can be imported, and how a file's format is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.json_files import json_objects
from lcm_plugin.interchange.importers.packed import plain_name, unpacked
from lcm_plugin.interchange.importers.records import Record
from lcm_plugin.interchange.importers.sources import (
    claude_code,
    cline,
    codex,
    cursor,
    gemini_cli,
    goose,
    hermes,
    hermes_lcm,
    lossless_claw,
    openai,
    openclaw,
    opencode,
    qwen_code,
)
from lcm_plugin.interchange.importers.sources.exports import chatgpt, claude_ai, librechat, sharegpt
from lcm_plugin.store.foreign import ForeignDatabase, is_sqlite

_MOST_LINES = 20
SUFFIXES = frozenset({".jsonl", ".json", ".zip", ".db", ".sqlite", ".sqlite3", ".vscdb"})


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name, its title, and the function that reads a file.

    ``unpacks`` says that this function takes compressed files too: it looks for other files beside them.
    """

    name: str
    title: str
    read: Callable[[Path], Iterator[Record]]
    unpacks: bool = False


FORMATS = {
    one.name: one
    for one in (
        Format(openai.NAME, "OpenAI-style messages (JSON, JSON lines)", openai.read),
        Format(claude_code.NAME, "Claude Code transcript", claude_code.read),
        Format(codex.NAME, "Codex rollout", codex.read, unpacks=True),
        Format(openclaw.NAME, "OpenClaw transcript", openclaw.read),
        Format(chatgpt.NAME, "ChatGPT data export", chatgpt.read),
        Format(gemini_cli.NAME, "Gemini CLI chat", gemini_cli.read),
        Format(qwen_code.NAME, "Qwen Code chat", qwen_code.read),
        Format(opencode.NAME, "opencode sessions", opencode.read),
        Format(cursor.NAME, "Cursor chats", cursor.read),
        Format(claude_ai.NAME, "Claude.ai data export", claude_ai.read),
        Format(cline.NAME, "Cline or Roo Code task", cline.read),
        Format(goose.NAME, "Goose sessions", goose.read),
        Format(sharegpt.NAME, "ShareGPT collection", sharegpt.read),
        Format(librechat.NAME, "LibreChat export", librechat.read),
        Format(hermes.NAME, "Hermes state.db", hermes.read),
        Format(lossless_claw.NAME, "lossless-claw database", lossless_claw.read),
        Format(hermes_lcm.NAME, "hermes-lcm database", hermes_lcm.read),
    )
}
_DATABASES = (hermes_lcm, lossless_claw, hermes, openclaw, opencode, goose, cursor)
# The first that recognises a file has it: OpenAI's messages have the least to be known by.
_EXPORTS = (chatgpt, claude_ai, librechat, sharegpt)
_LINES = (
    openclaw,
    codex,
    gemini_cli,
    qwen_code,
    *_EXPORTS,
    opencode,
    claude_code,
    goose,
    cursor,
    cline,
    openai,
)
_DOCUMENTS = (gemini_cli, *_EXPORTS, opencode, cline, openai)


def check_file(path: Path) -> None:
    """Raises `InputError` when there is no file to read."""
    if not path.is_file():
        raise InputError(f"{path}: {'not a file' if path.exists() else 'there is no such file'}")


def format_of(path: Path) -> Format | None:
    """The format of a file; None when none fits. Raises `InputError` for a file that cannot be read."""
    check_file(path)
    with unpacked(path) as plain:
        return _recognised(plain)


def _recognised(path: Path) -> Format | None:
    if is_sqlite(path):
        with ForeignDatabase(path) as database:
            found = next((one for one in _DATABASES if one.recognises_database(database)), None)
        return FORMATS[found.NAME] if found else None
    for export in (claude_ai, chatgpt):
        if export.holds_export(path):
            return FORMATS[export.NAME]
    for line in islice(json_objects(path), _MOST_LINES):
        on_lines = line.offset >= 0
        if not line.error:
            for module in _LINES if on_lines else _DOCUMENTS:
                if module.recognises(line.value, path):
                    return FORMATS[module.NAME]
        if not on_lines:
            break
    return None


def why_unknown(path: Path) -> str:
    """Why a file is not read: it holds nothing, no line of it can be read, or its tool has no shape to read; else empty."""
    if path.name.startswith(".aider.chat.history"):
        return "Aider's history is Markdown, in which a heading of an answer looks like words of a person"
    if is_sqlite(path):
        with ForeignDatabase(path) as database:
            if database.has("blobs", "id", "data") and database.has("meta", "key", "value"):
                return "the store of Cursor's command line has no public shape; its agent-transcripts can be read"
        return ""
    if Path(plain_name(path)).suffix not in (".json", ".jsonl"):
        return ""
    with unpacked(path) as plain:
        lines = list(islice(json_objects(plain), _MOST_LINES))
    if not lines:
        return "it is empty"
    first = next((line.value for line in lines if not line.error), None)
    if first is None:
        return lines[0].error.removeprefix(f"{path}: ")
    if ("requests" in first and "responderUsername" in first) or ("kind" in first and "v" in first):
        return "chats of Copilot in VS Code change their shape with its versions"
    if "source" in first and ("action" in first or "observation" in first or "llm_message" in first):
        return "events of OpenHands changed their shape between versions"
    return ""
