"""Extracts the summary from a model's text: removes reasoning, envelopes, greetings and offers."""

from __future__ import annotations

import ast
import json
import re

from lcm_plugin.summarize.answers import content_text

_TAGS = "think|thinking|reasoning|thought|reflection|analysis|scratchpad"
_CLOSED = re.compile(
    rf"<({_TAGS})\b[^>]*>.*?</\1\s*>|\[({_TAGS})\].*?\[/\2\]|◁think▷.*?◁/think▷", re.S | re.I
)
_UNCLOSED = re.compile(rf"(?:<(?:{_TAGS})\b[^>]*>|\[(?:{_TAGS})\]|◁think▷).*\Z", re.S | re.I)
_ONLY_CLOSING = re.compile(rf"\A.*(?:</(?:{_TAGS})\s*>|\[/(?:{_TAGS})\]|◁/think▷)", re.S | re.I)
_HARMONY_FINAL = re.compile(r"<\|channel\|>final(?:<\|[^|]*\|>)*(.*?)(?:<\|(?:return|end|start)\|>|\Z)", re.S)
_HARMONY = re.compile(r"<\|channel\|>")
_TEMPLATE_TOKEN = re.compile(r"<\|[a-z_]+\|>|</?s>|\[/?INST\]", re.I)
_ALOUD = re.compile(
    r"(?:#+\s*|\*\*)?(?:thinking process|thought process|chain of thought|my reasoning|reasoning|analysis)(?:\*\*)?\s*:"
    r"|(?:ok(?:ay)?|alright|hmm|so)[,.]? (?:so |now )?"
    r"(?:i (?:need|have|must|should)|let(?:'|’)?s|let me|the user (?:wants|asked me|is asking)|we (?:need|have|must))\b"
    r"|(?:i|we) (?:must|need to|have to|should) (?:now )?(?:summari[sz]e|write|produce|create|condense)\b"
    r"|let me (?:think|start|analy[sz]e|read|go through|summari[sz]e)\b"
    r"|the user wants me to\b",
    re.I,
)
_FENCE = re.compile(r"```[\w-]*\n(.*?)\n?```", re.S)
_WRAPPER = re.compile(r"<(summary|answer|output|response)>(.*?)(?:</\1>|\Z)", re.S | re.I)
_PREAMBLE = re.compile(
    r"(?:(?:sure|certainly|of course|okay|ok|absolutely|got it|understood)[!,.:]?\s*)?"
    r"(?:here(?:'s| is| are)|below is|this is|the following is)\b[^\n]{0,120}:\s*\n+",
    re.I,
)
_LABEL = re.compile(
    r"(?:#+\s*|\*\*)?(?:summary|zusammenfassung|résumé|resumen|resumo|摘要|总结|要約|сводка)"
    r"(?:\*\*)?\s*[:：]?(?:\*\*)?\s*\n+"
    r"|(?:\*\*)?summary\s*:(?:\*\*)?\s*",
    re.I,
)
_OFFER = re.compile(
    r"\n+\s*(?:let me know|feel free|would you like|do you want me|shall i|if you (?:need|have|would like|want)|"
    r"is there anything|please let me know|i hope this)[^\n]*\s*\Z",
    re.I,
)


def unwrap(raw: str) -> tuple[str, bool]:
    """The summary inside a model's text, and whether reasoning was taken out of it."""
    storable = raw.encode("utf-8", "replace").decode().replace("\x00", "")
    text = _from_envelope(storable.strip())
    spoken = _without_reasoning(text)
    reasoned = spoken != text
    text = _TEMPLATE_TOKEN.sub("", spoken).strip()
    wrapper = _WRAPPER.search(text)
    if wrapper and (wrapper.start() == 0 or len(wrapper.group(2)) * 2 > len(text)):
        text = wrapper.group(2).strip()
    fence = _FENCE.fullmatch(text)
    if fence:
        text = fence.group(1).strip()
    for pattern in (_PREAMBLE, _LABEL):
        head = pattern.match(text)
        if head and head.end() < len(text):
            text = text[head.end() :].strip()
    return _OFFER.sub("", text).strip(), reasoned


def thinks_aloud(text: str) -> bool:
    """Whether a text opens as untagged reasoning."""
    return _ALOUD.match(text.lstrip("*# \n")) is not None


def _without_reasoning(text: str) -> str:
    if _HARMONY.search(text):
        final = _HARMONY_FINAL.search(text)
        return final.group(1).strip() if final else ""
    text = _CLOSED.sub("", text)
    text = _ONLY_CLOSING.sub("", text, count=1)
    return _UNCLOSED.sub("", text).strip()


def _from_envelope(text: str) -> str:
    """A text inside JSON (``{"summary": …}``) or inside a list of content parts written out."""
    if text.startswith("{"):
        try:
            value = json.loads(text)
        except ValueError:
            return text
        inner = [value.get(key) for key in ("summary", "text", "content", "output", "message")]
        found = next((item for item in inner if isinstance(item, str) and item.strip()), None)
        return found.strip() if found and "error" not in value else text
    if text.startswith(("[{'type'", '[{"type"')):
        try:
            return content_text(ast.literal_eval(text)).strip()
        except (ValueError, SyntaxError):
            return text
    return text
