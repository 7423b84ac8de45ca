"""The shape of nested data: keys, types, counts and samples of many values merged into one outline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from lcm_plugin.files.explore.base import one_line
from lcm_plugin.text import plural

MAX_DEPTH = 4
_MAX_KEYS = 24
_MAX_SAMPLE = 500


def outline(value: Any, label: str = "") -> Iterator[str]:
    """Lines that describe one value, nested by indentation."""
    yield from _describe([value], label, 0, 1)


def outline_records(records: Sequence[Any]) -> Iterator[str]:
    """Lines that describe a list of records."""
    yield from _members([record for record in records if isinstance(record, dict)], 0)
    others = [record for record in records if not isinstance(record, dict)]
    if others:
        yield from _describe(others, "other records", 0, len(records))


def _describe(values: list[Any], label: str, level: int, population: int) -> Iterator[str]:
    """One line for the merged values, then their members. ``population`` is how often they could be there."""
    prefix = "  " * level + (f"- {one_line(label, 60)}: " if label else "")
    presence = f", in {len(values):,} of {population:,}" if len(values) < population else ""
    kinds = sorted({_kind(value) for value in values})
    objects = [value for value in values if isinstance(value, dict)]
    arrays = [value for value in values if isinstance(value, list)]
    if objects:
        keys = len({key for value in objects for key in value})
        yield f"{prefix}{' or '.join(kinds)} of {plural(keys, 'key')}{presence}"
        if level < MAX_DEPTH:
            yield from _members(objects, level + 1 if label else level)
    elif arrays:
        yield f"{prefix}{_arrays(arrays)}{presence}"
        items = [item for value in arrays for item in value[:_MAX_SAMPLE]][:_MAX_SAMPLE]
        nested = [item for item in items if isinstance(item, (dict, list))]
        if nested and level < MAX_DEPTH:
            yield from _inner(items, level + 1 if label else level)
    else:
        yield f"{prefix}{' or '.join(kinds)}{_sample(values)}{presence}"


def _inner(items: list[Any], level: int) -> Iterator[str]:
    objects = [item for item in items if isinstance(item, dict)]
    if objects:
        yield from _members(objects, level)
    else:
        yield from _describe(items, "each", level, len(items))


def _members(objects: list[dict[Any, Any]], level: int) -> Iterator[str]:
    columns: dict[str, list[Any]] = {}
    for item in objects:
        for key, value in item.items():
            columns.setdefault(str(key), []).append(value)
    for key, values in list(columns.items())[:_MAX_KEYS]:
        yield from _describe(values, key, level, len(objects))
    if len(columns) > _MAX_KEYS:
        yield "  " * level + f"- … {plural(len(columns) - _MAX_KEYS, 'more key')}"


def _arrays(arrays: list[list[Any]]) -> str:
    sizes = [len(value) for value in arrays]
    count = f"{sizes[0]:,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
    kinds = sorted({_kind(item) for value in arrays for item in value[:_MAX_SAMPLE]})
    scalars = [item for value in arrays for item in value[:8] if not isinstance(item, (dict, list))]
    return f"array of {count} {' or '.join(kinds) or 'items'}{_sample(scalars)}"


def _sample(values: list[Any]) -> str:
    """Range of numbers, or a few distinct examples."""
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) > 1 and len(numbers) == len(values) and min(numbers) != max(numbers):
        return f", {_short(min(numbers))} to {_short(max(numbers))}"
    examples = list(dict.fromkeys(_short(value) for value in values[:200] if value is not None))[:3]
    return f", {', '.join(examples)}" if examples else ""


def _short(value: Any) -> str:
    if isinstance(value, str):
        return f'"{one_line(value, 40)}"'
    return one_line(json.dumps(value, default=str), 40)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
