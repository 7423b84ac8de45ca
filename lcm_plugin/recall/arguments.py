"""The arguments of the tools, checked. Names may be snake_case or camelCase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from lcm_plugin.errors import InputError
from lcm_plugin.messages.characters import storable
from lcm_plugin.messages.convert import safe_repr

GREP_LIMIT, GREP_MAX_LIMIT = 50, 200
MAX_IDS = 50
MAX_TIMEOUT_MS = 600_000
# What both databases can hold.
LARGEST = 2**63 - 1


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_as_list)]


class _Arguments(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    conversation_id: int | None = Field(default=None, ge=1, le=LARGEST)
    all_conversations: bool = False


class GrepArguments(_Arguments):
    """What ``lcm_grep`` takes."""

    pattern: str
    mode: Literal["full_text", "regex"] = "full_text"
    scope: Literal["messages", "summaries", "both", "files"] = "messages"
    file_ids: Names = Field(default_factory=list, max_length=MAX_IDS)
    roles: Names | None = Field(default=None, max_length=20)
    tool_name: str | None = None
    since: str | None = None
    before: str | None = None
    limit: int = Field(default=GREP_LIMIT, ge=1, le=GREP_MAX_LIMIT)
    sort: Literal["relevance", "recency", "hybrid"] = "relevance"
    context: int = Field(default=1, ge=0, le=10)
    cursor: str | None = None


class DescribeArguments(_Arguments):
    """What ``lcm_describe`` takes."""

    id: Annotated[str | list[str], Field(max_length=4_000)]
    offset: int = Field(default=0, ge=0, le=LARGEST)
    token_cap: int | None = Field(default=None, ge=100, le=LARGEST)
    start_line: int | None = Field(default=None, ge=1, le=LARGEST)
    end_line: int | None = Field(default=None, ge=1, le=LARGEST)
    start_byte: int | None = Field(default=None, ge=0, le=LARGEST)
    end_byte: int | None = Field(default=None, ge=1, le=LARGEST)


class ExpandArguments(_Arguments):
    """What ``lcm_expand`` takes."""

    summary_ids: Names = Field(default_factory=list, max_length=MAX_IDS)
    query: str | None = None
    depth: int = Field(default=1, ge=0, le=50)
    include_messages: bool = True
    token_cap: int | None = Field(default=None, ge=100, le=LARGEST)
    offset: int = Field(default=0, ge=0, le=LARGEST)


class ExpandQueryArguments(_Arguments):
    """What ``lcm_expand_query`` takes."""

    prompt: str = Field(min_length=1, max_length=8_000)
    query: str | None = None
    summary_ids: Names = Field(default_factory=list, max_length=MAX_IDS)
    max_tokens: int = Field(default=2_000, ge=50, le=32_000)
    token_cap: int | None = Field(default=None, ge=100, le=LARGEST)
    timeout_ms: int | None = Field(default=None, ge=1, le=MAX_TIMEOUT_MS)


_Model = TypeVar("_Model", bound=_Arguments)


def check(model: type[_Model], tool: str, arguments: object) -> _Model:
    """The arguments as a record; raises `InputError` naming the argument, its value and what is allowed."""
    if not isinstance(arguments, Mapping):
        raise InputError(f"{tool}: arguments must be an object, not {type(arguments).__name__}")
    given = {name: _searchable(value) for name, value in arguments.items() if value is not None}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise InputError(f"{tool}: {_explain(error, model)}") from error


def _explain(error: ValidationError, model: type[_Arguments]) -> str:
    lines = []
    for item in error.errors():
        name = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            lines.append(f"unknown argument {name!r}; known are {', '.join(model.model_fields)}")
        elif item["type"] == "missing":
            lines.append(f"argument {name!r} is missing")
        else:
            lines.append(f"{name} = {safe_repr(item['input'], 80)}: {item['msg']}")
    return "; ".join(lines)


def _searchable(value: object) -> object:
    """A text or texts without what no stored text holds: NUL and lone surrogates."""
    if isinstance(value, list):
        return [storable(item) if isinstance(item, str) else item for item in value]
    return storable(value) if isinstance(value, str) else value
