"""Counting tokens as tiktoken counts them."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from itertools import product

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from published import exact

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


@pytest.fixture(scope="module", params=["file", "table"])
def merging(request: pytest.FixtureRequest) -> TokenCounts:
    counts = TokenCounts(MANY if request.param == "file" else 0)
    counts.of("all words from")
    return counts


@pytest.mark.parametrize("text", SAMPLES)
def test_a_text_has_as_many_tokens_as_tiktoken_finds(text: str, merging: TokenCounts) -> None:
    assert merging.of(text) == exact(text)


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


@pytest.mark.long
def test_ascii_is_cut_as_tiktoken_does_in_every_order_of_three(merging: TokenCounts) -> None:
    some = [chr(point) for point in range(33)] + [*"aZs'/0.", "\x7f"]
    texts = ["".join(three) for three in product(some, repeat=3)]
    assert [text for text in texts if merging.of(f"b{text}B8") != exact(f"b{text}B8")] == []


def test_the_table_is_made_once_it_pays_and_the_counts_stay() -> None:
    counts = TokenCounts(300)
    texts = [f"{n}: {WORDS} {chr(0x4E00 + n)}{n * 7919}" for n in range(60)]
    found = [(counts.of(text), counts.has_table) for text in texts]
    assert [tokens for tokens, _ in found] == [exact(text) for text in texts]
    assert (found[5][1], found[-1][1]) == (False, True)


@pytest.mark.parametrize("word", ["ab" * 2_000, "A" * 4_000, "日本語" * 700, "x9Zq" * 900 + "é" * 900])
def test_a_long_word_has_as_many_tokens_as_tiktoken_finds(word: str, merging: TokenCounts) -> None:
    assert merging.of(word) == exact(word)


def test_a_sentence_without_spaces_is_cut_where_no_token_goes_across(merging: TokenCounts) -> None:
    texts = [
        "私たちは午後三時に港で会う約束をしたが船は嵐のために遅れていた",
        "ภาษาไทยไม่มีช่องว่างระหว่างคำ",
        "กำ" * 40 + "🧑‍🚀🏳️‍🌈" * 20,
    ]
    assert [merging.of(text) for text in texts] == [exact(text) for text in texts]


def test_half_a_surrogate_pair_counts_as_a_question_mark(merging: TokenCounts) -> None:
    assert merging.of("half \ud83d of one") == exact("half ? of one")


def test_what_is_needed_next_is_loaded_before_others_wait() -> None:
    counts = TokenCounts(5_100)
    counts.get_ready()
    assert not counts.has_table
    texts = " ".join(f"{n * 7919}x{n}" for n in range(60))
    assert counts.of(texts) == exact(texts)
    counts.get_ready()
    assert counts.has_table


def test_what_was_given_back_is_loaded_again_for_the_next_text() -> None:
    counts = TokenCounts(0)
    assert [counts.of(WORDS), counts.of(WORDS)] == [exact(WORDS)] * 2
    assert counts.has_table
    counts.release()
    assert not counts.is_ready
    assert not counts.has_table
    assert counts.of(WORDS) == exact(WORDS)
    assert counts.is_ready


def test_in_bulk_tiktoken_counts_until_its_tables_are_given_back() -> None:
    counts = TokenCounts()
    assert counts.of(WORDS) == exact(WORDS)
    counts.use_tables()
    counts.get_ready()
    assert counts.has_tables
    assert counts.is_ready
    assert [counts.of(WORDS), counts.of("half \ud83d of one")] == [exact(WORDS), exact("half ? of one")]
    counts.release()
    assert not counts.has_tables
    assert counts.of(WORDS) == exact(WORDS)
    assert not counts.has_tables


def test_counting_loads_no_tiktoken_and_plain_text_no_regex() -> None:
    script = (
        "import sys; from lcm_plugin.messages.tokens import TokenCounter\n"
        "print(TokenCounter().text(sys.argv[1]), {'tiktoken', 'regex'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, WORDS * 20], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(exact(WORDS * 20)), "set()"]
