"""The records of each tool's log that are no talk, of published versions, cut to what tells them apart."""

from __future__ import annotations

from typing import Any

_TEXT = "a text of the program"


def _typed(*kinds: str, **rest: Any) -> list[dict[str, Any]]:
    return [{"type": kind, **rest} for kind in kinds]


CLAUDE_SYSTEM = (
    *("local_command", "informational", "api_error", "api_metrics", "turn_duration", "stop_hook_summary"),
    *(
        "away_summary",
        "bridge_status",
        "memory_saved",
        "agents_killed",
        "scheduled_task_fire",
        "permission_retry",
    ),
    *("microcompact_boundary",),
)
CLAUDE_ATTACHMENTS = (
    *(
        "file",
        "compact_file_reference",
        "already_read_file",
        "edited_text_file",
        "edited_image_file",
        "directory",
    ),
    *("selected_lines_in_ide", "opened_file_in_ide", "todo_reminder", "task_reminder", "nested_memory"),
    *("relevant_memories", "dynamic_skill", "skill_listing", "skill_discovery", "invoked_skills"),
    *(
        "agent_listing_delta",
        "deferred_tools_delta",
        "mcp_instructions_delta",
        "mcp_resource",
        "agent_mention",
    ),
    *(
        "plan_mode",
        "plan_mode_exit",
        "plan_mode_reentry",
        "plan_file_reference",
        "auto_mode",
        "auto_mode_exit",
    ),
    *("output_style", "diagnostics", "critical_system_reminder", "token_usage", "budget_usd", "date_change"),
    *(
        "hook_success",
        "hook_blocking_error",
        "hook_non_blocking_error",
        "hook_cancelled",
        "hook_error_during_execution",
    ),
    *("hook_additional_context", "hook_stopped_continuation", "hook_system_message", "async_hook_response"),
    *("command_permissions", "verify_plan_reminder", "max_turns_reached", "teammate_mailbox", "team_context"),
    *("task_status", "ultrathink_effort", "prompt_snapshot", "structured_output", "compaction_reminder"),
)
CLAUDE_PROGRESS = (
    *("bash_progress", "agent_progress", "hook_progress", "mcp_progress", "waiting_for_task"),
    *("search_results_received", "query_update", "skill_progress"),
)
CLAUDE_LOOSE: list[dict[str, Any]] = [
    {"type": "summary", "summary": _TEXT, "leafUuid": "elsewhere"},
    {"type": "custom-title", "customTitle": _TEXT},
    {"type": "ai-title", "aiTitle": _TEXT},
    {"type": "last-prompt", "lastPrompt": _TEXT},
    {"type": "agent-name", "agentName": _TEXT},
    {"type": "agent-color", "agentColor": "red"},
    {"type": "agent-setting", "agentSetting": "x"},
    {"type": "tag", "tag": "x"},
    {"type": "task-summary", "summary": _TEXT},
    {"type": "pr-link", "prNumber": 7, "prUrl": "u"},
    {"type": "mode", "mode": "normal"},
    {"type": "permission-mode", "permissionMode": "default"},
    {"type": "worktree-state", "worktreeSession": None},
    {"type": "content-replacement", "replacements": []},
    {"type": "speculation-accept", "timeSavedMs": 1},
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    {"type": "attribution-snapshot", "messageId": "m"},
    {"type": "queue-operation", "operation": "dequeue"},
    *_typed("api-request", "api-request-blob", "api-request-shape", "api-request-resumed", body="x"),
]

