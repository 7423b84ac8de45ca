"""Settings in words: what a setting may be, why a value was refused, and what must not be shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit, urlunsplit

from annotated_types import Ge, Gt, Le
from pydantic import BeforeValidator, ValidationError
from pydantic.fields import FieldInfo

from lcm_plugin.config.refusals import refusal

_SHOWN_CHARS = 80


def _auto_as_none(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() == "auto" else value


AUTO = BeforeValidator(_auto_as_none)
"""Marks a setting whose value a policy chooses unless it is set; ``auto`` and ``none`` are the same."""
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_PASSWORD_FIELDS = re.compile(
    r"(?i)\b(password|sslpassword|key|token|api_key|apikey|secret)\s*=\s*(?:'(?:[^'\\]|\\.)*'|[^&\s]+)"
)


def allowed(field: FieldInfo) -> str:
    """What a setting may be, as in ``a whole number, at least 1, or none``."""
    members = _members(field.annotation)
    kinds = [kind for kind in members if kind is not NoneType]
    words = " or ".join(_kind(kind) for kind in kinds)
    bounds = _bounds(field.metadata)
    if bounds:
        words += f", {bounds}"
    unset = "auto" if is_auto(field) else "none"
    return words + (f", or {unset}" if NoneType in members else "")


def is_auto(field: FieldInfo) -> bool:
    """Whether a policy chooses the setting's value unless it is set."""
    return AUTO in field.metadata


def explain(
    error: ValidationError,
    fields: Mapping[str, FieldInfo],
    keys: Mapping[str, str],
    places: Mapping[str, str],
) -> str:
    """Each refused value with its key, where it was set and what is allowed.

    ``keys`` are the shown names of fields, ``places`` where a field's value was set, when that helps.
    """
    return "; ".join(_explain_one(item, fields, keys, places) for item in error.errors())


def masked(value: Any) -> Any:
    """The value without passwords: those in URLs and connection strings become ``***``."""
    if not isinstance(value, str):
        return value
    value = _PASSWORD_FIELDS.sub(lambda match: f"{match[1]}=***", value)
    if "://" not in value:
        return value
    try:
        parts = urlsplit(value)
        secret = parts.password
    except ValueError:
        return "***"
    if secret is None:
        return value
    user, host = parts.netloc.rsplit("@", 1)
    return urlunsplit(parts._replace(netloc=f"{user.split(':', 1)[0]}:***@{host}"))


def nearest(name: str, known: list[str]) -> str:
    """A hint at the known name that is meant, or nothing."""
    lowered = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), lowered, n=1, cutoff=0.75)
    return f"; did you mean {lowered[near[0]]!r}?" if near else ""


def _explain_one(
    item: Any, fields: Mapping[str, FieldInfo], keys: Mapping[str, str], places: Mapping[str, str]
) -> str:
    location: tuple[str | int, ...] = item["loc"]
    problem = refusal(item)
    if not location:
        return problem
    name = str(location[0])
    path = ".".join([keys.get(name, name), *(str(step) for step in location[1:])])
    place = f" (from {places[name]})" if name in places else ""
    if item["type"] == "missing":
        return f"{path}{place} {problem}"
    if item["type"] != "value_error" and name in fields:
        problem = f"must be {allowed(fields[name])}" if len(location) == 1 else problem
    return f"{path} = {_shown(item['input'])}{place}: {problem}"


def _shown(value: Any) -> str:
    text = repr(masked(value))
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def _kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(str(choice) for choice in get_args(kind))
    if get_origin(kind) is list:
        inner = get_args(kind)[0]
        return "a list of texts" if inner is str else "a list of rules"
    return _KINDS.get(kind, "text")


def _members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _bounds(rules: list[Any]) -> str:
    low = next((f"at least {_number(rule.ge)}" for rule in rules if isinstance(rule, Ge)), "")
    low = next((f"above {_number(rule.gt)}" for rule in rules if isinstance(rule, Gt)), low)
    high = next((f"at most {_number(rule.le)}" for rule in rules if isinstance(rule, Le)), "")
    return " and ".join(part for part in (low, high) if part)


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
