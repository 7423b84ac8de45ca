"""Logs: the span of time, how many lines of each level, and the distinct errors."""

from __future__ import annotations

import re
from collections import Counter

from lcm_plugin.files.explore.base import FileOutline, TextSample, one_line
from lcm_plugin.text import plural

_TIME = re.compile(
    r"\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})?"
    r"|\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2}(?: [+-]\d{4})?"
    r"|[A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2}"
    r"|\d{2}:\d{2}:\d{2}(?:[.,]\d{1,6})?"
)
_LEVEL = re.compile(
    r"\b(TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|SEVERE|ALERT|EMERG|PANIC)\b", re.IGNORECASE
)
_LEVEL_FIELD = re.compile(r"\b(?:level|lvl|severity)[\"']?\s?[=:]\s?[\"']?(\w{4,9})", re.IGNORECASE)
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_][\w.]{0,120}\.)?[A-Z]\w{0,80}(?:Error|Exception|Warning|Fault)\b\s?[:(]"
)
_VARIABLE = re.compile(
    r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|\b[0-9a-f]{12,64}\b|\d+"
)
_LEAD = 160
_PROBE = 200
_MAX_DISTINCT = 2_000
_ORDER = (
    "PANIC", "EMERG", "ALERT", "FATAL", "CRITICAL", "SEVERE", "ERROR", "WARN", "NOTICE", "INFO", "DEBUG", "TRACE",
)  # fmt: skip
_BAD = frozenset(_ORDER[: _ORDER.index("WARN")])


def looks_like_log(sample: TextSample) -> bool:
    """Whether many lines start with a time, or with a level."""
    lines = [line for line in sample.head[:65_536].split("\n") if line.strip()][:_PROBE]
    if len(lines) < 3:
        return False
    timed = sum(bool(_TIME.search(line[:64])) for line in lines)
    levelled = sum(bool(_LEVEL.match(line.lstrip("[<(* "))) for line in lines)
    return timed >= 0.3 * len(lines) or levelled >= 0.5 * len(lines)


def explore_log(sample: TextSample) -> FileOutline | None:
    """A log's time span, levels and distinct errors, most frequent first."""
    levels: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    examples: dict[str, tuple[int, str]] = {}
    first = last = ""
    lines = sample.head.split("\n")
    for number, line in enumerate(lines, 1):
        lead = line[:_LEAD]
        moment = _TIME.search(lead)
        if moment:
            last = moment.group()
            first = first or last
        level = _level(lead)
        if level:
            levels[level] += 1
        if level in _BAD or (not level and _EXCEPTION.match(lead.lstrip())):
            form = _form(line, moment.end() if moment else 0)
            if form in examples or len(examples) < _MAX_DISTINCT:
                errors[form] += 1
                examples.setdefault(form, (number, line))
    last = _last_time(sample.tail) or last
    part = "" if sample.whole else f"; levels and errors are of the first {len(lines):,}"
    found = [f"Log: {plural(sample.line_count, 'line')}{part}."]
    if first:
        found.append(f"Time: {first} to {last}")
    if levels:
        found.append(f"Levels: {', '.join(f'{name} {levels[name]:,}' for name in _ORDER if levels[name])}")
    if errors:
        found.append(f"Errors: {sum(errors.values()):,}, {plural(len(errors), 'distinct form')}:")
    for form, count in errors.most_common(12):
        number, line = examples[form]
        found.append(f"- x{count:,}, first at line {number:,}: {one_line(line, 160)}")
    filled = [line for line in lines if line.strip()]
    found.append(f"First line: {one_line(filled[0], 120)}" if filled else "Only blank lines.")
    return FileOutline("log", "text/x-log", found)


def _level(lead: str) -> str:
    match = _LEVEL_FIELD.search(lead) or _LEVEL.search(lead)
    name = match.group(1).upper() if match else ""
    # Lower-case words such as "error" in a sentence are no level unless a field names them.
    if match and match.re is _LEVEL and not match.group(1).isupper() and not _is_bracketed(lead, match):
        return ""
    name = "WARN" if name == "WARNING" else name
    return name if name in _ORDER else ""


def _is_bracketed(lead: str, match: re.Match[str]) -> bool:
    before, after = lead[: match.start()].rstrip(), lead[match.end() :]
    return (before.endswith(("[", "<", "(", "|")) or not before) and after[:1] in ("]", ">", ")", "|", ":")


def _form(line: str, start: int) -> str:
    return _VARIABLE.sub("#", line[start : start + 240]).strip()


def _last_time(tail: str) -> str:
    moment = None
    for line in tail.rstrip().split("\n")[-50:]:
        moment = _TIME.search(line[:_LEAD]) or moment
    return moment.group() if moment else ""