CODEX_EVENTS: list[dict[str, Any]] = [
    *_typed("error", "warning", "guardian_warning", "stream_error", "background_event", message=_TEXT),
    *_typed("task_started", "turn_started", "task_complete", "turn_complete", "turn_aborted", turn_id="1"),
    *_typed("token_count", info={"total_token_usage": {}}),
    *_typed("agent_reasoning", "agent_reasoning_raw_content", "agent_reasoning_section_break", text=_TEXT),
    *_typed(
        "session_configured",
        "thread_goal_updated",
        "thread_name_updated",
        "model_reroute",
        "skills_update_available",
    ),
    *_typed("mcp_startup_update", "mcp_startup_complete", "mcp_tool_call_begin", "mcp_tool_call_end"),
    *_typed(
        "web_search_begin", "web_search_end", "image_generation_begin", "image_generation_end", call_id="w"
    ),
    *_typed(
        "exec_command_begin",
        "exec_command_output_delta",
        "terminal_interaction",
        "exec_command_end",
        call_id="e",
    ),
    *_typed(
        "exec_approval_request", "apply_patch_approval_request", "request_permissions", "elicitation_request"
    ),
    *_typed("patch_apply_begin", "patch_apply_updated", "patch_apply_end", "turn_diff", changes={}),
    *_typed("view_image_tool_call", "dynamic_tool_call_request", "dynamic_tool_call_response", call_id="v"),
    *_typed(
        "plan_update",
        "plan_delta",
        "deprecation_notice",
        "undo_started",
        "undo_completed",
        "context_compacted",
    ),
    *_typed(
        "entered_review_mode", "exited_review_mode", "raw_response_item", "hook_started", "hook_completed"
    ),
    *_typed(
        "collab_agent_spawn_begin", "collab_agent_spawn_end", "collab_waiting_begin", "collab_waiting_end"
    ),
    *_typed("item_started", "item_completed", item={"type": "Plan", "id": "p", "text": _TEXT}),
    *_typed("shutdown_complete"),
]
CODEX_ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": _TEXT}], "encrypted_content": "gAAA"},
    {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"type": "image_generation_call", "id": "i", "status": "completed", "result": ""},
    {"type": "ghost_snapshot", "ghost_commit": {"id": "c"}},
    {"type": "compaction", "encrypted_content": "gAAA"},
    {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {}},
    {"type": "tool_search_output", "call_id": "s", "status": "completed", "tools": []},
    {"type": "other"},
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": _TEXT}]},
    *(
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"{opening}{_TEXT}"}]}
        for opening in (
            "<environment_context>",
            "# AGENTS.md instructions for /work\n",
            "<skill>",
            "<hook_prompt>",
        )
    ),
]
CODEX_LINES: list[tuple[str, dict[str, Any]]] = [
    ("turn_context", {"cwd": "/work", "model": "gpt"}),
    ("world_state", {"full": True, "state": {}}),
    ("inter_agent_communication", {"author": "a", "recipient": "b", "content": "x"}),
    ("compacted", {"message": "", "replacement_history": []}),
]

GEMINI: list[dict[str, Any]] = [
    *({"type": kind, "content": _TEXT} for kind in ("info", "warning", "error")),
    {"$set": {"lastUpdated": "2026-11-02T01:00:00Z", "summary": _TEXT}},
    {"$set": {"directories": ["/work"]}},
]

QWEN_SYSTEM = (
    *(
        "chat_compression",
        "slash_command",
        "ui_telemetry",
        "at_command",
        "attribution_snapshot",
        "custom_title",
    ),
    *("notification", "rewind_marker", "file_history_snapshot", "session_model"),
)

OPENCODE_PARTS: list[dict[str, Any]] = [
    {"type": "step-start", "snapshot": "x"},
    {"type": "step-finish", "reason": "stop", "cost": 0, "tokens": {}},
    {"type": "snapshot", "snapshot": "x"},
    {"type": "patch", "hash": "x", "files": ["/work/a"]},
    {"type": "agent", "name": "build"},
    {"type": "retry", "attempt": 1, "error": {}},
    {"type": "compaction", "auto": True},
]

OPENCLAW: list[dict[str, Any]] = [
    {"type": "model_change", "provider": "p", "modelId": "m"},
    {"type": "thinking_level_change", "thinkingLevel": "high"},
    {"type": "label", "targetId": "e1", "label": "x"},
    {"type": "session_info", "name": "x"},
    {"type": "custom", "customType": "model-snapshot", "data": {}},
]

GOOSE: list[dict[str, Any]] = [
    {
        "role": "user",
        "metadata": {"userVisible": False, "agentVisible": True},
        "content": [{"type": "text", "text": _TEXT}],
    },
    {
        "role": "assistant",
        "content": [{"type": "systemNotification", "notificationType": "inlineMessage", "msg": _TEXT}],
    },
]

CHATGPT: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("system", {"content_type": "text", "parts": [""]}, {}),
    (
        "user",
        {"content_type": "user_editable_context", "user_profile": _TEXT},
        {"is_visually_hidden_from_conversation": True},
    ),
    ("assistant", {"content_type": "thoughts", "thoughts": []}, {}),
    ("assistant", {"content_type": "reasoning_recap", "content": _TEXT}, {}),
]
