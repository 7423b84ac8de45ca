"""What an answer must look like: a JSON schema, checked once, and each answer checked against it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.messages.sendable import parse_json

LARGEST_SCHEMA = 20_000
MOST_COLUMNS = 100
_REFUSED = ("patternProperties", "$dynamicRef", "$recursiveRef")
_FENCED = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)


class Contract:
    """The schema of a map's answers. Raises `InputError` for one that cannot be used."""

    def __init__(self, schema: Any) -> None:
        self.text = _checked(schema)
        self._validator = _validator(schema)
        properties = schema.get("properties") if isinstance(schema, dict) else None
        named = list(properties)[:MOST_COLUMNS] if isinstance(properties, dict) else []
        self.columns = tuple(named) or ("value",)

    def read(self, text: str) -> tuple[str | None, str]:
        """The answer in a model's text as canonical JSON, and "" or what is wrong with it."""
        problem = "the reply holds no JSON"
        for candidate in _candidates(text):
            try:
                value = parse_json(candidate)
            except ValueError:
                continue
            problem = self._problem(value)
            if not problem:
                return json.dumps(value, ensure_ascii=False, separators=(",", ":")), ""
        return None, problem

    def _problem(self, value: Any) -> str:
        for error in self._validator.iter_errors(value):
            place = "/".join(map(str, error.absolute_path)) or "the answer"
            return f"{place}: {error.message}"[:500]
        return ""


def _candidates(text: str) -> Iterator[str]:
    """The whole text, what a fence holds, and from the first bracket to the last."""
    body = text.strip()
    yield body
    yield from (found[1] for found in _FENCED.finditer(body))
    for opening, closing in ("{}", "[]"):
        start, end = body.find(opening), body.rfind(closing)
        if 0 <= start < end:
            yield body[start : end + 1]


def _checked(schema: Any) -> str:
    if not isinstance(schema, dict) or not schema:
        raise InputError('schema must be a JSON schema, for example {"type": "object", "properties": {…}}')
    text = json.dumps(schema, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    if len(text) > LARGEST_SCHEMA:
        raise InputError(f"schema has {len(text):,} characters; {LARGEST_SCHEMA:,} are allowed")
    for name, value in _keywords(schema):
        if name in _REFUSED or (name == "$ref" and not str(value).startswith("#")):
            raise InputError(
                f"schema: {name} {str(value)[:80]!r} is not allowed; references must stay inside ('#/…')"
            )
    return text


def _keywords(value: Any) -> Iterator[tuple[str, Any]]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            yield from one.items()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _validator(schema: dict[str, Any]) -> Any:
    """A validator whose patterns cannot take exponential time."""
    try:
        from jsonschema import SchemaError as BadSchema
        from jsonschema import validators
    except ImportError as error:
        raise InputError("maps need the extra maps: pip install 'lcm_plugin[maps]'") from error
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
        _compile_patterns(schema)
    except BadSchema as error:
        place = "/".join(map(str, error.absolute_path))
        raise InputError(f"schema{': ' + place if place else ''}: {error.message}"[:500]) from error
    extend: Any = validators.extend
    return extend(kind, {"pattern": _matches})(schema)


def _compile_patterns(schema: Mapping[str, Any]) -> None:
    import re2

    for name, value in _keywords(schema):
        if name == "pattern" and isinstance(value, str):
            try:
                re2.compile(value)
            except re2.error as error:
                raise InputError(f"schema: pattern {value[:80]!r}: {error}") from error


def _matches(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    import re2
    from jsonschema import ValidationError

    if isinstance(instance, str) and not re2.search(pattern, instance):
        yield ValidationError(f"{instance[:80]!r} does not match {pattern!r}")
