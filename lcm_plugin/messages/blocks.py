"""What is in a message: its words, calls, results, reasoning and media, in any provider's shape.

Whatever looks into a message asks here; `lcm_plugin.messages.table` says which block is what. A call is answered by
another message, except where the provider runs the tool: then its result stands in the assistant's own message, as
a block beside the call or within it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lcm_plugin.characters import storable
from lcm_plugin.messages.table import (
    ASSISTANT_ROLES,
    CALL_BODIES,
    CALL_INPUT,
    INSTRUCTION_ROLES,
    MEDIA_PATHS,
    REASONING_KEYS,
    Kind,
    Path,
    type_of,
)
from lcm_plugin.types import Message

_REASONING_KEYS = frozenset(REASONING_KEYS)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a message makes. ``id`` is empty where the host gave none; ``value`` is what holds it."""

    id: str
    name: str
    arguments: Any
    value: Mapping[str, Any]
    by_provider: bool = False


def kind_of(block: Any) -> Kind:
    """What a content block is."""
    return type_of(block).kind


def is_reasoning(block: Any) -> bool:
    """Whether a block is a model's reasoning, readable or sealed."""
    return type_of(block).kind is Kind.REASONING


def awaits_answer(block: Any) -> bool:
    """Whether a block is a call that another message answers."""
    row = type_of(block)
    return row.kind is Kind.CALL and not row.by_provider


def answers_another(block: Any) -> bool:
    """Whether a block is the result of a call that another message makes."""
    row = type_of(block)
    return row.kind is Kind.RESULT and not row.by_provider


def is_call_body(path: str) -> bool:
    """Whether the dotted path of a tool's part leads to what a call hands over rather than to a result."""
    return path.rpartition(".")[2] in CALL_BODIES


def is_assistant(role: str) -> bool:
    """Whether a model speaks under this role."""
    return role in ASSISTANT_ROLES


def is_instruction(role: str) -> bool:
    """Whether a role speaks to the model about its work: such messages stand at the front or not at all."""
    return role in INSTRUCTION_ROLES


def content_key(message: Mapping[str, Any]) -> str:
    """The key of a message's content: Gemini's ``parts`` where that is a list and there is no content."""
    return "parts" if message.get("content") is None and isinstance(message.get("parts"), list) else "content"


def blocks_of(message: Mapping[str, Any]) -> list[Any]:
    """The content blocks of a message, in order; none for a text."""
    content = message.get("content")
    if content is None:
        content = message.get("parts")
    return content if isinstance(content, list) else []


def with_blocks(message: Message, blocks: list[Any]) -> Message:
    """The message with other content blocks."""
    return {**message, content_key(message): blocks}


def text_of(message: Mapping[str, Any]) -> str:
    """The words of a message: its text, or the texts of its blocks, reasoning and results apart."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts = (text for block in blocks_of(message) if (text := _words(block)) is not None)
    return "\n".join(texts)


def only_text(message: Mapping[str, Any]) -> str | None:
    """The text of a message that holds words and nothing else; None for any other."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = blocks_of(message)
    if not blocks or not all(_is_words(block) for block in blocks):
        return None
    return text_of(message)


def calls_of(message: Mapping[str, Any]) -> list[Call]:
    """Every call that a message makes, those of the provider's own tools included, in order."""
    calls = message.get("tool_calls")
    found = [_tool_call(call) for call in dicts(calls)] if calls else []
    for block in blocks_of(message):
        row = type_of(block)
        if row.kind is Kind.CALL:
            value, name = first_at(block, row.body), first_at(block, row.name)
            found.append(
                Call(call_id(block), name if isinstance(name, str) else "", value, block, row.by_provider)
            )
    return found


