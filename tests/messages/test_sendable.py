"""What any HTTP client can send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcm_plugin.messages.sendable import is_sendable, sendable

_TEXTS = st.text(st.characters(), max_size=5) | st.sampled_from(["\ud800", "a\udfff", "é"])
_KEYS = _TEXTS | st.none() | st.booleans() | st.integers(0, 3) | st.floats() | st.just((1,))
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS | st.just(b"bytes"),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)


@given(_VALUES)
def test_a_value_is_sendable_when_it_can_be_written_as_json_in_utf8(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        assert not is_sendable(value)
    else:
        assert is_sendable(value)
        assert sendable(value) is value


def test_what_is_nested_too_deep_for_json_is_not_sendable() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert not is_sendable(value)


@pytest.mark.parametrize("text", ["a" * 5_000_000, "é" * 5_000_000])
def test_a_long_text_is_not_written_out_to_be_looked_at(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "dumps", lambda *_, **__: pytest.fail("written out"))
    message = {"role": "tool", "content": [{"type": "text", "text": text}]}
    assert sendable(message) is message
