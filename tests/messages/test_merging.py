"""Counting a process' first texts without tiktoken's tables."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.messages.encodings import load_encoding
from lcm_plugin.messages.merging import TokenCounts

MANY = 10**9
WORDS = "The harbour's cranes  weighed 12345 crates, didn't they?\n\tdef f(x): return x**2\r\n"
SAMPLES = [
    "",
    WORDS,
    json.dumps({"name": "lcm_grep", "parameters": {"type": "object", "required": ["pattern"]}}),
    "我们在下午三点见面 こんにちは 안녕하세요 🧑‍🚀 ﷽ ﬁ ſ'ſ Ǆ",
    "<|endoftext|> https://a.example/x?y=%20&z#f HTTPServer2Error_id_0x1F " + "─" * 60,
    "   \n \n " + "=" * 90,
    "x9Zq" * 80,
]


def exact(text: str) -> int:
    return len(load_encoding().encode_ordinary(text))


@pytest.fixture(scope="module")
def merging() -> TokenCounts:
    return TokenCounts(MANY)


@pytest.mark.parametrize("text", SAMPLES)
def test_a_text_has_as_many_tokens_as_tiktoken_finds(text: str, merging: TokenCounts) -> None:
    assert merging.of(text) == exact(text)
    assert not merging.has_tables


@settings(deadline=None, max_examples=examples(200))
@given(
    st.lists(st.one_of(st.text(max_size=40), st.sampled_from(["'s", "'LL", " ", "\r\n", WORDS]))).map("".join)
)
def test_any_text_has_as_many_tokens_as_tiktoken_finds(merging: TokenCounts, text: str) -> None:
    assert merging.of(text) == exact(text)


def _kinds() -> list[str]:
    """Two characters of each of Unicode's categories, and every 97th of all."""
    found: dict[str, list[str]] = {}
    for point in range(sys.maxunicode):
        found.setdefault(unicodedata.category(chr(point)), []).append(chr(point))
    found.pop("Cs")
    return [one for some in found.values() for one in (some[0], some[-1], *some[::97])]


@pytest.mark.long
def test_characters_of_each_kind_are_cut_from_their_neighbours_as_tiktoken_does(merging: TokenCounts) -> None:
    texts = [f"a{one}b {one}{one}1'{one} \n{one}B" for one in _kinds()]
    assert [text for text in texts if merging.of(text) != exact(text)] == []


def test_the_tables_are_loaded_once_they_pay_and_the_counts_stay(merging: TokenCounts) -> None:
    counts = TokenCounts(20 * len(WORDS))
    texts = [f"{n}: {WORDS}" for n in range(40)]
    found = [(counts.of(text), counts.has_tables) for text in texts]
    assert [tokens for tokens, _ in found] == [exact(text) for text in texts]
    assert (found[10][1], found[-1][1]) == (False, True)


def test_a_long_word_and_half_a_surrogate_pair_are_left_to_the_tables() -> None:
    for text in ("ab" * 4_000, "half \ud83d of one"):
        counts = TokenCounts(MANY)
        assert counts.of(text) > 0
        assert counts.has_tables


def test_what_is_needed_next_is_loaded_before_others_wait() -> None:
    counts = TokenCounts(150_000)
    counts.get_ready()
    assert not counts.has_tables
    assert counts.of(WORDS * 1_000) == exact(WORDS * 1_000)
    counts.get_ready()
    assert counts.has_tables


def test_what_was_given_back_is_loaded_again_for_the_next_text() -> None:
    counts = TokenCounts(10)
    assert [counts.of(WORDS), counts.of(WORDS)] == [exact(WORDS)] * 2
    assert counts.has_tables
    counts.release()
    assert not counts.has_tables
    assert not counts.is_ready
    assert counts.of(WORDS) == exact(WORDS)
    assert counts.is_ready


def test_a_process_that_counts_little_never_loads_tiktoken(tmp_path: Path) -> None:
    script = "import sys; from lcm_plugin import Engine, LcmConfig\n" + (
        "from lcm_plugin.types import Session\n"
        "with Engine.open(LcmConfig(database=sys.argv[2])) as engine:\n"
        "    for n in range(20):\n"
        "        engine.ingest(Session('a', 'a'), [{'role': 'user', 'content': f'{n} ' + sys.argv[1]}], 'append')\n"
        "print(engine.count_tokens(sys.argv[1]), 'tiktoken' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, WORDS * 20, str(tmp_path / "lcm.db")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(exact(WORDS * 20)), "False"]
