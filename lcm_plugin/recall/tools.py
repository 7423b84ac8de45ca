"""The recall tools as models see them (OpenAI function schemas, short enough to cost little in every call), and their
arguments, checked. Names of arguments may be snake_case or camelCase.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from lcm_plugin.characters import storable
from lcm_plugin.config import LcmConfig
from lcm_plugin.config.refusals import refusal
from lcm_plugin.errors import InputError
from lcm_plugin.maps.schemas import MAP_TOOL_NAMES, map_schemas
from lcm_plugin.messages.convert import safe_repr
from lcm_plugin.messages.table import checked_role

TOOL_NAMES = ("lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query")
PIN_TOOL = "lcm_pin"
ALL_TOOL_NAMES = (*TOOL_NAMES, PIN_TOOL, *MAP_TOOL_NAMES)
GREP_LIMIT, GREP_MAX_LIMIT, LEAST_CAP = 10, 200, 300
MAX_IDS = 50
MAX_TIMEOUT_MS = 600_000
# What both databases can hold.
LARGEST = 2**63 - 1

_CONVERSATION = {"type": "integer"}
_ALL = {
    "type": "boolean",
    "description": "Also other sessions, as far as allowed here.",
}
_CAP = {"type": "integer", "minimum": 100}
_IDS = {"type": "array", "items": {"type": "string"}}


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_as_list)]
Roles = Annotated[list[Annotated[str, AfterValidator(checked_role)]], BeforeValidator(_as_list)]


class _Arguments(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, defer_build=True
    )

    conversation_id: int | None = Field(default=None, ge=1, le=LARGEST)
    all_conversations: bool = False

    def within(self, most: int | None, name: str = "token_cap") -> Self:
        """The same with a cap of at most ``most`` tokens, where there is one."""
        if most is None:
            return self
        return self.model_copy(update={name: min(getattr(self, name) or most, most)})


class PinArguments(BaseModel):
    """What ``lcm_pin`` takes."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    text: str | None = None
    unpin: Names = Field(default_factory=list, max_length=MAX_IDS)


class GrepArguments(_Arguments):
    """What ``lcm_grep`` takes."""

    pattern: str
    mode: Literal["full_text", "regex"] = "full_text"
    scope: Literal["messages", "summaries", "both", "files"] = "messages"
    file_ids: Names = Field(default_factory=list, max_length=MAX_IDS)
    roles: Roles | None = Field(default=None, max_length=20)
    tool_name: str | None = None
    sender: str | None = None
    since: str | None = None
    before: str | None = None
    limit: int = Field(default=GREP_LIMIT, ge=1, le=GREP_MAX_LIMIT)
    sort: Literal["relevance", "recency", "hybrid"] = "relevance"
    context: int = Field(default=1, ge=0, le=10)
    cursor: str | None = None
    current_turn: bool = False
    token_cap: int | None = Field(default=None, ge=LEAST_CAP, le=LARGEST)


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

    def within(self, most: int | None, name: str = "max_tokens") -> Self:
        """As of the others; ``token_cap`` is what the helper reads, not what it answers."""
        return super().within(most, name)


_Model = TypeVar("_Model", bound=BaseModel)


def check(model: type[_Model], tool: str, arguments: object) -> _Model:
    """The arguments as a record; raises `InputError` naming the argument, its value and what is allowed."""
    if not isinstance(arguments, Mapping):
        raise InputError(f"{tool}: arguments must be an object, not {type(arguments).__name__}")
    given = {name: _searchable(value) for name, value in arguments.items() if value is not None}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise InputError(f"{tool}: {_explain(error, model)}") from error


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    lines = []
    for item in error.errors():
        name = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            lines.append(f"unknown argument {name!r}; known are {', '.join(model.model_fields)}")
        elif item["type"] == "missing":
            lines.append(f"argument {name!r} is missing")
        else:
            lines.append(f"{name} = {safe_repr(item['input'], 80)}: {refusal(item)}")
    return "; ".join(lines)


def _searchable(value: object) -> object:
    """A text or texts without what no stored text holds: NUL and lone surrogates."""
    if isinstance(value, list):
        return [storable(item) if isinstance(item, str) else item for item in value]
    return storable(value) if isinstance(value, str) else value


def tool_schemas(config: LcmConfig | None = None) -> list[dict[str, Any]]:
    """The four recall tools, and what the settings give agents beside: the one that pins, and those of maps."""
    pin = [_pin()] if config is not None and config.pin_tool else []
    maps = map_schemas() if config is not None and config.maps else []
    return [_grep(), _describe(), _expand(), _expand_query(), *pin, *maps]


def tool_names(config: LcmConfig) -> tuple[str, ...]:
    """Their names."""
    return tuple(schema["function"]["name"] for schema in tool_schemas(config))


