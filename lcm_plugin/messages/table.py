"""The table of roles and block types, every provider's.

Sources of the shapes: Anthropic's Messages API with its server tools, OpenAI's Chat Completions and Responses
APIs, Gemini's ``parts``, Bedrock's Converse API (blocks without a ``type``), the Vercel AI SDK, opencode's parts.
`lcm_plugin.messages.blocks` reads messages by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

INSTRUCTION_ROLES = frozenset({"system", "developer"})
RESULT_ROLES = frozenset({"tool", "function"})
ASSISTANT_ROLES = frozenset({"assistant", "model"})
ROLES = INSTRUCTION_ROLES | RESULT_ROLES | ASSISTANT_ROLES | {"user"}


def checked_role(role: str) -> str:
    """The role; raises `ValueError` for a text that is none, which would match no message."""
    if role not in ROLES:
        raise ValueError(f"must be one of {', '.join(sorted(ROLES))}")
    return role


REASONING_KEYS = ("reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks")
"""Keys of a message under which hosts keep a model's reasoning."""

MEDIA_PATHS = (
    ("image_url", "url"),
    ("image_url",),
    ("source", "data"),
    ("source", "url"),
    ("input_audio", "data"),
    ("file", "file_data"),
    ("file_data",),
    ("data",),
    ("base64",),
    ("url",),
    ("inlineData", "data"),
    ("inline_data", "data"),
    ("fileData", "fileUri"),
    ("image", "source", "bytes"),
    ("document", "source", "bytes"),
    ("video", "source", "bytes"),
    ("audio", "source", "bytes"),
)
"""Where the blocks of media keep their data."""


class Kind(StrEnum):
    """What a block is to a conversation."""

    TEXT = "text"
    REASONING = "reasoning"
    CALL = "call"
    RESULT = "result"
    MEDIA = "media"
    OTHER = "other"


Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BlockType:
    """A row of the table.

    ``body`` lists where the words, the thoughts, a call's input or a result's output may stand; ``output`` where a
    call that brings its result along keeps it; ``id`` where the id of the call stands, the first of them being the
    place for a new id; ``name`` where the tool's name stands. ``by_provider``: no other message answers this call.
    ``id_is_name``: a call without an id is answered by the tool's name. ``answer`` is the type, or the key, of the
    block that answers a call. ``text_key``: a result's output is a list or an object with its text under this key.
    """

    kind: Kind
    body: tuple[Path, ...] = ()
    id: tuple[Path, ...] = ()
    name: tuple[Path, ...] = ()
    output: tuple[Path, ...] = ()
    by_provider: bool = False
    id_is_name: bool = False
    answer: str = ""
    text_key: str = ""

    @property
    def object_input(self) -> bool:
        """Whether a call's input is an object, not a text."""
        return self.answer in _ANSWERS_TO_OBJECTS


_ANSWERS_TO_OBJECTS = frozenset({"tool_result", "toolResult", "functionResponse", "function_response"})


def _paths(*dotted: str) -> tuple[Path, ...]:
    return tuple(tuple(path.split(".")) for path in dotted)


CALL_INPUT = _paths("input", "arguments", "args")
_CALL_ID = _paths("id", "call_id", "toolCallId", "tool_call_id")
_RESULT_ID = _paths("tool_use_id", "call_id", "toolCallId", "toolUseId", "tool_call_id")
_NAME = _paths("name", "toolName", "tool_name")
_WORDS = BlockType(Kind.TEXT, _paths("text"))
_REFUSAL = BlockType(Kind.TEXT, _paths("refusal"))
_THOUGHT = BlockType(Kind.REASONING, _paths("thinking", "text", "reasoning", "data", "summary", "content"))
_SERVER_CALL = BlockType(Kind.CALL, (*CALL_INPUT, *_paths("code")), _CALL_ID, _NAME, by_provider=True)
_RESULT = BlockType(Kind.RESULT, _paths("content", "output", "result"), _RESULT_ID, _NAME)
_ITEM_RESULT = BlockType(
    Kind.RESULT, _paths("output", "content"), (*_paths("call_id"), *_RESULT_ID, *_paths("id")), _NAME
)
_SERVER_RESULT = BlockType(
    Kind.RESULT, _paths("content", "output", "result", "tools"), _RESULT_ID, _NAME, by_provider=True
)
_MEDIA = BlockType(Kind.MEDIA)
_OTHER = BlockType(Kind.OTHER)


def _call(answer: str) -> BlockType:
    return BlockType(Kind.CALL, CALL_INPUT, _CALL_ID, _NAME, answer=answer)


def _item_call(answer: str, name: tuple[Path, ...] = _NAME) -> BlockType:
    body = (*CALL_INPUT, *_paths("action", "actions", "operation"))
    return BlockType(Kind.CALL, body, _paths("call_id", "id", "toolCallId"), name, answer=answer)


def _whole(body: str, *output: str, id: str = "id", name: str = "name") -> BlockType:
    return BlockType(Kind.CALL, _paths(body), _paths(id), _paths(name), _paths(*output), by_provider=True)


def _held(
    kind: Kind,
    holder: str,
    body: str,
    id: str = "id",
    *,
    by_provider: bool = False,
    named: bool = False,
    answer: str = "",
    text_key: str = "",
) -> BlockType:
    body_at, id_at, name_at = (_paths(f"{holder}.{key}") for key in (body, id, "name"))
    return BlockType(kind, body_at, id_at, name_at, (), by_provider, named, answer, text_key)


