"""Splits source blocks into units: the sentences and fields of which a summary is made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import add

from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.directives import is_directive

UNIT_CHARS = 280
EXPAND_PREFIX = "Expand for details about:"
_PACK_CHARS = 160
# It opens with one set of characters, so that the engine skips what cannot end a sentence.
_SENTENCE_END = re.compile(r"([.!?…;。！？；\n\r\v\f\x1c-\x1e\x85\u2028\u2029](?:(?<![.!?…;])|[\"')\]]?\s+))")
_JSON_BREAK = re.compile(r"[{}\[\]]+")
_JSON_FIELD = re.compile(r",\s+(?=\")|,(?=\")")
_JSON_NOISE = str.maketrans({'"': None})
_ESCAPES = (("\\n", "\n"), ("\\t", " "), ('\\"', "'"), ('":"', '": "'))
_SUMMARY_LINE = re.compile(
    r"(?:\[(?:(?P<date>\d{4,5}-\d\d-\d\d) ?)?(?P<time>\d\d:\d\d)?\] )?"
    r"(?:(?P<who>(?:user|assistant|tool|function|developer|summary)(?: [^:\n]{1,80})?): )?(?P<text>.*)"
)
_LIST_MARK = re.compile(r"\d{1,3}[.)]")
_LIST_MARK_CHARS = 4
_QUOTE = re.compile(r"^\s*(?:>|&gt;)")
# A host's own word for its loop, which also stands right behind a sentence: Thank you!###STOP###
_CONTROL_WORD = re.compile(r"#{2,}[A-Z_]+#{2,}")


@dataclass(frozen=True, slots=True)
class Passage:
    """What units have in common that follow each other: the block they are from, and who said it when (for a summary's
    lines).

    ``is_message``: all of a message. ``index``: an earlier summary's list of what it left out, which is named again and
    never kept as a sentence.
    """

    block: int
    role: str
    who: str
    line: tuple[int, str]
    date: str = ""
    time: str = ""
    is_message: bool = False
    index: bool = False

    @property
    def is_personal(self) -> bool:
        """Whether somebody who is named says it."""
        return self.role in ("user", "assistant") and " " in self.who


def units(blocks: Sequence[SourceBlock]) -> list[str]:
    """The texts of all units of the blocks in order, without untrusted directives."""
    return [text for _, texts in passages(blocks) for text in texts]


def passages(blocks: Sequence[SourceBlock]) -> Iterator[tuple[Passage, list[str]]]:
    """The passages of the blocks in order, each with the texts of its units."""
    for index, block in enumerate(blocks):
        if block.role != "system":
            yield from _of_block(block, index)


def whole_texts(blocks: Sequence[SourceBlock]) -> list[str]:
    """The texts of the blocks, uncut where nothing in them must be left out: for who looks for words, not for units."""
    # One look at all of them: hardly any talk has a directive.
    ordering = is_directive("\n".join([block.text for block in blocks if _needs_a_look(block)]))
    texts: list[str] = []
    for index, block in enumerate(blocks):
        if block.role == "system":
            continue
        if block.role == "summary" or (ordering and _may_order(block)):
            texts += [piece for _, found in _of_block(block, index) for piece in found]
        else:
            texts.append(_unescaped(block.text) if _is_record(block.text) else block.text)
    return texts


def speaker(block: SourceBlock) -> str:
    """Who a block is from, for a line's head: ``user Ann``, ``tool search``, ``assistant``."""
    name = " ".join((block.tool or block.sender).replace(":", " ").split())[:60]
    return f"{block.role} {name}" if name and name != block.role else block.role


def _of_block(block: SourceBlock, index: int) -> Iterator[tuple[Passage, list[str]]]:
    if block.role == "summary":
        yield from _of_summary(block, index)
    else:
        yield _of_message(block, index)


def _is_untrusted(block: SourceBlock) -> bool:
    return block.role not in ("user", "assistant")


def _needs_a_look(block: SourceBlock) -> bool:
    return _is_untrusted(block) or ">" in block.text


def _may_order(block: SourceBlock) -> bool:
    """Whether a message has a directive that its reader must not take for its own."""
    return _needs_a_look(block) and is_directive(block.text)


