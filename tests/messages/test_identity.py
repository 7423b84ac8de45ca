"""The hash of a message, which databases keep: however it is worked out, it never changes."""

from __future__ import annotations

from typing import Any

import pytest
from messages import call, result

from lcm_plugin.messages import identity
from lcm_plugin.messages.identity import identity_of

KNOWN: list[tuple[dict[str, Any], int]] = [
    ({"role": "user", "content": "  What is next?\n"}, 8_815_415_565_749_237_850),
    ({"role": "user", "content": " \t\r\n "}, -2_690_273_360_649_530_816),
    (
        {"role": "user", "name": "Ada", "content": "half \ud83d a pair \udc00, and a whole one \U0001f600"},
        -7_644_257_218_219_312_162,
    ),
    (
        {
            "role": "user",
            "content": [{"type": "text", "text": "Größe 部署 "}, {"type": "text", "text": "end"}],
        },
        8_772_136_928_806_838_931,
    ),
    (call("call_1-2", "look", '{"at": NaN}'), 4_902_928_484_272_272_837),
    (result("call_1-2", "seen " * 300), -2_894_216_787_780_630_081),
]


@pytest.mark.parametrize(("message", "known"), KNOWN)
def test_a_message_has_the_same_hash_in_one_piece_and_in_many(
    message: dict[str, Any], known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = identity_of(message)
    monkeypatch.setattr(identity, "PIECE", 1)
    assert whole == identity_of(message) == known
