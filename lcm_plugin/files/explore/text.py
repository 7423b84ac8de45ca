"""Plain texts, and the marks of a host that cut one.

Only a mark that stands by itself counts: a whole line in brackets or dots, or a bracketed note that ends the text. A
sentence about truncation is just a sentence.
"""

from __future__ import annotations

import re
from collections import Counter

import re2

from lcm_plugin.files.explore.base import FileOutline, TextSample, clip, one_line
from lcm_plugin.text import plural

_WORD = re.compile(r"[^\W\d_]{4,40}")
_TERMS_CHARS = 1 << 20
_TELLING = re.compile(
    r"(?:error|failed|failure|warning|decided|decision|todo|important|note|result|total|summary|conclusion)\b",
    re.IGNORECASE,
)
_CUT = r"(?:truncat(?:ed|ion)|(?:\d[\d,.]* ?(?:more )?(?:\w+ ){0,2}(?:omitted|elided|clipped|removed|skipped|not shown)))"
_OPEN, _CLOSE = r"[\[(<]", r"[\])>]"
_DOTS = r"[.…\-=*#~ \t]*"
_LINE = re2.compile(
    rf"(?im)^{_DOTS}{_OPEN}[^\n\[\]]{{0,60}}{_CUT}[^\n\[\]]{{0,100}}{_CLOSE}{_DOTS}\r?$"
    rf"|^[ \t]*(?:\.\.\.|…|-{{2,}}|={{2,}})[ \t]*[^\n\[\]]{{0,30}}{_CUT}[^\n\[\]]{{0,60}}"
    rf"(?:\.\.\.|…|-{{2,}}|={{2,}})[ \t]*\r?$"
    rf"|^(?:\.\.\.|…)[ \t]*\(?{_CUT}\)?{_DOTS}\r?$"
)
_END = re2.compile(
    rf"(?i)(?:{_OPEN}[^\n\[\]()<>]{{0,60}}{_CUT}[^\n\[\]()<>]{{0,100}}{_CLOSE}|(?:\.\.\.|…) ?truncated)[.…\s]*$"
)


def explore_text(sample: TextSample) -> FileOutline:
    """A plain text's beginning, informative lines, frequent words and end."""
    lines = [line for line in sample.head.split("\n") if line.strip()]
    found = [f"Text: {plural(sample.line_count, 'line')}, {sample.size:,} bytes."]
    found.append(f"Begins: {one_line(sample.head, 380)}")
    end = one_line((sample.tail or sample.head).rstrip()[-280:], 280)
    if sample.size > 1_000:
        found.append(f"Ends: {end}")
    words = Counter(word.lower() for word in _WORD.findall(sample.head[:_TERMS_CHARS]))
    frequent = [
        word for word, count in sorted(words.items(), key=lambda item: (-item[1], item[0])) if count > 2
    ][:16]
    if frequent:
        found.append(f"Frequent words: {clip(', '.join(frequent), 200)}")
    informative = [
        (number, line) for number, line in enumerate(lines, 1) if _TELLING.match(line.lstrip()[:40])
    ][:8]
    found += [f"- {one_line(line, 120)}" for _, line in informative]
    return FileOutline("text", sample.mime if sample.mime.startswith("text/") else "text/plain", found)


def is_cut(head: str, tail: str) -> bool:
    """Whether the text that starts with ``head`` and ends with ``tail`` carries a mark of a cut."""
    end = (tail or head)[-400:]
    return any(bool(_LINE.search(part)) for part in (head, tail) if part) or bool(_END.search(end))
