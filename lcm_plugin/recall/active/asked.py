"""What a request asks for, if it asks for anything that can be looked for."""

from __future__ import annotations

import re

from lcm_plugin.recall.query import ParsedQuery

LONG_CHARS = 600

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUESTION = re.compile(r"[^.!?\n。！？]*[?？]")
_ASKING = re.compile(
    r"\A\W*(?:(?:hey|hi|hello|ok|okay|so|and|also|please)\W+)*"
    r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?(?:remind|tell)\s+me|(?:please\s+)?(?:remind|tell)\s+me|"
    r"do\s+you\s+(?:still\s+)?(?:remember|recall|know)|(?:can|could)\s+you\s+(?:please\s+)?(?:recall|look\s+up))\b\W*",
    re.IGNORECASE,
)


def what_is_asked(text: str) -> str:
    """A request without fenced code and the words it is introduced with; of a long one only its last questions."""
    plain = _FENCED.sub(" ", text)
    if len(plain) > LONG_CHARS:
        plain = " ".join(_QUESTION.findall(plain)[-3:])[-LONG_CHARS:]
    return _ASKING.sub("", plain).strip()


def asks_enough(query: ParsedQuery) -> bool:
    """Whether there are several words to look for, or one that names a thing."""
    return len(query.units) >= 2 or any(unit.is_identifier or unit.kind == "cjk" for unit in query.units)