def _of_message(block: SourceBlock, index: int) -> tuple[Passage, list[str]]:
    text = block.text
    untrusted = _is_untrusted(block)
    who = speaker(block)
    if not untrusted and "##" in text:
        text = _CONTROL_WORD.sub(" ", text)
    found = _pieces(text)
    if _may_order(block):
        found = [piece for piece in found if not ((untrusted or _QUOTE.match(piece)) and is_directive(piece))]
    return Passage(index, block.role, who, (index, who), is_message=True), found


def _of_summary(block: SourceBlock, index: int) -> Iterator[tuple[Passage, list[str]]]:
    """Lines of an earlier summary; those this package wrote carry their own time and speaker."""
    date = time = ""
    who = role = "summary"
    text = block.text
    suspicious = is_directive(text)
    for line in text.splitlines():
        if line.startswith(EXPAND_PREFIX):
            terms = line.removeprefix(EXPAND_PREFIX).strip()
            if terms:
                yield Passage(index, "index", "", (index, ""), index=True), [terms]
            continue
        head = _SUMMARY_LINE.fullmatch(line)
        if head:
            date, time = head["date"] or date, head["time"] or time
            who = head["who"] or "summary"
            role = who.split(" ", 1)[0]
            line = head["text"]
        found = _pieces(line)
        if suspicious and role != "user":
            found = [piece for piece in found if not is_directive(piece)]
        yield Passage(index, role, who, (index, who), date, time), found


def _pieces(text: str) -> list[str]:
    if _is_record(text):
        return list(_fields(text))
    sentences = _sentences(text)
    if "  " in text or "\t" in text:
        sentences = [" ".join(one.split()) if "  " in one or "\t" in one else one for one in sentences]
    lengths = list(map(len, sentences))
    if lengths and min(lengths) > _LIST_MARK_CHARS and max(lengths) <= UNIT_CHARS:
        return sentences
    found: list[str] = []
    for sentence in sentences:
        length = len(sentence)
        if _LIST_MARK_CHARS < length <= UNIT_CHARS:
            found.append(sentence)
        elif length <= _LIST_MARK_CHARS:
            if (length > 1 or sentence.isalnum()) and not _LIST_MARK.fullmatch(sentence):
                found.append(sentence)
        elif sentence.count('"') >= 8:
            found += _fields(sentence)
        else:
            found += _wrapped(sentence)
    return found


def _is_record(text: str) -> bool:
    """Whether a text is JSON or looks like it."""
    return text.lstrip()[:1] in ("{", "[") and '"' in text


def _sentences(text: str) -> list[str]:
    """The text cut after each line and each sentence, without empty pieces."""
    parts = _SENTENCE_END.split(text)
    ends = [*parts[1::2], ""]
    return list(filter(None, map(str.strip, map(add, parts[::2], ends))))


def _fields(text: str) -> Iterator[str]:
    """JSON-like text, whole or cut off: a record's scalar fields, packed into short lines."""
    for record in _JSON_BREAK.split(_unescaped(text)):
        if len(record) < 2:
            continue
        if len(record) > _PACK_CHARS:
            yield from _packed(_JSON_FIELD.split(record))
            continue
        flat = " ".join(record.translate(_JSON_NOISE).split()).strip(" ,:")
        if flat:
            yield flat


def _unescaped(text: str) -> str:
    for old, new in _ESCAPES:
        if old in text:
            text = text.replace(old, new)
    return text


def _packed(fields: list[str]) -> Iterator[str]:
    line = ""
    for field in fields:
        flat = " ".join(field.translate(_JSON_NOISE).split()).strip(" ,:")
        if not flat:
            continue
        if line and len(line) + len(flat) > _PACK_CHARS:
            yield line
            line = ""
        if len(flat) > UNIT_CHARS:
            for sentence in _sentences(flat):
                yield from _wrapped(sentence)
        else:
            line = f"{line}, {flat}" if line else flat
    if line:
        yield line


def _wrapped(text: str) -> Iterator[str]:
    """A text without sentence ends, cut at clause or word boundaries, hard only where there are none."""
    start = 0
    while len(text) - start > UNIT_CHARS:
        cut = max(text.rfind(mark, start + UNIT_CHARS // 2, start + UNIT_CHARS) for mark in " ,，、\t")
        end = cut + 1 if cut > 0 else start + UNIT_CHARS
        yield text[start:end].strip()
        start = end
    rest = text[start:].strip()
    if rest:
        yield rest
