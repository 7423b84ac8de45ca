"""Redaction hides what matches everywhere, and leaves ids, code and JSON usable."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.errors import ConfigError
from lcm_plugin.ingest.redaction import MARK, Redactor
from lcm_plugin.types import Message

ASSIGNMENT = r"(?i)(?:api_key|password|token)[\"']?\s*[:=]\s*\S+"
KEY = r"sk-[A-Za-z0-9]{6,}"


def test_without_patterns_a_message_passes_untouched() -> None:
    message: Message = {"role": "user", "content": "sk-abcdef123"}
    redactor = Redactor([])
    assert not redactor.active
    assert redactor.message(message) is message


def test_what_matches_is_gone_from_every_text_of_a_message() -> None:
    message: Message = {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "use sk-abcdef123 now"},
            {"type": "odd", "deep": [{"x": "sk-abcdef123"}]},
        ],
        "reasoning_content": "the key sk-abcdef123",
        "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"key": "sk-abcdef123"}'}}],
        "sk-abcdef123": {"sk-abcdef123": 1},
    }
    shown = json.dumps(Redactor([KEY]).message(message))
    assert "sk-abcdef123" not in shown
    assert shown.count(MARK) == 6


def test_the_given_message_is_not_changed() -> None:
    message: Message = {"role": "user", "content": [{"type": "text", "text": "sk-abcdef123"}]}
    before = json.dumps(message)
    Redactor([KEY]).message(message)
    assert json.dumps(message) == before


def test_ids_roles_types_and_signatures_stay() -> None:
    message: Message = {
        "role": "tool",
        "id": "sk-abcdef123",
        "tool_call_id": "sk-abcdef123",
        "content": [{"type": "thinking", "thinking": "x", "signature": "sk-abcdef123"}],
    }
    assert Redactor([KEY, "tool", "thinking"]).message(message) == message


@pytest.mark.parametrize(
    "code",
    [
        'os.environ["API_KEY"]',
        "api_key=os.environ.get('API_KEY')",
        'api_key = os.environ["API_KEY"]',
        'password: os.getenv("DB_PASSWORD")',
        "token = process.env.GITHUB_TOKEN;",
        'TOKEN="${GITHUB_TOKEN}"',
        "token=$GITHUB_TOKEN",
        "token: ${{ secrets.GITHUB_TOKEN }}",
        "password: {{ vault_password }}",
        'api_key = ENV["API_KEY"]',
        'token := os.Getenv("TOKEN")',
        'token = std::env::var("TOKEN")',
    ],
)
def test_code_that_only_refers_to_a_secret_stays(code: str) -> None:
    assert Redactor([ASSIGNMENT]).text(code) == code


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("api_key=hunter2 and more", f"{MARK} and more"),
        ("password = pa$$word", MARK),
        ("password=pa$WORD1", MARK),
        ("token=abc$GITHUB_TOKEN", MARK),
        ("my password is x; password: 'x'", f"my password is x; {MARK}"),
    ],
)
def test_a_literal_secret_goes(text: str, left: str) -> None:
    assert Redactor([ASSIGNMENT]).text(text) == left


def test_a_default_beside_a_reference_goes_and_the_reference_stays() -> None:
    text = 'api_key=os.environ.get("API_KEY", "sk-abcdef123")'
    shown = Redactor([r"api_key=.*"]).text(text)
    assert "sk-abcdef123" not in shown
    assert 'os.environ.get("API_KEY"' in shown


def test_a_secret_that_follows_a_reference_goes() -> None:
    shown = Redactor([r"password=.*"]).text('password=hunter2 # or os.environ["PASSWORD"]')
    assert "hunter2" not in shown
    assert 'os.environ["PASSWORD"]' in shown


def test_a_named_group_narrows_what_goes() -> None:
    assert Redactor([r"key=(?P<secret>\w+);"]).text("key=abc;key=def;") == f"key={MARK};key={MARK};"


def test_a_plain_group_does_not_narrow() -> None:
    assert Redactor([r"(sk|pk)-\w+"]).text("sk-123") == MARK


@pytest.mark.parametrize(
    "message", [{"role": "user", "meta": {"password": "hunter2"}}, {"role": "user", "password": "hunter2"}]
)
def test_a_value_is_matched_together_with_its_key(message: Message) -> None:
    assert "hunter2" not in json.dumps(Redactor([ASSIGNMENT]).message(message))


def test_numbers_that_match_go() -> None:
    message: Message = {"role": "user", "card": 4111111111111111, "n": 5, "ok": True}
    assert Redactor([r"\b\d{16}\b"]).message(message) == {"role": "user", "card": MARK, "n": 5, "ok": True}


def test_a_data_url_is_no_text() -> None:
    url = "data:image/png;base64,skABCDEF0123"
    message: Message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    assert Redactor(["sk[A-Z]+"]).message(message) == message


def test_keys_that_become_equal_all_stay() -> None:
    redacted = Redactor([KEY]).message({"role": "user", "m": {"sk-aaaaaa": 1, "sk-bbbbbb": 2}})
    assert sorted(redacted["m"].values()) == [1, 2]


@pytest.mark.parametrize("pattern", [r'"password":\s*"[^"]*"', r"hunter2.*", r"hunter2", r"\{.*"])
def test_arguments_stay_json(pattern: str) -> None:
    arguments = '{"user": "bob", "password": "hunter2", "n": [1, 2]}'
    message: Message = {
        "role": "assistant",
        "tool_calls": [{"function": {"name": "f", "arguments": arguments}}],
    }
    redacted = Redactor([pattern]).message(message)["tool_calls"][0]["function"]["arguments"]
    assert "hunter2" not in redacted
    json.loads(redacted)


def test_arguments_without_a_match_keep_their_bytes() -> None:
    arguments = '{ "a":1,\n"b" : "\\u00e9" }'
    message: Message = {
        "role": "assistant",
        "tool_calls": [{"function": {"name": "f", "arguments": arguments}}],
    }
    assert Redactor([KEY]).message(message) == message


def test_an_escape_in_arguments_hides_no_secret() -> None:
    arguments = '{"key": "sk-\\u0061bcdef123"}'
    redacted = Redactor([KEY]).message(
        {"role": "assistant", "function_call": {"name": "f", "arguments": arguments}}
    )
    assert json.loads(redacted["function_call"]["arguments"]) == {"key": MARK}


@pytest.mark.parametrize("bad", ["(a", "[z-a]", r"(?=x)", r"(a)\1"])
def test_a_pattern_that_cannot_be_used_is_named(bad: str) -> None:
    with pytest.raises(ConfigError, match=r"redactPatterns\[1\]") as failure:
        Redactor(["ok", bad])
    assert repr(bad) in str(failure.value)


def test_a_pattern_that_matches_nothing_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="empty text"):
        Redactor(["a*"])


def test_a_pattern_that_hangs_other_engines_does_not_hang_this_one() -> None:
    started = time.process_time()
    Redactor([r"(a+)+$", r"(x+x+)+y"]).text("a" * 50_000 + "!" + "x" * 50_000)
    assert time.process_time() - started < 30


def test_text_around_lone_surrogates_and_nul_is_kept() -> None:
    text = "a\ud83d sk-abcdef123 \x00 é漢"
    assert Redactor([KEY]).text(text) == f"a\ud83d {MARK} \x00 é漢"


_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("xx sk-abcdef123 yy"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=examples(150), deadline=None)
@given(content=_JSON)
def test_no_match_survives_and_nothing_else_changes(content: Any) -> None:
    redacted = Redactor([KEY]).message({"role": "user", "content": content})
    assert json.dumps(redacted).replace(MARK, "sk-abcdef123") == json.dumps(
        {"role": "user", "content": content}
    )
    assert "sk-abcdef123" not in json.dumps(redacted)
