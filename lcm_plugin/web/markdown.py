"""Stored Markdown as HTML that shows and does nothing: no elements of its own, no pictures from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from lcm_plugin.text import harmless

_MOST_COLOURED = 10_000
_DARK = ':root[data-theme="dark"] .code'
_AUTO = ':root[data-theme="auto"] .code'


def rendered(text: str) -> Markup:
    """A message's Markdown as HTML."""
    return Markup(_parser().render(harmless(text)))


def rendered_inline(text: str) -> Markup:
    """One line of our own Markdown as HTML."""
    return Markup(_parser().renderInline(harmless(text)))


def coloured(text: str, language: str = "") -> Markup:
    """Code as HTML, in colours where its language is known and it is not too long."""
    if language and len(text) <= _MOST_COLOURED:
        try:
            lexer = get_lexer_by_name(language, stripnl=False)
        except ClassNotFound:
            pass
        else:
            return Markup(highlight(text, lexer, HtmlFormatter(nowrap=True)))
    return escape(text)


@cache
def code_style() -> str:
    """The style sheet of coloured code, light and dark."""
    light, dark = HtmlFormatter(style="friendly"), HtmlFormatter(style="github-dark")
    auto = f"@media (prefers-color-scheme: dark) {{\n{_style(dark, _AUTO)}\n}}"
    return "\n".join([_style(light, ".code"), _style(dark, _DARK), auto])


def _style(formatter: HtmlFormatter[str], within: str) -> str:
    return str(formatter.get_style_defs(within))  # type: ignore[no-untyped-call]


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("code_block", _fence)
    parser.add_render_rule("link_open", _link)
    parser.add_render_rule("heading_open", _heading)
    parser.add_render_rule("heading_close", _heading)
    return parser


def _fence(_: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    words = tokens[at].info.split()
    return f'<pre class="code" tabindex="0"><code>{coloured(tokens[at].content, words[0] if words else "")}</code></pre>\n'


def _link(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    tokens[at].attrSet("rel", "noreferrer noopener nofollow")
    tokens[at].attrSet("target", "_blank")
    return renderer.renderToken(tokens, at, options, env)


def _heading(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """A heading of a message is none of the page's."""
    if tokens[at].nesting > 0:
        tokens[at].attrSet("class", f"heading level-{tokens[at].tag[1:]}")
    tokens[at].tag = "p"
    return renderer.renderToken(tokens, at, options, env)
