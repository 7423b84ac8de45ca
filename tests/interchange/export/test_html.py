"""The page as a file: its parts inside, its texts harmless. What it does is tested in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from functools import partial
from html.parser import HTMLParser
from typing import Any

import pytest
from messages import assistant, user

from lcm_plugin import Engine, Session
from lcm_plugin.interchange.export import pictures
from lcm_plugin.interchange.export.html import write_page
from lcm_plugin.interchange.export.views import MOST_CHARACTERS
from lcm_plugin.text import harmless

pytestmark = pytest.mark.both_stores_under_ci

HOSTILE = "</script><img src=x onerror=alert(1)><!--<script>{{data}} \u2028 ]]> &amp; 'quotes\" \\u003c"
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 2,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
    "leaf_chunk_tokens": 200,
    "leaf_target_tokens": 60,
}


class Outline(HTMLParser):
    """The elements of a page, the attributes of each, and the text of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.texts.append((self.elements[-1][0], data))


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def page_of(engine: Engine) -> str:
    pieces: list[bytes] = []
    with engine.store.read() as reader:
        rows = list(engine.library.conversations())
        write_page(
            reader,
            pieces.append,
            rows,
            engine.config,
            limits=partial(engine.compaction.known_limits, reader),
            now=engine.clock(),
            payloads=engine.payloads,
        )
    return b"".join(pieces).decode()


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    found.close()
    return found


def data(page: str, name: str) -> Any:
    [text] = re.findall(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


@pytest.fixture
def hostile(open_engine: Callable[..., Engine]) -> Engine:
    engine = open_engine(**SETTINGS)
    session = Session(f"agent:{HOSTILE}:x")
    for number in range(12):
        engine.ingest(
            session, [user(f"{HOSTILE} {number}", sender=HOSTILE), assistant(f"{HOSTILE} yes {number}")]
        )
    engine.compact(session, force=True, budget=2_000)
    return engine


def test_no_text_becomes_an_element(hostile: Engine) -> None:
    page = page_of(hostile)
    found = outline(page)
    tags = [tag for tag, _ in found.elements]
    assert tags.count("script") == 3
    assert "img" not in tags
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    messages = data(page, "conversation-1")["messages"]
    assert messages[0]["blocks"][0]["text"] == f"{HOSTILE} 0"
    assert messages[0]["sender"] == HOSTILE
    assert data(page, "about")["conversations"][0]["key"] == f"agent:{HOSTILE}:x"
    [title] = [text for tag, text in found.texts if tag == "title" and text.strip()][:1]
    assert title == harmless(data(page, "about")["conversations"][0]["title"]).strip()


def test_each_conversation_has_the_budget_of_its_own_newest_call(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(**SETTINGS, autocompact_disabled=True)
    for number, (budget, overhead) in enumerate([(40_000, 6_000), (9_000, 0)]):
        session = Session(f"agent:main:{number}")
        engine.ingest(session, [user("hello")])
        engine.schedule_compaction(session, budget, overhead_tokens=overhead)
    engine.ingest(Session("agent:main:silent"), [user("hello")])
    about = {one["key"]: one for one in data(page_of(engine), "about")["conversations"]}
    seen = {key: (one["budget"], one["overhead"]) for key, one in about.items()}
    assert seen == {
        "agent:main:0": (40_000, 6_000),
        "agent:main:1": (9_000, 0),
        "agent:main:silent": (engine.config.budget(None), 0),
    }
    for key, (budget, overhead) in seen.items():
        assert 0 < about[key]["soft"] < about[key]["hard"] <= budget - overhead, key


def test_the_budget_of_a_call_that_another_process_made_is_known(
    open_engine: Callable[..., Engine],
) -> None:
    session = Session("agent:main:0")
    with open_engine(**SETTINGS) as host:
        host.ingest(session, [user("hello")])
        for budget, overhead, answer in ((90_000, 1_000, "yes"), (40_000, 6_000, "no")):
            host.assemble(session, budget, overhead)
            host.ingest(session, [assistant(answer)])
    other = open_engine(**SETTINGS)
    [about] = data(page_of(other), "about")["conversations"]
    assert (about["budget"], about["overhead"]) == (40_000, 6_000)
    assert "of the budget of 40,000" in other.command(session, "/lcm status").text


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else(hostile: Engine) -> None:
    page = page_of(hostile)
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    for tag in ("style", "script"):
        [text] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_the_page_refers_to_nothing_outside(hostile: Engine) -> None:
    addresses = {"src", "href", "srcset", "action", "data", "poster"}
    held = [(tag, attributes.keys() & addresses) for tag, attributes in outline(page_of(hostile)).elements]
    assert [one for one in held if one[1]] == []


def test_summaries_come_with_their_sources_and_the_context_in_order(hostile: Engine) -> None:
    held = data(page_of(hostile), "conversation-1")
    names = {one["id"] for one in held["messages"]} | {one["id"] for one in held["summaries"]}
    assert held["summaries"]
    for summary in held["summaries"]:
        assert summary["sources"]
        assert set(summary["sources"]) <= names
        assert all(one.startswith("sum_" if summary["depth"] else "msg_") for one in summary["sources"])
    session = Session(f"agent:{HOSTILE}:x")
    assert [one for one, _ in held["context"]] == [item.id for item in hostile.context_items(session)]


def test_a_very_long_text_is_cut_and_says_so(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(large_file_token_threshold=1_000_000)
    engine.ingest(session, [user("ab " * MOST_CHARACTERS)])
    [block] = data(page_of(engine), "conversation-1")["messages"][0]["blocks"]
    assert len(block["text"]) == MOST_CHARACTERS
    assert block["cut"] == 2 * MOST_CHARACTERS


def test_small_pictures_stand_on_the_page_and_nothing_else_does(
    open_engine: Callable[..., Engine], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()

    def image(kind: str, content: bytes | None = None) -> dict[str, Any]:
        encoded = PIXEL if content is None else base64.b64encode(content).decode()
        return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{encoded}"}}

    drawing = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    engine.ingest(session, [user([image("image/png"), image("image/svg+xml", drawing)])])
    png, svg = data(page_of(engine), "conversation-1")["messages"][0]["blocks"]
    assert png["picture"] == f"data:image/png;base64,{PIXEL}"
    assert "picture" not in svg
    assert png["text"].startswith("[LCM File: file_")
    monkeypatch.setattr(pictures, "MOST_BYTES", 10)
    assert "picture" not in data(page_of(engine), "conversation-1")["messages"][0]["blocks"][0]


def test_several_conversations_stand_on_one_page(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine()
    engine.ingest(session, [user("first")])
    engine.reset_session(session)
    engine.ingest(session, [user("second"), {"role": "system", "content": ""}])
    page = page_of(engine)
    assert [one["ended"] for one in data(page, "about")["conversations"]] == ["manual-reset", None]
    assert data(page, "conversation-1")["messages"][0]["blocks"][0]["text"] == "first"
    assert "blocks" not in data(page, "conversation-2")["messages"][1]
