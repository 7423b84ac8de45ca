"""The pages of `lcm web` as their readers use them: with a mouse, with keys alone, on a phone."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest
from axe import axe
from conftest import Served, python
from playwright.sync_api import Page, expect

Open = Callable[..., Page]
LONG = 20_000


def talk_of(page: Page, title: str) -> None:
    """Goes to a session from the list."""
    page.get_by_label("Filter").fill(title)
    expect(page.locator("#found .count")).to_have_text("1 session")
    page.locator("#found .sessions a").first.click()
    expect(page.locator("#talk article").first).to_be_visible()


def test_sessions_are_filtered_while_one_types(open_page: Open) -> None:
    page = open_page()
    expect(page.locator(".sessions > li").first).to_be_visible()
    page.get_by_label("Filter").fill("tokenizer")
    expect(page.locator("#found .count")).to_have_text("1 session")
    expect(page).to_have_url(re.compile("text=tokenizer"))
    expect(page.locator(".sessions .title")).to_have_text("Tokenizer repair")
    page.get_by_label("Filter").fill("")
    page.get_by_label("Tool").select_option("codex 0.90.0")
    expect(page.locator("#found .count")).to_have_text("1 session")
    page.go_back()
    expect(page.locator("#filters")).to_be_visible()


def test_a_search_leads_to_the_place_in_the_talk(open_page: Open) -> None:
    page = open_page("/health")
    page.keyboard.press("/")
    page.keyboard.type("poison message")
    page.keyboard.press("Enter")
    expect(page.locator(".hits mark").first).to_have_text(re.compile("poison|message"))
    ref = page.locator(".hits li code").first.inner_text()
    page.locator(".hits .facts a").first.click()
    if ref.startswith("msg_"):
        row = page.locator(f"#{ref}")
        expect(row).to_be_in_viewport()
        expect(row).to_have_class(re.compile("chosen"))
    page.go_back()
    page.get_by_role("link", name="assistant", exact=True).click()
    expect(page.get_by_role("link", name="any role")).to_be_visible()


def test_from_a_message_to_its_summary_and_back(open_page: Open) -> None:
    page = open_page("/talk/1?at=msg_20")
    expect(page.locator("#msg_20")).to_be_in_viewport()
    page.keyboard.press("s")
    expect(page.locator("h2")).to_have_text(re.compile(r"^Leaf summary sum_\w+"))
    page.locator(".sources a").first.click()
    expect(page.locator("#talk article.chosen")).to_be_in_viewport()


def test_tool_calls_are_folded_until_they_are_asked_for(open_page: Open) -> None:
    page = open_page("/talk/1?at=msg_588")
    call = page.locator("#msg_588 details.call").first
    expect(call.locator("pre")).to_be_hidden()
    call.locator("summary").click()
    expect(call.locator("pre")).to_be_visible()
    page.get_by_label("unfold tool calls").check()
    expect(page.locator("#msg_589 details pre")).to_be_visible()


def test_a_talk_is_walked_with_keys(open_page: Open) -> None:
    page = open_page("/talk/1?at=msg_100")
    expect(page.locator("#msg_100")).to_be_focused()
    for _ in range(60):
        page.keyboard.press("j")
    expect(page.locator("#msg_160")).to_be_focused()
    expect(page.locator("#msg_160")).to_be_in_viewport()
    assert "at=msg_160" in page.url
    page.keyboard.press("k")
    expect(page.locator("#msg_159")).to_be_focused()
    page.keyboard.press("g")
    expect(page.locator("#msg_1")).to_be_in_viewport()
    page.keyboard.press("Shift+G")
    expect(page.locator("#msg_591")).to_be_in_viewport()


def test_rows_that_were_taken_back_are_shown_on_demand(open_page: Open) -> None:
    page = open_page()
    talk_of(page, "taken-back")
    expect(page.locator("#talk article")).to_have_count(2)
    page.keyboard.press("h")
    expect(page.locator("#talk article")).to_have_count(4)
    expect(page.locator("#talk .badge").first).to_have_text("taken back")
    page.get_by_label("taken-back and hidden rows").uncheck()
    expect(page.locator("#talk article")).to_have_count(2)


def test_twenty_thousand_messages_scroll(open_page: Open) -> None:
    page = open_page()
    talk_of(page, "agent:main:long")
    last = page.locator("#talk article").last
    expect(last).to_be_in_viewport()
    expect(page.locator("#where")).to_contain_text(f"of {LONG:,}")
    assert page.locator("#talk article").count() < 400
    page.get_by_role("button", name="Oldest").click()
    expect(page.locator("#talk article[data-seq='1']")).to_be_in_viewport()
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight / 2)")
    expect(page.locator("#where")).to_have_text(re.compile(r"place (?:[5-9]|1[0-4]),\d{3} of"))
    expect(page.locator("#talk article").first).to_be_attached()
    assert page.locator("#talk article").count() < 400


def test_a_deep_link_stands_still_while_its_neighbours_arrive(open_page: Open) -> None:
    page = open_page("/talk/1?at=msg_300", height=700)
    row = page.locator("#msg_300")
    expect(row).to_be_in_viewport()
    expect(page.locator("[data-seq='301']")).to_be_attached()
    expect(row).to_be_in_viewport()
    expect(row).to_be_focused()


def test_what_a_message_says_is_never_run(open_page: Open) -> None:
    page = open_page()
    page.get_by_label("Filter").fill("onerror")
    expect(page.locator("#found .count")).to_have_text("1 session")
    page.locator(".sessions a").first.click()
    expect(page.locator("#talk article")).to_have_count(2)
    page.get_by_label("unfold tool calls").check()
    assert page.locator("#talk img, #talk svg, #talk script").count() == 0
    page.goto(f"{page.url.partition('/talk')[0]}/search?q=onerror")
    expect(page.locator(".hits li").first).to_be_visible()
    assert page.locator("main img, main svg, main script").count() == 0


def test_the_tree_opens_down_to_a_message(open_page: Open) -> None:
    page = open_page("/tree/1")
    node = page.locator(".tree > .node.depth-1, .tree > .node.depth-2, .tree > .node.depth-0").first
    while node.count():
        node.locator("summary").first.click()
        expect(node.locator(".below .node").first).to_be_visible()
        inner = node.locator(":scope > details > .below > .node").first
        if "raw" in (inner.get_attribute("class") or ""):
            inner.locator("a").click()
            break
        node = inner
    expect(page.locator("#talk article.chosen")).to_be_in_viewport()


def test_health_checks_on_demand(open_page: Open) -> None:
    page = open_page("/health")
    expect(page.locator(".pairs")).to_contain_text("stored in all")
    page.get_by_label("Conversation").fill("1")
    page.get_by_role("button", name="Check now").click()
    expect(page.locator("#findings")).to_contain_text("a lane is active but long unused")


def test_the_context_says_why_something_is_not_in_view(open_page: Open) -> None:
    page = open_page("/context/1")
    expect(page.locator("svg.budget")).to_have_attribute(
        "aria-label", re.compile(r"summaries: [\d,]+ tokens")
    )
    page.get_by_label("Why is it not in view?").fill("msg_2")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#why")).to_contain_text("it was summarised")
    page.locator("#why a").last.click()
    expect(page.locator("h2")).to_contain_text("ummary")


def test_pages_change_only_what_a_server_with_write_allows(open_page: Open, writing: Served) -> None:
    assert open_page("/talk/1").get_by_role("link", name="Steer").count() == 0
    page = open_page("/talk/1", at=writing)
    page.get_by_role("link", name="Steer").click()
    page.get_by_label("A text, or msg_42").fill("The door code is 4711")
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.locator("#done")).to_contain_text("is pinned")
    expect(page.locator(".pin")).to_contain_text("The door code is 4711")
    expect(page.locator("table")).to_contain_text("pin")
    page.get_by_role("button", name="Unpin").click()
    expect(page.locator(".pin")).to_have_count(0)
    assert axe(page) == "[]"


BETTER = "Pager at night: checkout errors over 3 %, incident **INC-4471**, handled by Ines; nothing changes on production."


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_summary_is_edited_and_the_text_before_comes_back(
    open_page: Open, writing: Served, scheme: str
) -> None:
    page = open_page("/tree/1", at=writing, color_scheme=scheme)
    page.locator(".tree > .node > .id").first.click()
    expect(page.locator("#edit")).to_be_visible()
    before = page.locator("#text").text_content()
    page.locator("#edit > summary").click()
    page.get_by_role("textbox", name=re.compile("Contexts hold")).fill("Too short.")
    page.get_by_role("button", name="Use this text").click()
    expect(page.get_by_role("alert")).to_contain_text("too short")
    typed = page.get_by_role("textbox", name=re.compile("Contexts hold"))
    expect(typed).to_have_value("Too short.")
    typed.fill(BETTER)
    page.get_by_role("button", name="Use this text").click()
    expect(page.locator("#done")).to_contain_text("has its new text")
    expect(page.locator("#text strong")).to_have_text("INC-4471")
    page.get_by_text("Text 1").first.click()
    assert axe(page) == "[]"
    summary = page.url.rpartition("/")[2]
    page.get_by_role("link", name="Context").click()
    expect(page.locator("main")).to_contain_text("Pager at night")
    page.get_by_role("link", name="Steer").click()
    expect(page.get_by_role("row", name=re.compile(f"edit {summary} done")).first).to_be_visible()
    assert axe(page) == "[]"
    page.goto(f"{writing.root}/summary/{summary}")
    page.get_by_text(re.compile(r"^Text \d+")).first.click()
    page.get_by_role("button", name=re.compile("Use text")).first.click()
    expect(page.locator("#done")).to_contain_text("has its new text")
    assert page.locator("#text").text_content() == before


def test_the_pages_work_on_postgresql(open_page: Open, on_postgres: Served) -> None:
    page = open_page(at=on_postgres)
    expect(page.locator(".sessions > li")).to_have_count(2)
    page.get_by_label("Filter").fill("agent:main:tools")
    expect(page.locator("#found .count")).to_have_text("1 session")
    page.locator("#found .sessions a").first.click()
    expect(page.locator("#talk article").last).to_be_in_viewport()
    page.get_by_label("unfold tool calls").check()
    expect(page.locator("#talk details pre").first).to_be_visible()
    for path, ready in (
        ("/search?q=copper+lantern", ".hits mark"),
        ("/context/1", "svg.budget"),
        ("/tree/1", ".tree > .node"),
        ("/health", ".pairs"),
    ):
        page.goto(on_postgres.root + path)
        expect(page.locator(ready).first).to_be_visible()


def test_a_talk_full_of_tool_calls_is_read_and_opened(open_page: Open) -> None:
    page = open_page()
    talk_of(page, "agent:main:tools")
    expect(page.locator("#talk article.tool").last).to_be_attached()
    page.get_by_role("link", name="Tree").click()
    node = page.locator(".tree > .node:not(.raw)").first
    node.locator("summary").first.click()
    expect(node.locator(".below .node").first).to_be_visible()
    page.get_by_role("link", name="Context").click()
    expect(page.locator(".legend")).to_contain_text("summaries")


def test_a_turn_on_record_is_shown_with_what_changed_since_the_one_before(open_page: Open) -> None:
    page = open_page("/context/1")
    newest = page.get_by_role("link", name=re.compile(r"^turn \d+$")).first
    newest.click()
    expect(page.locator("h2")).to_contain_text("What turn")
    expect(page.locator("#difference")).to_contain_text("Since turn")
    page.get_by_label("Why is it not in view?").fill("msg_2")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#why")).to_contain_text("msg_2 is")
    page.get_by_role("link", name="The next call").click()
    expect(page.locator("h2")).to_contain_text("What the next call is given")


def test_new_messages_appear_while_the_page_is_open(open_page: Open, served: Served) -> None:
    page = open_page("/talk/1")
    expect(page.locator("#msg_591")).to_be_in_viewport()
    code = (
        "import sys; from lcm_plugin import Engine, LcmConfig, Session\n"
        "with Engine.open(LcmConfig(database=sys.argv[1])) as engine:\n"
        "    engine.ingest(Session('agent:replay:main'), [{'role': 'user', 'content': 'a word from another process'}])"
    )
    subprocess.run([python(), "-c", code, str(served.database)], check=True)
    expect(page.locator("#talk")).to_contain_text("a word from another process", timeout=60_000)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/talk/1",
        "/tree/1",
        "/context/1?why=msg_2",
        "/context/1?turn=12",
        "/health",
        "/search?q=poison+message",
        "/message/msg_588",
    ],
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page: Open, path: str, scheme: str) -> None:
    page = open_page(path, color_scheme=scheme)
    expect(page.locator("main")).to_be_visible()
    if path.startswith("/talk"):
        expect(page.locator("#talk article").last).to_be_in_viewport()
    assert axe(page) == "[]"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/talk/1",
        "/tree/1",
        "/context/1?why=msg_2",
        "/context/1?turn=12",
        "/health",
        "/search?q=poison+message",
        "/message/msg_588",
    ],
)
def test_a_phone_needs_no_sideways_scrolling(open_page: Open, path: str) -> None:
    page = open_page(path, width=390, height=844)
    if path.startswith("/talk"):
        expect(page.locator("#talk article").last).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_colours_follow_the_system_until_chosen(open_page: Open) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    dark, light = open_page(color_scheme="dark"), open_page(color_scheme="light")
    assert dark.evaluate(background) != light.evaluate(background)
    light.locator("#theme").click()
    light.locator("#theme").click()
    assert light.evaluate(background) == dark.evaluate(background)
    light.reload()
    assert light.evaluate(background) == dark.evaluate(background)
