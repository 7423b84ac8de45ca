"""What a provider counted for one call, in whichever words it says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lcm_plugin.types import Usage

_ANTHROPIC_READ, _ANTHROPIC_WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")


def usage_of(counted: Any) -> Usage | None:
    """A provider's counts as `Usage`; None when there are none. A mapping or an SDK's object will do.

    OpenAI's ``prompt_tokens`` or ``input_tokens`` and Gemini's ``prompt_token_count`` include what was read from
    the cache; Anthropic's ``input_tokens`` do not, so its two cache counts are added.
    """
    if isinstance(counted, Usage):
        return counted
    prompt = _first(counted, "prompt_tokens", "input_tokens", "prompt_token_count", "promptTokenCount")
    answer = _first(counted, "completion_tokens", "output_tokens", "candidates_token_count")
    if not prompt and not answer:
        return None
    if not _first(counted, "prompt_tokens"):
        prompt += _first(counted, _ANTHROPIC_READ) + _first(counted, _ANTHROPIC_WRITTEN)
    details = next((found for name in _DETAILS if (found := _field(counted, name))), None)
    return Usage(
        prompt,
        answer,
        _first(counted, _ANTHROPIC_READ, "cache_read_tokens")
        or _first(details, "cached_tokens", "cache_read"),
        _first(counted, _ANTHROPIC_WRITTEN, "cache_write_tokens") or _first(details, "cache_creation"),
    )


def _first(counted: Any, *names: str) -> int:
    return next((value for name in names if (value := _whole(_field(counted, name)))), 0)


def _field(counted: Any, name: str) -> Any:
    return counted.get(name) if isinstance(counted, Mapping) else getattr(counted, name, None)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
