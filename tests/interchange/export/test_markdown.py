"""Markdown for people: whatever a message holds stays in its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.interchange.export.markdown import prose, write_markdown
from lcm_plugin.text import fenced, harmless, inline

pytestmark = pytest.mark.both_stores_under_ci

SIGNS = st.text(st.sampled_from("`~#<>-=|*_[]()!&;:1.\\\n \tab/x"), max_size=60)


def tokens(text: str) -> list[Token]:
    """All tokens of a document, those within paragraphs too."""
    found = MarkdownIt("commonmark").parse(text)
    return [*found, *(child for token in found for child in token.children or ())]


@given(st.text(max_size=80) | SIGNS)
@example("a\n```\nb\n````\n")
@example("~~~\n```")
def test_nothing_within_can_close_a_fence(text: str) -> None:
    whole = tokens(f"{fenced(text)}\n\nnext")
    fence, last = whole[0], whole[-1]
    assert fence.type == "fence"
    assert fence.content.replace("\n", "") == harmless(text).replace("\n", "")
    assert last.content == "next"


@given(st.text(max_size=80) | SIGNS)
@example("# Title")
@example("> - # Title")
@example("1. ## Title")
@example("text\n---")
@example("text\n=")
@example("<script>alert(1)</script>")
@example("- a\n\n  ```\n<b>out</b>")
@example("    ```\n<b>")
@example("\\`<b>`")
@example("a `\n` <b> `")
@example("``` `\n<b>")
@example("```\nnever closed")
@example("![pixel](http://example.org/p.png)")
@example("</details>")
def test_a_text_makes_no_section_no_element_and_fetches_nothing(text: str) -> None:
    found = tokens(f"{prose(text)}\n\n# next\n")
    headings = [token for token in found if token.type == "heading_open"]
    assert len(headings) == 1, prose(text)
    assert not {token.type for token in found} & {"html_block", "html_inline", "image"}, prose(text)


def test_code_in_fences_stays_as_it_is() -> None:
    text = "Run this:\n\n```html\n<b># no heading</b>\n---\n```\n\nDone & dusted, a < b."
    assert prose(text) == text


@given(SIGNS)
def test_a_name_is_plain_words_on_one_line(text: str) -> None:
    assert "\n" not in inline(text)
    assert {token.type for token in tokens(f"# x {inline(text)}")} <= {
        "heading_open", "heading_close", "inline", "text"
    }  # fmt: skip


@pytest.fixture
def page(open_engine: Callable[..., Engine], session: Session, clock: Any) -> Callable[..., str]:
    def write(*messages: dict[str, Any], compact: bool = False, **settings: Any) -> str:
        engine = open_engine(
            fresh_tail_count=2, leaf_min_fanout=2, leaf_chunk_tokens=200, leaf_target_tokens=60, **settings
        )
        engine.ingest(session, list(messages))
        if compact:
            engine.compact(session, force=True, budget=2_000)
        pieces: list[bytes] = []
        rows = list(engine.library.conversations())
        with engine.store.read() as reader:
            write_markdown(reader, pieces.append, rows, zone=engine.config.timezone, now=clock())
        return b"".join(pieces).decode()

    return write


def test_a_message_shows_who_when_and_what(page: Callable[..., str]) -> None:
    text = page(
        user("Where is **it**?", sender="Zoë <b>", created_at=1_780_000_000), timezone="Europe/Berlin"
    )
    assert "### user · Zoë \\<b\\> · 22:26:40" in text
    assert "<sub>msg_1 · " in text
    assert "Where is **it**?" in text
    assert "**Thursday, 28 May 2026**" in text
    assert "| 2026-05-28 | 1 |" in text


def test_calls_and_results_are_folded(page: Callable[..., str]) -> None:
    text = page(
        user("Look."),
        call("c1", name="shell", arguments='{"command": "ls <dir>"}'),
        result("c1", "a\n```\nb"),
    )
    assert '<details><summary>calls shell: {"command": "ls &lt;dir&gt;"}</summary>' in text
    assert '```json\n{\n  "command": "ls <dir>"\n}\n```' in text
    assert "````\na\n```\nb\n````" in text
    assert text.count("<details>") == text.count("</details>") == 2


def test_reasoning_is_folded_and_large_texts_are_shown_by_their_reference(page: Callable[..., str]) -> None:
    text = page(
        {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm, # well"},
        user("word " * 3_000),
        large_file_token_threshold=1_000,
    )
    assert "<details><summary>reasoning: Hm, # well</summary>" in text
    assert "[LCM File: file_" in text
    assert len(text) < 4_000


def test_summaries_lead_to_their_sources_and_the_context_to_summaries(page: Callable[..., str]) -> None:
    talk = [
        one
        for n in range(20)
        for one in (user(f"Question {n} about pumps and valves"), assistant(f"Answer {n}."))
    ]
    text = page(*talk, compact=True)
    names = set(re.findall(r'<a id="(sum_[0-9a-f]+)"></a>', text))
    assert names
    linked = set(re.findall(r"\[(sum_[0-9a-f]+)\]\(#\1\)", text))
    assert linked
    assert linked <= names
    assert re.search(r"- msg_\d+ to msg_\d+, \d+ as they were, \d+ tokens", text)
    headings = [token.content for token in tokens(text) if token.type == "inline" and token.level == 1]
    assert sum(one.startswith(("user · ", "assistant · ")) for one in headings) == 40


def test_odd_characters_do_not_stop_it(page: Callable[..., str]) -> None:
    text = page(
        user("nul \x00, lone \ud83d and \u2028 end"), user(""), assistant([{"type": "text", "text": " "}])
    )
    assert "nul \ufffd, lone \ufffd and" in text
    assert "*No text.*" in text
