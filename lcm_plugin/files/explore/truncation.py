"""Whether a text had been cut by the host before it came here.

Only a mark that stands by itself counts: a whole line in brackets or dots, or a bracketed note that
ends the text. A sentence about truncation is just a sentence.
"""

from __future__ import annotations

import re2

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


def is_cut(head: str, tail: str) -> bool:
    """Whether the text that starts with ``head`` and ends with ``tail`` carries a mark of a cut."""
    end = (tail or head)[-400:]
    return any(bool(_LINE.search(part)) for part in (head, tail) if part) or bool(_END.search(end))
