"""JSON, JSON lines and YAML: keys with types, counts and samples.

Documents beyond the head are read as far as the head goes. YAML is read as events, so that an alias
is named and never expanded; without PyYAML (extra ``files``) its outermost keys are listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from lcm_plugin.files.explore.base import FileOutline, TextSample, listed, one_line
from lcm_plugin.files.explore.shape import outline, outline_records
from lcm_plugin.text import plural

_RECORDS = 2_000
_YAML_CHARS = 128 << 10
_YAML_DEPTH = 12
_YAML_KEYS = 40
_YAML_KEY = re.compile(r"""(?:- )?(?:[A-Za-z_"'][^\s:#]{0,80}|"[^"\n]{1,80}"):(?:\s|$)""")
_BLANK = " \t\r\n\ufeff"


def _integer(digits: str) -> int | float:
    # Python refuses integers of more than 4,300 digits; their size does not matter here.
    return int(digits) if len(digits) < 400 else float("inf")


_DECODER = json.JSONDecoder(parse_int=_integer)


def explore_json(sample: TextSample) -> FileOutline | None:
    """One JSON document, whole, cut off, or larger than the head."""
    text = sample.head.strip(_BLANK)
    if text[:1] not in ("{", "["):
        return None
    try:
        if sample.whole:
            value = _DECODER.decode(text)
            return FileOutline(
                "json", "application/json", [_headline(value), *_body(value)], _says_truncated(value)
            )
    except RecursionError:
        return FileOutline("json", "application/json", ["JSON, nested too deeply to outline."])
    except ValueError as error:
        if not _is_cut(error, text):
            return None
    members = list(_prefix(text))
    if not members:
        return None
    value = dict(members) if text[0] == "{" else [item for _, item in members]
    state = "larger than the part read" if not sample.whole else "cut off before its end"
    lines = [f"JSON {state}; read so far: {_headline(value)}", *_body(value)]
    return FileOutline("json", "application/json", lines, sample.whole)


def _is_cut(error: ValueError, text: str) -> bool:
    """Whether a JSON text broke at its very end rather than in the middle."""
    return isinstance(error, json.JSONDecodeError) and (
        error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated string")
    )


def _headline(value: Any) -> str:
    if isinstance(value, dict):
        return f"JSON object of {plural(len(value), 'key')}."
    return f"JSON array of {plural(len(value), 'item')}."


def _body(value: Any) -> list[str]:
    lines = list(outline(value))
    return lines[1:] if isinstance(value, dict) else lines


def _says_truncated(value: Any) -> bool:
    return isinstance(value, dict) and any(value.get(key) is True for key in ("truncated", "is_truncated"))


def _prefix(text: str) -> Iterator[tuple[str, Any]]:
    """The complete members at the start of a document that cannot be read to its end."""
    position, is_object = 1, text[0] == "{"
    for number in range(_RECORDS):
        try:
            key, position = _key(text, position) if is_object else (str(number), _skip(text, position))
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError, IndexError):
            return
        yield key, value
        position = _skip(text, position)
        if text[position : position + 1] != ",":
            return
        position += 1


def _key(text: str, position: int) -> tuple[str, int]:
    key, position = _DECODER.raw_decode(text, _skip(text, position))
    position = _skip(text, position)
    if not isinstance(key, str) or text[position] != ":":
        raise ValueError("no member")
    return key, _skip(text, position + 1)


_SPACES = re.compile(r"[ \t\r\n]*")


def _skip(text: str, position: int) -> int:
    match = _SPACES.match(text, position)
    return match.end() if match else position


def explore_jsonl(sample: TextSample) -> FileOutline | None:
    """One JSON value a line; most lines must be objects or arrays."""
    lines = sample.head.split("\n") if sample.whole else sample.head.split("\n")[:-1]
    filled = [line for line in lines if line.strip()]
    if len(filled) < 2 or filled[0].lstrip(_BLANK)[:1] not in ("{", "["):
        return None
    records, broken = [], 0
    for line in filled[:_RECORDS]:
        try:
            records.append(_DECODER.decode(line.strip(_BLANK)))
        except (ValueError, RecursionError):
            broken += 1
    nested = sum(isinstance(record, (dict, list)) for record in records)
    if nested < 2 or nested < 0.8 * (len(records) + broken):
        return None
    total = f"{len(filled):,}" if sample.whole else f"about {sample.line_count:,}"
    headline = f"JSON lines: {total} records."
    if len(filled) > _RECORDS or not sample.whole:
        headline += f" Shape of the first {len(records):,}:"
    notes = [f"{plural(broken, 'line')} of those read are not valid JSON."] if broken else []
    body = list(outline_records(records))
    last = f"Last record: {one_line((sample.tail or filled[-1]).rstrip().rpartition(chr(10))[2], 160)}"
    return FileOutline("jsonl", "application/x-ndjson", [headline, *notes, last, *body])


def looks_like_yaml(sample: TextSample) -> bool:
    """Whether most of the first lines are keys, list items or comments."""
    lines = [line for line in sample.head[:8_192].split("\n") if line.strip()][:60]
    if len(lines) < 3:
        return False
    keys = sum(bool(_YAML_KEY.match(line.strip())) for line in lines)
    other = sum(line.lstrip().startswith(("- ", "#", "---")) for line in lines)
    return keys >= 2 and keys + other >= 0.8 * len(lines)


def explore_yaml(sample: TextSample) -> FileOutline | None:
    """YAML documents, their keys and samples; None when the text is not YAML."""
    try:
        import yaml
    except ImportError:
        return _yaml_keys(sample)
    text = sample.head
    cut = len(text) > _YAML_CHARS or not sample.whole
    if cut:
        text = text[: text.rfind("\n", 0, _YAML_CHARS) + 1]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _YamlBuilder()
    problem = ""
    try:
        for event in yaml.parse(_printable(text), Loader=loader):
            builder.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = f"Not valid YAML from line {mark.line + 1}." if mark else "Not valid YAML as a whole."
    except RecursionError:
        problem = "Nested too deeply to read to its end."
    documents = builder.documents()
    nested = [value for value in documents if isinstance(value, (dict, list))]
    if not nested:
        return None
    part = f" Shape of the first {len(text):,} characters:" if cut else ""
    aliases = f" {plural(builder.aliases, 'alias')}, not expanded." if builder.aliases else ""
    head = [
        f"YAML: {plural(len(documents), 'document')}.{aliases}{part}",
        *([problem] if problem and not cut else []),
    ]
    body = list(outline_records(documents)) if len(documents) > 1 else list(outline(documents[0]))
    return FileOutline("yaml", "application/yaml", head + body)


def _yaml_keys(sample: TextSample) -> FileOutline | None:
    """What can be seen without a parser: the outermost keys of what looks like YAML."""
    if not looks_like_yaml(sample):
        return None
    found = (_YAML_KEY.match(line) for line in sample.head.split("\n"))
    keys = dict.fromkeys(match[0].strip("- :\t\r") for match in found if match)
    lines = [
        f"YAML: {plural(sample.line_count, 'line')}.",
        f"Keys: {one_line(listed(keys, _YAML_KEYS), 2_000)}",
    ]
    return FileOutline("yaml", "application/yaml", lines)


_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub(" ", text)


class _YamlBuilder:
    """Plain values from YAML events; below `_YAML_DEPTH` values become an ellipsis."""

    def __init__(self) -> None:
        self._root: list[Any] = []
        self._stack: list[Any] = []
        self._keys: list[Any] = []
        self._ignored = 0
        self.aliases = 0

    def documents(self) -> list[Any]:
        """The documents read so far, the last one perhaps in part."""
        return self._root

    def take(self, event: Any) -> None:
        """Take one event of the parser."""
        kind = type(event).__name__
        if kind in ("MappingStartEvent", "SequenceStartEvent"):
            self._start({} if kind == "MappingStartEvent" else [])
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            if self._ignored:
                self._ignored -= 1
            else:
                self._stack.pop()
                self._keys.pop()
        elif not self._ignored and kind == "ScalarEvent":
            self._add(_scalar(event.value) if event.implicit[0] else event.value)
        elif not self._ignored and kind == "AliasEvent":
            self.aliases += 1
            self._add(f"*{event.anchor}")

    def _start(self, value: Any) -> None:
        if self._ignored or len(self._stack) >= _YAML_DEPTH:
            if not self._ignored:
                self._add("…")
            self._ignored += 1
            return
        self._add(value)
        self._stack.append(value)
        self._keys.append(None)

    def _add(self, value: Any) -> None:
        holder = self._stack[-1] if self._stack else self._root
        if isinstance(holder, list):
            holder.append(value)
        elif self._keys[-1] is None:
            self._keys[-1] = str(value)[:200]
        else:
            holder[self._keys[-1]] = value
            self._keys[-1] = None


def _scalar(text: str) -> Any:
    if text in ("", "~", "null"):
        return None
    if text in ("true", "false", "True", "False"):
        return text in ("true", "True")
    try:
        return float(text) if "." in text or "e" in text.lower() else _integer(text)
    except ValueError:
        return text
