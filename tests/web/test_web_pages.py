"""The pages Sessions, Talk, Search, one message and one summary, as HTML."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

from messages import assistant, user
from starlette.testclient import TestClient
from three_sessions import MAIN, WHOLE

from lcm_plugin import Engine

Visit = Callable[..., TestClient]


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def page(site: TestClient, path: str) -> str:
    answer = site.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def rows(text: str) -> list[str]:
    return re.findall(r'<article [^>]*id="(msg_\d+)"', text)


def test_sessions_are_listed_with_links(site: TestClient) -> None:
    text = page(site, "/")
    assert "4 sessions" in text
    assert 'href="/talk/1"' in text
    assert "66 messages" in text
    assert "read only" in text
    assert "No session fits" in page(site, "/?text=nowhere-to-be-found")


def test_an_empty_database_has_pages(open_engine: Callable[..., Engine], visit: Visit) -> None:
    site = visit(open_engine(**WHOLE))
    assert "Nothing is stored here yet" in page(site, "/")
    assert "Nothing found" in page(site, "/search?q=anything")
    assert site.get("/talk/1").status_code == 404


def test_rows_show_words_folded_tools_and_summaries_beside(site: TestClient) -> None:
    text = page(site, "/talk/1/rows?after=0")
    assert rows(text)[:4] == ["msg_1", "msg_2", "msg_3", "msg_4"]
    assert "Where is the <strong>zanzibar</strong> file?" in text
    assert re.search(r'<details class="fold call"><summary><b>calls read_file</b>', text)
    assert re.search(r'<details class="fold result"><summary><b>result read_file</b>', text)
    assert 'class="beside"' in text
    assert "<code>two</code>" in text


def test_a_talk_opens_at_a_message_or_at_its_end(site: TestClient) -> None:
    assert 'data-at="66"' in page(site, "/talk/1")
    at = page(site, "/talk/1?at=msg_7")
    assert 'data-at="7"' in at
    assert 'data-ref="msg_7"' in at
    assert site.get("/talk/1?at=msg_68").status_code == 404
    moved = site.get("/at/msg_7", follow_redirects=False)
    assert moved.headers["location"] == "/talk/1?at=msg_7"
    found = site.get("/search?q=msg_7", follow_redirects=False)
    assert found.headers["location"] == "/at/msg_7"


def test_from_a_summary_to_its_sources_and_back(site: TestClient) -> None:
    leaf = re.findall(r'href="/summary/(sum_\w+)"', page(site, "/talk/1/rows?after=0"))[0]
    text = page(site, f"/summary/{leaf}")
    assert "Leaf summary" in text
    assert 'href="/at/msg_1"' in text
    assert "zanzibar" in text
    assert f'href="/summary/{leaf}"' in page(site, "/message/msg_1")


def test_taken_back_rows_are_shown_on_demand(open_engine: Callable[..., Engine], visit: Visit) -> None:
    engine = open_engine(**WHOLE)
    told = [user("one"), assistant("two"), user("three"), assistant("four")]
    engine.ingest(MAIN, told, "whole")
    engine.ingest(MAIN, told[:2], "whole")
    site = visit(engine)
    assert rows(page(site, "/talk/1/rows")) == ["msg_1", "msg_2"]
    text = page(site, "/talk/1/rows?hidden=true")
    assert rows(text) == ["msg_1", "msg_2", "msg_3", "msg_4"]
    assert text.count("taken back") == 2


def test_what_a_message_says_is_text(site: TestClient) -> None:
    for path in ("/", "/talk/2", "/talk/2/rows", "/message/msg_68", "/message/msg_67", "/search?q=onerror"):
        text = page(site, path)
        tags = Elements(text).found
        assert "&lt;/script&gt;" in text, path
        assert "49" not in re.findall(r"alert\(1\)[^<]*", text)
        assert not any(name.startswith("on") for _, attributes in tags for name in attributes), path
        assert not any(tag == "svg" for tag, _ in tags), path
        sources = {attributes.get("src") for tag, attributes in tags if tag in ("img", "script")}
        assert all(one and one.startswith(("/static/", "/shared/", "/file/")) for one in sources), path


def test_pictures_are_shown_and_other_files_are_saved(
    open_engine: Callable[..., Engine], visit: Visit, site: TestClient
) -> None:
    address = re.findall(r'<img src="(/file/file_\w+)"', page(site, "/talk/2/rows"))[0]
    answer = site.get(address)
    assert (answer.headers["content-type"], answer.content[:4]) == ("image/png", b"\x89PNG")
    engine = open_engine("files", **WHOLE, large_file_token_threshold=1_000)
    engine.ingest(MAIN, [user("<html><script>alert(1)</script>" + "word " * 3_000)])
    other = visit(engine)
    files = re.findall(r'"(/file/file_\w+)"', page(other, "/talk/1/rows"))
    saved = other.get(files[0])
    assert saved.headers["content-type"] == "application/octet-stream"
    assert saved.headers["content-disposition"].startswith("attachment")
    assert saved.text.startswith("<html><script>")


def test_headings_and_links_of_a_message_are_not_the_pages(site: TestClient) -> None:
    text = page(site, "/talk/1/rows?after=50")
    assert '<p class="heading level-1">A heading</p>' in text
    assert 'rel="noreferrer noopener nofollow"' in text
    tags = [tag for tag, _ in Elements(text).found]
    assert "h1" not in tags


def test_a_long_text_is_cut_in_the_list_and_whole_on_its_page(
    open_engine: Callable[..., Engine], visit: Visit
) -> None:
    engine = open_engine(**WHOLE)
    engine.ingest(MAIN, [user("ab " * 2_000 + "the very end")])
    site = visit(engine)
    listed = page(site, "/talk/1/rows")
    assert "the very end" not in listed
    assert "more characters" in listed
    assert "the very end" in page(site, "/message/msg_1")


def test_search_shows_hits_marked_and_facets(site: TestClient) -> None:
    text = page(site, "/search?q=zanzibar")
    assert "<mark>zanzibar</mark>" in text
    assert 'href="/at/msg_1"' in text
    assert "q=zanzibar&amp;role=user" in text
    assert "Nothing found" in page(site, "/search?q=nowhere-to-be-found-at-all")
    broken = page(site, "/search?q=(&regex=true")
    assert 'role="alert"' in broken


def test_wrong_addresses_have_a_page(site: TestClient) -> None:
    for path in ("/nowhere", "/talk/99", "/message/msg_999", "/summary/sum_x", "/at/x", "/file/file_x"):
        answer = site.get(path)
        assert answer.status_code == 404, path
        assert "Not here" in answer.text
    assert site.get("/?sort=colour").status_code == 400
    assert site.get("/static/../app.py").status_code == 404


def test_the_tree_opens_down_to_the_messages(site: TestClient) -> None:
    text = page(site, "/tree/1")
    assert "The context and what is below it" in text
    ref = re.findall(r'hx-get="/tree/below/(sum_\w+)"', text)[0]
    seen = 0
    while True:
        inner = page(site, f"/tree/below/{ref}")
        seen += 1
        deeper = re.findall(r'hx-get="/tree/below/(sum_\w+)"', inner)
        if not deeper:
            break
        ref = deeper[0]
    assert 'href="/at/msg_1"' in inner
    assert seen >= 1
    assert "extraction, no model" in text
    assert site.get("/tree/below/sum_0000000000000000").status_code == 404


def test_what_the_first_request_needs_is_loaded_before_it(site: TestClient) -> None:
    pages = site.app.state.pages  # type: ignore[attr-defined]
    pages.warm()
    assert set(pages._templates.list_templates(["html"])) == {name for _, name in pages._templates.cache}


def test_health_says_what_the_status_says(site: TestClient, filled: Engine) -> None:
    text = page(site, "/health")
    assert "stored in all" in text
    assert "The bill so far" in text
    assert "nothing is paused" in text
    assert "contexts are made" not in text
    with filled.store.write() as writer:
        writer.save_guard("breaker:litellm:small-1", {"open_until": filled.clock() + 60_000})
    filled.ingest(MAIN, [user("And then?")])
    filled.assemble(MAIN, 3_000)
    filled.ingest(MAIN, [assistant("Then this.")])
    filled.hook_health.failed("before_turn", MAIN, "the disk is full")
    again = page(site, "/health")
    assert "the disk is full" in again
    assert "litellm:small-1</code> is not called for a while" in again
    assert "contexts are made" in again
    assert site.get("/api/health").json()["gauges"]["failing_hooks"] == 1
    assert 'class="badge failing"' in page(site, "/")
