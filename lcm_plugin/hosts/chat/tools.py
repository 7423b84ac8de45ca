"""The chat's own tools, used only when a person allowed them: a shell and a file reader."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SHELL_TIMEOUT = 120

SCHEMAS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "shell",
            "description": "Runs a shell command in the current folder and returns its output.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}},
                "required": ["command"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Returns the text of a file.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
            },
        },
    },
]


def run(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The tool's result; what goes wrong is part of it, since the model reads it."""
    try:
        if name == "shell":
            return _shell(str(arguments["command"]))
        if name == "read_file":
            return {"text": Path(str(arguments["path"])).read_text("utf-8", "replace")}
    except KeyError as error:
        return {"error": f"{name} needs the argument {error}"}
    except OSError as error:
        return {"error": f"{name}: {error}"}
    return {"error": f"there is no tool {name}"}


def _shell(command: str) -> dict[str, Any]:
    try:
        done = subprocess.run(
            command,
            shell=True,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SHELL_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"the command ran longer than {SHELL_TIMEOUT} s and was ended"}
    return {"exit": done.returncode, "output": done.stdout + done.stderr}