def calls_made(message: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids of `calls_of` as they are stored, those without one left out."""
    in_blocks = [call_id(block) for block in blocks_of(message) if kind_of(block) is Kind.CALL]
    return tuple(_one_line(given) for given in (*listed_ids(message), *in_blocks) if given)


def listed_ids(message: Mapping[str, Any]) -> list[str]:
    """The ids of the calls in ``tool_calls``, in order; an empty text for a call without one."""
    calls = message.get("tool_calls")
    return [id_text(call.get("id")) for call in dicts(calls)] if calls else []


def calls_answered(message: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids, as they are stored, of the calls that a message answers, its own included."""
    found = [id_text(message.get("tool_call_id"))] if message.get("role") == "tool" else []
    for block in blocks_of(message):
        row = type_of(block)
        if row.kind is Kind.RESULT or (row.kind is Kind.CALL and row.output):
            found.append(call_id(block))
    return tuple(_one_line(value) for value in found if value)


def has_reasoning(message: Mapping[str, Any]) -> bool:
    """Whether a message carries reasoning, in a key of its own or in a block."""
    if not _REASONING_KEYS.isdisjoint(message) and any(message.get(key) for key in REASONING_KEYS):
        return True
    return any(map(is_reasoning, blocks_of(message)))


def user_speaks(message: Mapping[str, Any]) -> bool:
    """Whether a user's message says something of its own, beside the results that it may hand over."""
    if message.get("role") != "user":
        return False
    blocks = blocks_of(message)
    return not any(map(answers_another, blocks)) or any(
        not answers_another(block) and not blank_block(block) for block in blocks
    )


def is_blank(message: Mapping[str, Any]) -> bool:
    """Whether a message has no content at all: nothing, blanks, or an empty list."""
    content = message.get(content_key(message))
    return not content if isinstance(content, list) else _is_blank_text(content)


def blank_block(block: Any) -> bool:
    """Whether a content block says nothing: null, an empty dict, or a blank text."""
    if isinstance(block, str):
        return not block.strip()
    if isinstance(block, Mapping):
        text = block.get("text")
        return not block or (isinstance(text, str) and not text.strip())
    return block is None


def call_id(block: Any) -> str:
    """The id of the call that a block makes or answers; an empty text where it has none."""
    row = type_of(block)
    found = next((value for path in row.id if (value := id_text(at(block, path)))), "")
    return found or (id_text(first_at(block, row.name)) if row.id_is_name else "")


def id_text(value: Any) -> str:
    """An id as text; empty for what is none."""
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def with_call_id(block: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The block under another id of its call."""
    row = type_of(block)
    path = next((path for path in row.id if at(block, path) is not None), row.id[0])
    return replaced(block, path, name)


def answer_block(call: Mapping[str, Any], answered: str, text: str) -> dict[str, Any]:
    """A block that answers a call block, in its provider's shape."""
    row = type_of(call)
    if call.get("type"):
        return with_output(with_call_id({"type": row.answer}, answered), text)
    name = first_at(call, row.name)
    named = {"name": name} if row.id_is_name else {}
    return with_output(with_call_id({row.answer: named}, answered), text)


def with_output(result: Mapping[str, Any], text: str) -> dict[str, Any]:
    """A result's block with a text as its output, in its provider's shape."""
    row = type_of(result)
    path = body_path(result) or row.body[0]
    value: Any = text
    if row.text_key:
        value = [{row.text_key: text}] if row.text_key == "text" else {row.text_key: text}
    return replaced(result, path, value)


def with_line(message: Message, line: str) -> Message | None:
    """A result's message with a line behind what it says; None where no text can follow."""
    content, blocks = message.get("content"), blocks_of(message)
    if message["role"] == "tool":
        if isinstance(content, str):
            return {**message, "content": f"{content}\n{line}"}
        return with_blocks(message, [*blocks, {"type": "text", "text": line}]) if blocks else None
    for n in range(len(blocks) - 1, -1, -1):
        path = body_path(blocks[n]) if answers_another(blocks[n]) else None
        if path and isinstance(said := at(blocks[n], path), str):
            return with_blocks(
                message, [*blocks[:n], replaced(blocks[n], path, f"{said}\n{line}"), *blocks[n + 1 :]]
            )
    return None


def body_path(block: Any) -> Path | None:
    """Where a block keeps its words, thoughts, input or output; None when it has none of them."""
    paths = [path for path in type_of(block).body if has(block, path)]
    return next((path for path in paths if at(block, path)), paths[0] if paths else None)


def output_path(block: Any) -> Path | None:
    """Where a call that brings its result along keeps it."""
    return next((path for path in type_of(block).output if at(block, path) is not None), None)


def media_path(block: Any) -> Path | None:
    """Where an image, sound or file block keeps its data; None for any other block."""
    for path in MEDIA_PATHS:
        if isinstance(at(block, path), str):
            return path
    return None


def at(value: Any, path: Sequence[str]) -> Any:
    """What a path of keys leads to; None when it leads nowhere."""
    for step in path:
        if not isinstance(value, (dict, Mapping)):
            return None
        value = value.get(step)
    return value


def has(value: Any, path: Sequence[str]) -> bool:
    """Whether a path of keys leads to a value, null included."""
    holder = at(value, path[:-1])
    return isinstance(holder, (dict, Mapping)) and path[-1] in holder


def first_at(value: Any, paths: Sequence[Path]) -> Any:
    """What the first of the paths that leads somewhere leads to."""
    return next((at(value, path) for path in paths if has(value, path)), None)


def replaced(block: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """The block with another value at a path."""
    if len(path) == 1:
        return {**block, path[0]: value}
    inner = block.get(path[0])
    return {**block, path[0]: replaced(inner if isinstance(inner, Mapping) else {}, path[1:], value)}


def _tool_call(call: Mapping[str, Any]) -> Call:
    holder = next(
        (call[key] for key in ("function", "custom") if isinstance(call.get(key), (dict, Mapping))), call
    )
    name = holder.get("name")
    arguments = first_at(holder, CALL_INPUT)
    return Call(id_text(call.get("id")), name if isinstance(name, str) else "", arguments, call)


def _words(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    if not isinstance(block, (dict, Mapping)) or is_reasoning(block):
        return None
    text = block.get("text")
    return text if isinstance(text, str) else None


def _is_words(block: Any) -> bool:
    return kind_of(block) is Kind.TEXT and _words(block) is not None


def dicts(value: Any) -> Iterator[Mapping[str, Any]]:
    """The mappings in a list; none for what is no list."""
    return (
        (item for item in value if isinstance(item, (dict, Mapping))) if isinstance(value, list) else iter(())
    )


def _one_line(call_id: str) -> str:
    return storable(call_id).replace("\n", " ")


def _is_blank_text(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
