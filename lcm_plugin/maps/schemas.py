"""The tools of maps as models see them, where the setting ``maps`` gives them to agents."""

from __future__ import annotations

from typing import Any

MAP_TOOL = "lcm_map"
REDUCE_TOOL = "lcm_reduce"
MAP_TOOL_NAMES = (MAP_TOOL, REDUCE_TOOL)

_MAP: dict[str, Any] = {
    "name": MAP_TOOL,
    "description": "Ask a model one question about each of many stored items (up to thousands), in parallel, and keep the "
    "answers as rows to count with lcm_reduce. Items: all messages that fit the filters, or what ids name. Returns a "
    "handle, counts and a sample; with a handle it shows how far that map is.",
    "properties": {
        "prompt": {"type": "string", "description": "What to say of each item."},
        "schema": {
            "type": "object",
            "description": "JSON schema of one answer; its properties become columns. Prefer enums and numbers.",
        },
        "ids": {
            "type": "array",
            "items": {"type": "string"},
            "description": "msg_1-msg_60, sum_… (its messages), file_… (its lines, rows, items or sections), map_… "
            "(its answers).",
        },
        "query": {"type": "string", "description": "Only messages that this search finds."},
        "roles": {"type": "array", "items": {"type": "string"}},
        "sender": {"type": "string"},
        "tool_name": {"type": "string"},
        "since": {"type": "string", "description": "2026-03-01, last week, March."},
        "before": {"type": "string"},
        "split": {
            "type": "string",
            "enum": ["lines", "csv", "json", "markdown"],
            "description": "How to split files.",
        },
        "agentic": {
            "type": "boolean",
            "description": "Let a helper look up history for each item. Slow and dear.",
        },
        "handle": {"type": "string", "description": "map_… of an earlier call; nothing else is needed then."},
    },
}
_REDUCE: dict[str, Any] = {
    "name": REDUCE_TOOL,
    "description": "Run one SQL SELECT (SQLite) over the answers of maps: count, group, sum, sort, join. Table answers, or "
    "answers_1, answers_2 … in the order of handles; columns place, ref, item, state, error and the schema's properties.",
    "properties": {
        "handles": {"type": "array", "items": {"type": "string"}},
        "sql": {
            "type": "string",
            "description": "SELECT product, count(*) FROM answers GROUP BY 1 ORDER BY 2 DESC",
        },
    },
    "required": ["handles", "sql"],
}


def map_schemas() -> list[dict[str, Any]]:
    """OpenAI function schemas."""
    return [_function(one) for one in (_MAP, _REDUCE)]


def _function(one: dict[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": one["properties"],
        "required": one.get("required", []),
        "additionalProperties": False,
    }
    described = {"name": one["name"], "description": one["description"], "parameters": parameters}
    return {"type": "function", "function": described}
