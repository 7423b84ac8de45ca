"""What a provider counted, in its own words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lcm_plugin.messages.usage import usage_of
from lcm_plugin.types import Usage


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(9, 2, 4),
        ),
        (
            {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}},
            Usage(9, 2, 4),
        ),
        (
            {
                "input_tokens": 9,
                "output_tokens": 2,
                "cache_read_input_tokens": 5_000,
                "cache_creation_input_tokens": 300,
            },
            Usage(5_309, 2, 5_000, 300),
        ),
        (
            {"input_tokens": 0, "output_tokens": 2, "cache_read_input_tokens": 5_000},
            Usage(5_000, 2, 5_000),
        ),
        (
            {"prompt_tokens": 5_009, "completion_tokens": 2, "cache_read_input_tokens": 5_000},
            Usage(5_009, 2, 5_000),
        ),
        (
            {
                "input_tokens": 9,
                "output_tokens": 2,
                "input_token_details": {"cache_read": 4, "cache_creation": 3},
            },
            Usage(9, 2, 4, 3),
        ),
        ({"prompt_token_count": 9, "candidates_token_count": 2}, Usage(9, 2)),
        (SimpleNamespace(prompt_tokens=9, completion_tokens=2, prompt_tokens_details=None), Usage(9, 2)),
        (Usage(1, 2, 3, 4), Usage(1, 2, 3, 4)),
        ({"prompt_tokens": None}, None),
        (None, None),
    ],
)
def test_all_providers_words_are_understood(counted: Any, usage: Usage | None) -> None:
    assert usage_of(counted) == usage
