"""XML elements, HTML and Markdown outlines.

XML goes through expat in bounded blocks; a document that declares entities is refused before any is
expanded. HTML is read with linear-time expressions, since a parser's recovery can be quadratic.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from xml.parsers import expat

import re2

from lcm_plugin.files.explore.base import FileOutline, TextSample, listed, one_line
from lcm_plugin.text import plural

_XML_CHARS = 2 << 20
_HTML_CHARS = 1 << 20
_MAX_TAGS = 400


class _EntityDeclared(Exception):
    pass


class _Elements:
    """Counts elements by name, with attributes, children and a text sample each."""

    def __init__(self) -> None:
        self.root = ""
        self.depth = self.deepest = 0
        self.counts: Counter[str] = Counter()
        self.attributes: dict[str, dict[str, None]] = {}
        self.samples: dict[str, str] = {}
        self._open: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.root = self.root or tag
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        if self.depth <= 64:
            self._open.append(tag)
        if tag in self.counts or len(self.counts) < _MAX_TAGS:
            self.counts[tag] += 1
            names = self.attributes.setdefault(tag, {})
            for name in list(attributes)[:20]:
                if len(names) < 20:
                    names[name] = None

    def end(self, _tag: str) -> None:
        if self.depth <= 64:
            self._open.pop()
        self.depth -= 1

    def text(self, text: str) -> None:
        if (
            self._open
            and text.strip()
            and len(self.samples.get(self._open[-1], "")) < 60
            and self._open[-1] in self.counts
        ):
            self.samples[self._open[-1]] = self.samples.get(self._open[-1], "") + text[:60]


def explore_xml(sample: TextSample) -> FileOutline | None:
    """An XML document: root, elements with counts, attributes and samples."""
    elements = _Elements()
    parser = expat.ParserCreate(encoding="utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = elements.start
    parser.EndElementHandler = elements.end
    parser.CharacterDataHandler = elements.text
    parser.EntityDeclHandler = _refuse_entity
    text = sample.head[:_XML_CHARS].lstrip("\ufeff \t\r\n")
    complete = sample.whole and len(sample.head) <= _XML_CHARS
    note = "" if complete else f" in the first {len(text):,} characters"
    cut = False
    try:
        # The declaration may name another encoding than the UTF-8 that is fed.
        parser.Parse(text.encode(), complete)
    except _EntityDeclared:
        return FileOutline(
            "xml",
            "application/xml",
            ["XML that declares entities; not expanded.", f"Begins: {one_line(text, 300)}"],
        )
    except expat.ExpatError as error:
        cut = error.code in _ENDS_EARLY
        note = f", not well-formed from line {error.lineno}" if not cut else ", cut off before its end"
    if not elements.root:
        return None
    lines = [
        f"XML document: root {elements.root}, {plural(sum(elements.counts.values()), 'element')}{note}, "
        f"depth {elements.deepest}."
    ]
    for tag, count in elements.counts.most_common(30):
        names = elements.attributes.get(tag, {})
        shown = f" [{listed(names, 8)}]" if names else ""
        text = f": {one_line(elements.samples[tag], 50)}" if tag in elements.samples else ""
        lines.append(f"- {one_line(tag, 60)} x{count:,}{shown}{text}")
    return FileOutline(
        "svg" if elements.root == "svg" else "xml",
        "image/svg+xml" if elements.root == "svg" else "application/xml",
        lines,
        cut,
    )


_ENDS_EARLY = {
    expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS],
    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN],
    expat.errors.codes[expat.errors.XML_ERROR_PARTIAL_CHAR],
}


def _refuse_entity(*_declaration: object) -> None:
    raise _EntityDeclared


_TITLE = re2.compile(r"(?is)<title[^>]{0,200}>([^<]{0,400})")
_HEADING = re2.compile(r"(?is)<h([1-6])(?:\s[^>]{0,400})?>(.{0,400}?)</h[1-6]\s*>")
_TAG = re2.compile(r"(?s)<[^>]{0,1000}>")
_OPENING = re2.compile(r"(?i)<(a|img|table|form|script|li|p|input|video|iframe)[\s>]")
_HIDDEN = re2.compile(r"(?is)<(?:script|style)[\s>].*?</(?:script|style)\s*>|<!--.*?-->")
_HTML_START = re.compile(
    r"\s{0,200}(?:<!--.{0,2000}?-->\s{0,200})?<(?:!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_NOUNS = {
    "a": "link",
    "img": "image",
    "table": "table",
    "form": "form",
    "script": "script",
    "li": "list item",
    "p": "paragraph",
}


def looks_like_html(sample: TextSample) -> bool:
    """Whether a text starts as an HTML page."""
    return bool(_HTML_START.match(sample.head[:4_096]))


def explore_html(sample: TextSample) -> FileOutline | None:
    """An HTML page: title, headings, counts of elements, and the beginning of its text."""
    text = sample.head[:_HTML_CHARS]
    title = _TITLE.search(text)
    counts = Counter(match.group(1).lower() for match in _OPENING.finditer(text))
    headings = [(int(match.group(1)), _plain(match.group(2))) for match in _HEADING.finditer(text)]
    lines = [f"HTML page{': ' + _plain(title.group(1)) if title else ''}."]
    parts = [plural(counts[tag], noun) for tag, noun in _NOUNS.items() if counts[tag]]
    lines += [f"Holds {', '.join(parts)}."] if parts else []
    lines += [
        f"{'  ' * (level - 1)}- {one_line(heading, 100)}" for level, heading in headings[:60] if heading
    ]
    body = one_line(html.unescape(_TAG.sub(" ", _HIDDEN.sub(" ", text[:200_000]))), 400)
    return FileOutline("html", "text/html", [*lines, f"Text begins: {body}"])


def _plain(markup: str) -> str:
    return one_line(html.unescape(_TAG.sub(" ", markup)), 200)


_MARKDOWN_HEADING = re.compile(r"(#{1,6})[ \t]+(.{1,400})")
_FENCE = re.compile(r"[ \t]{0,3}(```|~~~)")
_LINK = re.compile(r"\]\(([^()\s]{1,400})\)")


def looks_like_markdown(sample: TextSample) -> bool:
    """Whether a text has headings beside other Markdown, or headings that nest."""
    text = sample.head[:262_144]
    headings = _headings(text)
    others = (
        bool(_FENCE.search(text))
        + bool(_LINK.search(text))
        + ("\n- " in text or "\n* " in text)
        + ("\n|" in text)
    )
    levels = {level for level, _, _ in headings}
    return len(headings) >= 2 and (others > 0 or len(levels) > 1)


def explore_markdown(sample: TextSample) -> FileOutline | None:
    """A Markdown text: its headings with line numbers, counts of other elements, its beginning."""
    headings = _headings(sample.head)
    fences = sum(1 for line in sample.head.split("\n") if _FENCE.match(line)) // 2
    links = len(_LINK.findall(sample.head))
    first = next((line for line in sample.head.split("\n") if line.strip() and not line.startswith("#")), "")
    parts = [plural(len(headings), "heading"), plural(fences, "code block"), plural(links, "link")]
    lines = [f"Markdown text: {', '.join(parts)}.", f"Begins: {one_line(first, 200)}"]
    top = [heading for heading in headings if heading[0] <= 2] if len(headings) > 30 else headings
    lines += [
        f"{'  ' * (level - 1)}- {one_line(title, 80)} (line {line:,})" for level, title, line in top[:60]
    ]
    return FileOutline("markdown", "text/markdown", lines)


def _headings(text: str) -> list[tuple[int, str, int]]:
    """Level, title and line of every heading outside code blocks."""
    found, fence = [], ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = _FENCE.match(line)
        if mark:
            fence = "" if fence == mark.group(1) else fence or mark.group(1)
        elif not fence and line.startswith("#") and (match := _MARKDOWN_HEADING.match(line)):
            found.append((len(match.group(1)), match.group(2).strip(" #\t\r"), number))
    return found