TYPES: dict[str, BlockType] = {
    **dict.fromkeys(("text", "input_text", "output_text"), _WORDS),
    "refusal": _REFUSAL,
    **dict.fromkeys(
        ("thinking", "redacted_thinking", "reasoning", "reasoning_text", "summary_text"), _THOUGHT
    ),
    "tool_use": _call("tool_result"),
    **dict.fromkeys(("toolUse", "toolCall"), _call("toolResult")),
    **dict.fromkeys(("function_call", "functionCall", "tool_call"), _item_call("function_call_output")),
    "custom_tool_call": _item_call("custom_tool_call_output"),
    # The type is the tool.
    **{
        name: _item_call(f"{name}_output", ())
        for name in ("local_shell_call", "shell_call", "apply_patch_call", "computer_call")
    },
    **dict.fromkeys(("server_tool_use", "mcp_tool_use", "tool_search_call", "program"), _SERVER_CALL),
    "mcp_call": _whole("arguments", "output", "error"),
    "web_search_call": _whole("action", "results"),
    "file_search_call": _whole("queries", "results"),
    "code_interpreter_call": _whole("code", "outputs"),
    "image_generation_call": _whole("revised_prompt", "result"),
    "tool": _whole("state.input", "state.output", "state.error", id="callID", name="tool"),
    "tool_invocation": _whole(
        "toolInvocation.args",
        "toolInvocation.result",
        id="toolInvocation.toolCallId",
        name="toolInvocation.toolName",
    ),
    "dynamic_tool": _whole("input", "output", "errorText", id="toolCallId", name="toolName"),
    **dict.fromkeys(("tool_result", "toolResult"), _RESULT),
    **dict.fromkeys(
        (
            "function_call_output",
            "custom_tool_call_output",
            "local_shell_call_output",
            "shell_call_output",
            "apply_patch_call_output",
            "computer_call_output",
        ),
        _ITEM_RESULT,
    ),
    **dict.fromkeys(
        (
            "web_search_tool_result",
            "web_fetch_tool_result",
            "code_execution_tool_result",
            "bash_code_execution_tool_result",
            "text_editor_code_execution_tool_result",
            "tool_search_tool_result",
            "advisor_tool_result",
            "mcp_tool_result",
        ),
        _SERVER_RESULT,
    ),
    "tool_search_output": BlockType(Kind.RESULT, _paths("tools"), _paths("call_id"), by_provider=True),
    "program_output": BlockType(Kind.RESULT, _paths("result"), _paths("call_id"), by_provider=True),
    **dict.fromkeys(
        (
            "image",
            "image_url",
            "image_file",
            "input_image",
            "output_image",
            "document",
            "file",
            "input_file",
            "container_upload",
            "media",
            "audio",
            "input_audio",
            "output_audio",
            "video",
            "video_url",
            "input_video",
        ),
        _MEDIA,
    ),
}

# Blocks without a type: a key says what they are (Bedrock in camel case, Gemini in both cases).
KEYED: dict[str, BlockType] = {
    "toolUse": _held(Kind.CALL, "toolUse", "input", "toolUseId", answer="toolResult"),
    "toolResult": _held(Kind.RESULT, "toolResult", "content", "toolUseId", text_key="text"),
    "reasoningContent": BlockType(
        Kind.REASONING, _paths("reasoningContent.reasoningText.text", "reasoningContent.redactedContent")
    ),
    "functionCall": _held(Kind.CALL, "functionCall", "args", named=True, answer="functionResponse"),
    "function_call": _held(Kind.CALL, "function_call", "args", named=True, answer="function_response"),
    **{
        name: _held(Kind.RESULT, name, "response", named=True, text_key="result")
        for name in ("functionResponse", "function_response")
    },
    **{name: _held(Kind.CALL, name, "args", by_provider=True) for name in ("toolCall", "tool_call")},
    **{
        name: _held(Kind.RESULT, name, "response", by_provider=True)
        for name in ("toolResponse", "tool_response")
    },
    **{
        name: _held(Kind.CALL, name, "code", by_provider=True)
        for name in ("executableCode", "executable_code")
    },
    **{
        name: _held(Kind.RESULT, name, "output", by_provider=True)
        for name in ("codeExecutionResult", "code_execution_result")
    },
    **dict.fromkeys(
        ("inlineData", "inline_data", "fileData", "file_data", "image", "document", "video", "audio"), _MEDIA
    ),
    "text": _WORDS,
}
_BARE_THOUGHT = BlockType(Kind.REASONING, _paths("text"))
CALL_BODIES = frozenset(
    path[-1] for row in (*TYPES.values(), *KEYED.values()) if row.kind is Kind.CALL for path in row.body
)


def type_of(block: Any) -> BlockType:
    """The row of the table for a content block. A bare string is words; what nobody knows is `Kind.OTHER`."""
    # A check against an abstract class costs as much as all else here, and nearly every block is a dict.
    if not isinstance(block, (dict, Mapping)):
        return _WORDS if isinstance(block, str) else _OTHER
    name = block.get("type")
    if isinstance(name, str) and name:
        return TYPES.get(name) or _of_other_name(plain_type(name))
    for key, row in KEYED.items():
        if block.get(key) is not None:
            return _BARE_THOUGHT if row is _WORDS and block.get("thought") is True else row
    return _OTHER


def _of_other_name(name: str) -> BlockType:
    # Anthropic names the results of its server tools after the tool; there will be more of them.
    return TYPES.get(name) or (_SERVER_RESULT if name.endswith("_tool_result") else _OTHER)


def plain_type(name: str) -> str:
    """A block type in the one spelling used here: ``step-start`` is ``step_start``."""
    return name.replace("-", "_")
