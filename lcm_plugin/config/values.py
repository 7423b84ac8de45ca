"""Kinds of values that settings have, with their checks."""

from __future__ import annotations

from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode

from lcm_plugin.config.sources import split_text


def _check_expressions(value: list[str]) -> list[str]:
    if value:
        import re2

        options = re2.Options()
        options.log_errors = False
        for expression in value:
            try:
                re2.compile(expression, options)
            except re2.error as error:
                reason = error.args[0] if error.args else error
                reason = reason.decode() if isinstance(reason, bytes) else reason
                raise ValueError(f"{expression!r} is not an RE2 regular expression: {reason}") from None
    return value


def _known_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError("must be an IANA time zone such as Europe/Berlin") from error
    return value


# One RE2 expression a line.
Expressions = Annotated[
    list[str],
    NoDecode,
    BeforeValidator(lambda value: split_text(value, "\n")),
    AfterValidator(_check_expressions),
]
Zone = Annotated[str, AfterValidator(_known_zone)]