def is_recall_tool(name: str | None) -> bool:
    """Whether a tool is one of these, also under the longer name that a host gives it: ``mcp__lcm__lcm_grep``."""
    return name is not None and name.endswith(ALL_TOOL_NAMES)


def _grep() -> dict[str, Any]:
    return _tool(
        "lcm_grep",
        "Search all that was said, also what was summarised away, in plain words or with a question. "
        "The best hits come first, with ids for lcm_describe.",
        {
            "pattern": {
                "type": "string",
                "description": 'Words (any of them, any form), "exact phrases", identifiers as written; or a regex.',
            },
            "mode": _choice(
                "full_text", "regex", about="regex is RE2, newest first, case-sensitive unless (?i)."
            ),
            "scope": _choice(
                "messages", "summaries", "both", "files", about="files: text moved out of messages."
            ),
            "file_ids": _IDS | {"description": "Search in these files."},
            "roles": _IDS | {"description": "user, assistant, tool, system."},
            "tool_name": {"type": "string", "description": "Calls and results of this tool."},
            "sender": {"type": "string", "description": "Who wrote it."},
            "since": {
                "type": "string",
                "description": "2026-05-03, 2h, last tuesday, March, 3 months ago. Inclusive.",
            },
            "before": {"type": "string", "description": "Likewise, exclusive."},
            "sort": _choice("relevance", "recency", "hybrid"),
            "limit": {"type": "integer", "maximum": GREP_MAX_LIMIT, "default": GREP_LIMIT},
            "context": {
                "type": "integer",
                "maximum": 10,
                "default": 1,
                "description": "Messages shown round each hit.",
            },
            "current_turn": {
                "type": "boolean",
                "description": "Also what this turn said.",
            },
            "token_cap": _CAP | {"minimum": LEAST_CAP, "description": "Most tokens of the answer."},
            "cursor": {
                "type": "string",
                "description": "next_cursor of the page before; repeat the other arguments.",
            },
            "conversation_id": _CONVERSATION,
            "all_conversations": _ALL,
        },
        ["pattern"],
    )


def _describe() -> dict[str, Any]:
    return _tool(
        "lcm_describe",
        "Read word for word by id: a message (msg_…), a summary (sum_…) with its sources, or a file (file_…). "
        "Long ones come in pages.",
        {
            "id": {
                "type": "string",
                "description": "One, several, a range msg_3-msg_9, or a copied reference.",
            },
            "offset": {"type": "integer", "description": "next_offset of the page before."},
            "token_cap": _CAP,
            "start_line": {"type": "integer", "description": "Files: from 1, both included."},
            "end_line": {"type": "integer"},
            "start_byte": {"type": "integer", "description": "Files: bytes, as base64."},
            "end_byte": {"type": "integer"},
            "all_conversations": _ALL,
        },
        ["id"],
    )


def _expand() -> dict[str, Any]:
    return _tool(
        "lcm_expand",
        "Open summaries: what they were made of, word for word. Costs context; for an answer use lcm_expand_query.",
        {
            "summary_ids": _IDS,
            "query": {"type": "string", "description": "Instead of ids: opens what fits best."},
            "depth": {"type": "integer", "default": 1, "description": "Levels down."},
            "include_messages": {"type": "boolean", "default": True},
            "token_cap": _CAP,
            "offset": {"type": "integer", "description": "next_offset of the page before."},
            "conversation_id": _CONVERSATION,
            "all_conversations": _ALL,
        },
        [],
    )


def _expand_query() -> dict[str, Any]:
    return _tool(
        "lcm_expand_query",
        "Have a question answered by a helper that reads the history for you. Returns an answer with cited ids and "
        "quotes; costs little context.",
        {
            "prompt": {"type": "string", "description": "The question."},
            "query": {"type": "string", "description": "What to search for first; default: the question."},
            "summary_ids": _IDS | {"description": "Where to begin."},
            "max_tokens": {
                "type": "integer",
                "default": 2000,
                "description": "Most tokens of the whole answer.",
            },
            "token_cap": _CAP | {"description": "What the helper may read."},
            "timeout_ms": {"type": "integer"},
            "conversation_id": _CONVERSATION,
            "all_conversations": _ALL,
        },
        ["prompt"],
    )


def _pin() -> dict[str, Any]:
    return _tool(
        PIN_TOOL,
        "Keep a decision, constraint or value word for word in every context, however much is summarised away. "
        "There is little room: pin what must not be lost, and unpin what is done.",
        {
            "text": {"type": "string", "description": "The line to keep, or the id of a message, msg_…"},
            "unpin": _IDS | {"description": "Ids of your own pins (pin_…) to remove first."},
        },
        [],
    )


def _tool(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _choice(default: str, *others: str, about: str = "") -> dict[str, Any]:
    """One of some words; the first is the default."""
    choice: dict[str, Any] = {"type": "string", "enum": [default, *others]}
    return choice | {"description": about} if about else choice
