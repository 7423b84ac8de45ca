"""The exported page as its reader uses it: with a mouse, with keys alone, on a phone."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from axe import axe
from playwright.sync_api import Browser, Page, expect

Open = Callable[..., Page]


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.dataset.id ?? document.activeElement.id"))


def test_from_the_root_summary_down_to_a_message(open_page: Open) -> None:
    page = open_page()
    root = page.locator("#picture .summary").first
    expect(page.locator("#node h2")).to_have_text("What the model is given now")
    root.click()
    expect(page.locator("#node .heading h2")).to_have_text(re.compile(r"Summary of depth [1-9]"))
    steps = 0
    while page.locator("#node article").count() == 0:
        before = page.locator("#node .heading code").inner_text()
        page.locator("#node .links .link").first.click()
        expect(page.locator("#node .heading code")).not_to_have_text(before)
        steps += 1
    assert steps >= 2
    name = page.locator("#node .heading code").inner_text()
    assert name.startswith("msg_")
    expect(page.locator(f"#list-{name}")).to_be_in_viewport()
    expect(page.locator(f"#list-{name}")).to_have_class("chosen")
    assert page.locator("#path button").count() == steps + 1
    page.go_back()
    expect(page.locator("#node .heading h2")).to_have_text("Leaf summary")


def test_search_finds_messages_and_summaries_and_leads_to_them(open_page: Open) -> None:
    page = open_page()
    page.keyboard.press("/")
    page.keyboard.type("zanzibar")
    expect(page.locator("#status")).to_contain_text("2 messages and ")
    hits = page.locator("#results .hit")
    assert {text.lower() for text in hits.locator("mark").all_inner_texts()} == {"zanzibar"}
    page.locator('#results .hit[data-hit^="msg_"]').first.click()
    chosen = page.locator("#messages article.chosen")
    expect(chosen).to_contain_text("Read the zanzibar file")
    expect(chosen).to_be_in_viewport()
    expect(chosen.locator("mark")).to_have_text("zanzibar")
    page.locator("#query").click()
    expect(page.locator("#results")).to_be_visible()
    page.locator("#query").fill('"zanzibar file has"')
    expect(page.locator("#status")).to_have_text(re.compile(r"^1 message "))
    page.locator("#query").fill("nowhere to be found")
    expect(page.locator("#status")).to_have_text("Nothing found.")


def test_a_search_reaches_all_conversations_and_opens_the_other_one(open_page: Open) -> None:
    page = open_page()
    page.locator("#query").fill("old question")
    expect(page.locator("#status")).to_have_text("1 message and 0 summaries in 1 conversation")
    expect(page.locator("#results .of")).to_have_text("An old question")
    page.get_by_label("only in this conversation").check()
    expect(page.locator("#status")).to_have_text("Nothing found.")
    page.get_by_label("only in this conversation").uncheck()
    page.locator("#results .hit").click()
    expect(page.locator("#title")).to_have_text("An old question")
    expect(page.locator("#messages article.chosen")).to_be_focused()


def test_a_conversation_opens_at_its_newest_message(open_page: Open) -> None:
    page = open_page()
    expect(page.locator("#messages article").last).to_be_in_viewport()
    expect(page.locator("#messages article").last).to_contain_text("A red square.")


def test_markdown_is_rendered_without_elements_of_its_own(open_page: Open) -> None:
    page = open_page(place="#1")
    prose = page.locator("#messages article").last.locator(".prose")
    expect(prose.locator("strong")).to_have_text("old")
    expect(prose.locator("li")).to_have_count(2)
    expect(prose.locator(".heading")).to_have_text("Old")
    expect(prose).to_contain_text("<b>no element</b>")
    assert prose.locator("b, img, h1").count() == 0


def test_everything_can_be_done_with_keys(open_page: Open) -> None:
    page = open_page()
    page.locator("#picture [tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    first = focused(page)
    page.keyboard.press("ArrowRight")
    assert focused(page) != first
    page.keyboard.press("ArrowLeft")
    assert focused(page) == first
    page.keyboard.press("Enter")
    expect(page.locator("#node .heading code")).to_have_text(first)
    while not focused(page).startswith("msg_"):
        before = focused(page)
        page.keyboard.press("ArrowDown")
        assert focused(page) not in (before, "")
    page.keyboard.press("ArrowUp")
    assert focused(page).startswith("sum_")
    page.keyboard.press("ArrowDown")
    message = focused(page)
    page.keyboard.press("Enter")
    expect(page.locator("#node .heading code")).to_have_text(message)
    page.keyboard.press("Escape")
    expect(page.locator("#node .heading h2")).to_have_text("Leaf summary")
    page.keyboard.press("/")
    page.keyboard.type("harbour")
    expect(page.locator("#status")).to_contain_text("messages")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    hit = page.evaluate("document.activeElement.dataset.hit")
    page.keyboard.press("Enter")
    expect(page.locator("#node .heading code")).to_have_text(hit)
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect(page.locator("#query")).to_have_value("")
    expect(page.locator("#messages")).to_be_visible()


def test_the_list_is_walked_with_arrow_keys(open_page: Open) -> None:
    page = open_page()
    newest = page.locator("#messages article").last
    number = int((newest.get_attribute("id") or "").removeprefix("list-msg_"))
    newest.focus()
    for _ in range(60):
        page.keyboard.press("ArrowUp")
    assert focused(page) == f"list-msg_{number - 60}"
    expect(page.locator(f"#list-msg_{number - 60}")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#node .heading code")).to_have_text(f"msg_{number - 60}")


def test_what_a_message_says_is_never_run(open_page: Open) -> None:
    page = open_page("hostile")
    expect(page.locator("#title")).to_contain_text("</script><img src=x onerror=")
    for summary in page.locator("#messages details summary").all()[:6]:
        summary.click()
    page.locator("#picture .summary").first.click()
    page.keyboard.press("/")
    page.keyboard.type("<img onerror")
    expect(page.locator("#status")).to_contain_text("messages")
    page.locator("#results .hit").last.click()
    assert page.locator("img, #messages svg, #node svg").count() == 0
    # The data of the open conversation is read and gone; the general data and the page's own script are left.
    assert page.evaluate("document.scripts.length") == 2


def test_the_policy_stops_what_would_be_added(browser: Browser, pages: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(pages["talk"].as_uri())
    refused = page.evaluate(
        """() => new Promise((done) => {
            document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
            setTimeout(() => done("nothing"), 2000);
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
        })"""
    )
    assert refused == "script-src-elem"
    assert page.evaluate("window.ran === undefined")
    page.close()


def test_ten_thousand_messages_open_fast_and_scroll(open_page: Open) -> None:
    start = time.monotonic()
    page = open_page("long")
    assert time.monotonic() - start < 8
    expect(page.locator("#facts")).to_contain_text("10,000 messages")
    assert page.locator("#messages article").count() < 600
    page.locator("#picture .bucket").last.click()
    expect(page.locator("#messages article").last).to_be_attached()
    begin = time.monotonic()
    page.locator("#query").fill("note 9998")
    expect(page.locator("#status")).to_contain_text("message")
    assert time.monotonic() - begin < 4
    page.locator('#results .hit[data-hit^="msg_"]').last.click()
    expect(page.locator("#messages article.chosen")).to_be_in_viewport()
    expect(page.locator("#messages article.chosen")).to_contain_text("Note 9998")


@pytest.mark.parametrize("name", ["talk", "long", "empty", "hostile"])
def test_a_phone_needs_no_sideways_scrolling(open_page: Open, name: str) -> None:
    page = open_page(name, width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    if name == "empty":
        return
    page.get_by_role("tab", name="Messages").click()
    expect(page.locator("#messages article").first).to_be_visible()
    expect(page.locator("#node")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("#picture .summary").first.click()
    expect(page.locator("#node .heading")).to_be_visible()
    page.locator("#query").fill("note")
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_long_title_leaves_room_for_the_search(open_page: Open) -> None:
    page = open_page("hostile", width=840)
    assert page.evaluate("document.getElementById('title').scrollWidth") > 600
    expect(page.locator("#theme")).to_be_in_viewport(ratio=1)
    expect(page.locator("#node-pane")).to_be_in_viewport(ratio=0.5)


def test_colours_follow_the_system_until_chosen(open_page: Open) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    dark, light = open_page(color_scheme="dark"), open_page(color_scheme="light")
    assert dark.evaluate(background) != light.evaluate(background)
    light.get_by_role("button", name="Colours: as the system").click()
    light.get_by_role("button", name="Colours: light").click()
    assert light.evaluate(background) == dark.evaluate(background)
    light.reload()
    assert light.evaluate(background) == dark.evaluate(background)


def test_texts_can_be_read_against_their_ground(open_page: Open) -> None:
    """Contrast of WCAG AA, 4.5 to 1, for every text that is shown."""
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)
        page.locator("#picture .summary").first.click()
        weak = page.evaluate(
            """() => {
                const parse = (color) => {
                    const made = document.createElement("canvas").getContext("2d");
                    made.fillStyle = color; made.fillRect(0, 0, 1, 1);
                    return [...made.getImageData(0, 0, 1, 1).data];
                };
                const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
                    .map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
                    .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
                const ground = (element) => {
                    for (let one = element; one; one = one.parentElement) {
                        const color = parse(getComputedStyle(one).backgroundColor);
                        if (color[3] > 250) return color;
                    }
                    return [255, 255, 255, 255];
                };
                const weak = [];
                for (const element of document.querySelectorAll("body *:not(script):not(option)")) {
                    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
                    if (!own || !element.checkVisibility() || element.closest("svg title, noscript")) continue;
                    const inPicture = element.closest("svg g");
                    const back = inPicture ? parse(getComputedStyle(inPicture.querySelector("rect")).fill) : ground(element);
                    const style = getComputedStyle(element);
                    const front = parse(inPicture || element.closest("svg") ? style.fill : style.color);
                    const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
                    const ratio = (high + 0.05) / (low + 0.05);
                    if (ratio < 4.5) weak.push(`${element.tagName}.${element.getAttribute("class")} ${ratio.toFixed(2)}`);
                }
                return [...new Set(weak)];
            }"""
        )
        assert weak == [], scheme


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page: Open, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    page.locator("#picture .summary").first.click()
    expect(page.locator("#node .heading h2")).to_be_visible()
    assert axe(page) == "[]"
    page.locator("#query").fill("zanzibar")
    expect(page.locator("#results .hit").first).to_be_visible()
    assert axe(page) == "[]"
    page.get_by_role("button", name="2 conversations").click()
    expect(page.locator("#listed li")).to_have_count(2)
    assert axe(page) == "[]"


def test_one_part_of_a_group_is_reached_by_tab(open_page: Open) -> None:
    page = open_page()
    assert page.locator("#picture [tabindex='0']").count() == 1
    assert page.locator("#timeline [tabindex='0']").count() == 1
    for role in ("tree", "tablist", "tabpanel", "search", "status"):
        assert page.locator(f"[role={role}]").count() >= 1


def test_the_budget_bar_shows_the_context_by_kind(open_page: Open) -> None:
    page = open_page()
    labels = [part.get_attribute("aria-label") or "" for part in page.locator("#bar .part button").all()]
    assert any(re.match(r"\d+ messages: [\d,]+ tokens", label) for label in labels)
    assert any("of depth" in label for label in labels)
    told = sum(int(label.rpartition(": ")[2].split()[0].replace(",", "")) for label in labels)
    assert page.locator("#spent b").inner_text() == f"{told:,} tokens"
    expect(page.locator("#spent")).to_have_text(re.compile(r"tokens of [\d,]+ in the context"))


def test_the_time_line_leads_to_its_messages(open_page: Open) -> None:
    page = open_page()
    page.locator("#timeline button").last.click()
    newest = page.locator("#messages article").last
    expect(newest).to_be_in_viewport()


def test_an_address_opens_its_place_and_another_conversation(open_page: Open) -> None:
    page = open_page(place="#2/msg_9")
    expect(page.locator("#node .heading code")).to_have_text("msg_9")
    page.get_by_role("button", name="2 conversations").click()
    page.get_by_label("Narrow the list").fill("old question")
    expect(page.locator("#fitting")).to_have_text("1 conversation")
    page.get_by_role("link", name="An old question").click()
    expect(page.locator("#conversations")).to_be_hidden()
    expect(page.locator("#title")).to_have_text("An old question")
    expect(page.locator("#facts")).to_contain_text("agent:main:old")
    expect(page.locator("#messages")).to_contain_text("An old question")
    page.go_back()
    expect(page.locator("#node .heading code")).to_have_text("msg_9")


def test_a_small_picture_is_shown(open_page: Open) -> None:
    page = open_page()
    page.locator("#timeline button").last.click()
    picture = page.locator("#messages img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == 40
    assert "file_" in (picture.get_attribute("alt") or "")


def test_an_empty_conversation_has_a_page(open_page: Open) -> None:
    page = open_page("empty")
    expect(page.locator("#facts")).to_contain_text("1 message")
    expect(page.locator("#messages article")).to_contain_text("No text.")
