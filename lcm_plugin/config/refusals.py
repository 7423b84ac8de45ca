"""Why pydantic refused a value, in plain words: the one place that knows its names for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# By pydantic's types of errors; what stands in braces is in the error's context.
_WORDS = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_parsing", "float_type", "finite_number"), "must be a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(("string_type", "string_unicode"), "must be a text"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type"), "must be an object"
    ),
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "missing": "is missing",
    "extra_forbidden": "is unknown here",
}


def refusal(error: Mapping[str, Any]) -> str:
    """Why a value was refused, from one of `ValidationError.errors()`, as in ``must be at least 1``."""
    if words := _WORDS.get(error["type"]):
        return words.format(**error.get("ctx", {}))
    return str(error["msg"]).removeprefix("Value error, ").replace("Input should", "must")
