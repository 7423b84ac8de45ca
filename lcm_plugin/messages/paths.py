"""Dotted paths into a message: ``content.0.text``. A dot within a key is written ``\\.``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def join_path(steps: Sequence[str | int]) -> str:
    """The path that `split_path` takes apart."""
    plain = ".".join(map(str, steps))
    if plain.count(".") == len(steps) - 1 and "\\" not in plain:
        return plain
    return ".".join(str(step).replace("\\", "\\\\").replace(".", "\\.") for step in steps)


def split_path(path: str) -> list[str]:
    """The steps of a path, unescaped; list positions are decimal numbers."""
    if "\\" not in path:
        return path.split(".")
    steps, signs = [""], iter(path)
    for sign in signs:
        if sign == ".":
            steps.append("")
        else:
            steps[-1] += next(signs) if sign == "\\" else sign
    return steps


def put_at(holder: Any, path: str, value: Any) -> None:
    """Sets what a path leads to; all but its last step must exist."""
    *steps, last = split_path(path)
    for step in steps:
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
    holder[int(last) if isinstance(holder, list) else last] = value


def get_at(holder: Any, path: str) -> Any:
    """What a path leads to; raises LookupError when it leads nowhere."""
    for step in split_path(path):
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
    return holder
