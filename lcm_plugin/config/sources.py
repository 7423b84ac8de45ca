"""Where settings are written: spellings of their keys, ``LCM_*`` variables, lists as text."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import AliasChoices
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from lcm_plugin.config.explain import nearest

# Variables that are no settings: the settings file, the key of a summary endpoint, the shell's error mode.
OTHER_VARIABLES = frozenset({"LCM_CONFIG", "LCM_SUMMARY_API_KEY", "LCM_TRACEBACK"})
Fields = Mapping[str, FieldInfo]


@dataclass(frozen=True, slots=True)
class Note:
    """Something odd about a setting as it was written: ``name`` is the key or variable, ``text`` a sentence."""

    name: str
    text: str


_notes: ContextVar[list[Note] | None] = ContextVar("lcm_setting_notes", default=None)


@contextmanager
def noting() -> Iterator[list[Note]]:
    """Within it, unknown and doubled settings are noted in the list, once each, and do not warn."""
    notes: list[Note] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def read_environment(environ: Mapping[str, str], fields: Fields) -> dict[str, tuple[str, Any]]:
    """The variable and the value of every setting that is set; a name that is no setting warns.

    An empty value empties a text or a list and leaves any other setting alone; ``none`` unsets one that
    may be unset.
    """
    names = {variable: name for name in fields for variable in variables_of(name)}
    found: dict[str, tuple[str, Any]] = {}
    for variable, name in names.items():
        value = environ.get(variable)
        if value is None or name in found:
            continue
        annotation = fields[name].annotation
        if type(None) in get_args(annotation) and value.strip().lower() in ("none", "null"):
            found[name] = (variable, None)
        elif value.strip() or annotation is str or get_origin(annotation) is list:
            found[name] = (variable, value)
    for variable in sorted(environ):
        if variable not in names and _should_be_a_setting(variable):
            _warn(f"the environment variable {variable} is no lcm setting", variable, list(names))
    return found


def variables_of(name: str) -> tuple[str, ...]:
    """The environment variables of a setting, the strongest first."""
    own = f"LCM_{name.upper()}"
    return (own, "LCM_DATABASE_URL", "LCM_DATABASE_PATH") if name == "database" else (own,)


def spellings(fields: Fields) -> dict[str, str]:
    """Every way to write a setting's key, and the field's name for each."""
    names = {}
    for name, field in fields.items():
        alias = field.validation_alias
        aliases = alias.choices if isinstance(alias, AliasChoices) else [alias or to_camel(name)]
        names[name] = name
        names |= {str(choice): name for choice in aliases}
    return names


def canonical(values: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """The values under their fields' names; an unknown key, or one given in two spellings, warns."""
    known, found = spellings(fields), dict[str, Any]()
    for key, value in values.items():
        name = known.get(key)
        if name is None:
            _warn(f"unknown lcm setting {key!r} is ignored", key, list(known))
        elif name in found and found[name] != value:
            _warn(f"lcm setting {key!r} is given twice; {found[name]!r} holds", key)
        else:
            found[name] = value
    return found


def _should_be_a_setting(variable: str) -> bool:
    return (
        variable.startswith("LCM_")
        and variable not in OTHER_VARIABLES
        and not variable.startswith("LCM_TEST_")
    )


def split_text(value: object, separator: str) -> object:
    """A list written as text: JSON, or items between separators."""
    if not isinstance(value, str):
        return value
    if value.strip().startswith("["):
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = None
        if isinstance(parsed, list):
            return parsed
    return [item.strip() for item in value.split(separator) if item.strip()]


def _warn(text: str, name: str, known: list[str] | None = None) -> None:
    whole, notes = text + nearest(name, known or []), _notes.get()
    if notes is None:
        warnings.warn(whole, stacklevel=_outside_frame())
    elif (note := Note(name, whole)) not in notes:
        notes.append(note)


def _outside_frame() -> int:
    """How far up the stack the first caller outside this package is."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("lcm_plugin", "pydantic")
    ):
        level, frame = level + 1, frame.f_back
    return level
