"""The chat's model: one streamed call through litellm, text handed on as it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lcm_plugin.errors import ModelUnavailable
from lcm_plugin.messages.usage import usage_of
from lcm_plugin.summarize.litellm_client import load
from lcm_plugin.types import Message, Usage

DEFAULT_WINDOW = 128_000


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply: the message as it goes into the history, and what the provider counted."""

    message: Message
    usage: Usage | None


class ChatModel:
    """A model by its litellm name; ``base_url`` for a server of one's own."""

    def __init__(self, name: str, base_url: str | None = None, window: int | None = None) -> None:
        self.name = name
        self._base_url = base_url
        self._window = window

    @property
    def window(self) -> int:
        """The model's context size in tokens: as given, as litellm knows it, or 128,000."""
        if self._window is None:
            try:
                known = load().get_model_info(self.name).get("max_input_tokens")
            except Exception:  # noqa: BLE001 - litellm raises plain Exception for a model it does not know
                known = None
            self._window = known or DEFAULT_WINDOW
        return self._window

    def problem(self) -> str:
        """What stands in the way of any call: no litellm, no such provider, or no key for it; empty for nothing.

        A server of one's own may need neither.
        """
        try:
            litellm = load()
            if self._base_url is not None:
                return ""
            litellm.get_llm_provider(self.name)
            needed = litellm.validate_environment(self.name)["missing_keys"]
        except ModelUnavailable as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - litellm raises plain Exception for a model it does not know
            return f"model {self.name}: {str(error).splitlines()[0]}"
        keys = [name for name in needed if name.endswith("_API_KEY")]
        return f"model {self.name} needs a key in {' and '.join(keys)}" if keys else ""

    def answer(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], show: Callable[[str], None]
    ) -> Answer:
        """One call; raises `ModelUnavailable` with the provider's words."""
        litellm = load()
        try:
            stream = litellm.completion(
                model=self.name,
                messages=list(messages),
                tools=list(tools) or None,
                base_url=self._base_url,
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks = []
            for chunk in stream:
                chunks.append(chunk)
                if chunk.choices and chunk.choices[0].delta.content:
                    show(chunk.choices[0].delta.content)
            whole = litellm.stream_chunk_builder(chunks, messages=list(messages))
        except Exception as error:
            raise ModelUnavailable(f"{self.name} did not answer: {error}") from error
        return Answer(_message(whole.choices[0].message), usage_of(getattr(whole, "usage", None)))


def _message(answer: Any) -> Message:
    message: Message = {"role": "assistant", "content": answer.content}
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments or "{}"},
            }
            for call in answer.tool_calls
        ]
    return message
