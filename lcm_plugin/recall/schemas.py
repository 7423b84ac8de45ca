"""The tools as models see them: OpenAI function schemas, short enough to cost little in every call."""

from __future__ import annotations

from typing import Any

TOOL_NAMES = ("lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query")

_CONVERSATION = {"type": "integer", "description": "Only this conversation."}
_ALL = {
    "type": "boolean",
    "description": "Also other conversations, as far as this installation allows. Default: this session's own history.",
}
_IDS = {"type": "array", "items": {"type": "string"}}


def tool_schemas() -> list[dict[str, Any]]:
    """All four tools."""
    return [_grep(), _describe(), _expand(), _expand_query()]


def _grep() -> dict[str, Any]:
    return _tool(
        "lcm_grep",
        "Search the stored conversation, also what was summarised away. Ask in plain words or as a question; "
        "results are ranked, best first, with ids to read on with lcm_describe.",
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
            "tool_name": {"type": "string", "description": "Only calls and results of this tool."},
            "since": {"type": "string", "description": "ISO 8601, or 2h, 7d, yesterday. Inclusive."},
            "before": {"type": "string", "description": "Likewise, exclusive."},
            "sort": _choice("relevance", "recency", "hybrid"),
            "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
            "context": {
                "type": "integer",
                "minimum": 0,
                "maximum": 10,
                "default": 1,
                "description": "Turns shown round each hit.",
            },
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
        "Read one stored thing word for word by its id: a message (msg_…), a summary (sum_…) with its sources, "
        "or a file (file_…). Long ones come in pages: go on with next_offset.",
        {
            "id": {
                "type": "string",
                "description": "An id, several, a range msg_3-msg_9, or a copied reference.",
            },
            "offset": {"type": "integer", "minimum": 0, "description": "Where to go on."},
            "token_cap": {"type": "integer", "minimum": 100},
            "start_line": {"type": "integer", "minimum": 1, "description": "Files: lines, both included."},
            "end_line": {"type": "integer", "minimum": 1},
            "start_byte": {"type": "integer", "minimum": 0, "description": "Files: bytes, as base64."},
            "end_byte": {"type": "integer", "minimum": 1},
            "all_conversations": _ALL,
        },
        ["id"],
    )


def _expand() -> dict[str, Any]:
    return _tool(
        "lcm_expand",
        "Open summaries: the summaries or messages they were made of, word for word. Costs context; "
        "to get a question answered use lcm_expand_query.",
        {
            "summary_ids": _IDS,
            "query": {"type": "string", "description": "Instead of ids: opens the summaries that fit best."},
            "depth": {"type": "integer", "minimum": 0, "default": 1, "description": "Levels down."},
            "include_messages": {"type": "boolean", "default": True},
            "token_cap": {"type": "integer", "minimum": 100},
            "offset": {"type": "integer", "minimum": 0, "description": "next_offset of the page before."},
            "conversation_id": _CONVERSATION,
            "all_conversations": _ALL,
        },
        [],
    )


def _expand_query() -> dict[str, Any]:
    return _tool(
        "lcm_expand_query",
        "Have a question answered from the stored history by a helper that reads it for you. Returns an answer "
        "with cited ids and short quotes; costs little context.",
        {
            "prompt": {"type": "string", "description": "The question."},
            "query": {"type": "string", "description": "Words to search for first; default: the question."},
            "summary_ids": _IDS | {"description": "Where to begin."},
            "max_tokens": {
                "type": "integer",
                "minimum": 50,
                "default": 2000,
                "description": "Length of the answer.",
            },
            "token_cap": {"type": "integer", "minimum": 100, "description": "What the helper may read."},
            "timeout_ms": {"type": "integer", "minimum": 1},
            "conversation_id": _CONVERSATION,
            "all_conversations": _ALL,
        },
        ["prompt"],
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
    choice: dict[str, Any] = {"type": "string", "enum": [default, *others], "default": default}
    return choice | {"description": about} if about else choice
