"""Counting tokens with the encoding that comes with the package."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import tiktoken
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from published import encoding as published_encoding
from published import exact

from lcm_plugin.messages import encodings
from lcm_plugin.messages.encodings import PUBLISHED_SHA256, encoding_of, vocabulary
from lcm_plugin.messages.merging import TokenCounts
from lcm_plugin.messages.tokens import MESSAGE_OVERHEAD, TokenCounter

COUNTER = TokenCounter()


def test_the_vocabulary_is_the_published_file() -> None:
    """The digest is the one that tiktoken's source names for o200k_base."""
    published = hashlib.sha256()
    for token, rank in sorted(vocabulary().items(), key=lambda pair: pair[1]):
        published.update(base64.b64encode(token) + b" %d\n" % rank)
    assert published.hexdigest() == PUBLISHED_SHA256
    source = Path(sysconfig.get_paths()["purelib"], "tiktoken_ext", "openai_public.py").read_text("utf-8")
    assert PUBLISHED_SHA256 in source


def test_a_c_library_that_gives_no_memory_back_lets_it_be(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def library(name: str | None) -> object:
        asked.append(name)
        return object()

    monkeypatch.setattr("ctypes.CDLL", library)
    TokenCounts().release()
    assert asked == [None]


@pytest.fixture(scope="module")
def original() -> tiktoken.Encoding:
    """The encoding as tiktoken makes it, from litellm's copy of the published file."""
    folder = Path(sysconfig.get_paths()["purelib"], "litellm", "litellm_core_utils", "tokenizers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        return tiktoken.get_encoding(encodings.ENCODING)


SAMPLES = [
    "Die Straße nach Köln ist gesperrt;  take the B-Road\tinstead.\n\n  def f(x):\n\treturn x**2  # 12345",
    "我们在下午三点见面 こんにちは 안녕하세요 🧑‍🚀 ﷽",
    "it'll don't WE'VE I'm HTTPServer2Error_id_0x1F\r\n\r\n",
    "<|endoftext|><|fim_prefix|>",
    "   \n \n ",
]


@pytest.mark.parametrize("text", SAMPLES)
def test_a_text_has_the_tokens_that_tiktoken_gives_it(text: str, original: tiktoken.Encoding) -> None:
    assert published_encoding().encode_ordinary(text) == original.encode_ordinary(text)


@settings(deadline=None, max_examples=examples(200))
@given(st.text(max_size=200))
def test_any_text_has_the_tokens_that_tiktoken_gives_it(original: tiktoken.Encoding, text: str) -> None:
    assert published_encoding().encode_ordinary(text) == original.encode_ordinary(text)


def test_a_plain_install_counts_exactly() -> None:
    """Without an encoding these were 4,004 tokens, since they were counted from above."""
    text = " ".join(f"word{n}" for n in range(335))
    expected = exact(text)
    script = (
        "import sys; sys.modules['litellm'] = None; from lcm_plugin.messages.tokens import TokenCounter\n"
        "print('tiktoken' in sys.modules, TokenCounter().text(sys.argv[1]))"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TIKTOKEN_CACHE_DIR"}
    environment |= {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": ""}
    command = [sys.executable, "-c", script, text]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["False", str(expected)]


def test_a_damaged_encoding_is_an_error_and_never_a_wrong_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Path(encodings.__file__)
    whole = here.with_name("o200k_base.bin").read_bytes()
    (tmp_path / "o200k_base.bin").write_bytes(whole[:5_000] + b"?" + whole[5_001:])
    monkeypatch.setattr(encodings, "__file__", str(tmp_path / here.name))
    with pytest.raises(OSError, match="install lcm_plugin again"):
        vocabulary()


def test_long_texts_are_counted_in_slices_that_change_next_to_nothing() -> None:
    text = "The quick brown fox jumps over 13 lazy dogs, twice.\n" * 2_000
    assert COUNTER.text(text) == pytest.approx(exact(text), rel=0.001)


def test_a_message_costs_its_texts_and_an_image_a_flat_price() -> None:
    assert COUNTER.message({"role": "user", "content": "hello"}) == MESSAGE_OVERHEAD + 1
    picture = {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 2_000_000}}],
    }
    assert 0 < COUNTER.message(picture) <= 5_000


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o-mini", "o200k_base"),
        ("openai/gpt-5.2", "o200k_base"),
        ("openai:gpt-4.1", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("o3", "o200k_base"),
        ("o1-preview", "o200k_base"),
        ("openrouter/anthropic/claude-sonnet-4", None),
        ("o30-something", None),
        ("", None),
        (None, None),
    ],
)
def test_which_model_counts_with_which_encoding(model: str | None, encoding: str | None) -> None:
    assert encoding_of(model) == encoding
