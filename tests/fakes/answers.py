"""What the fake model says when no script tells it: only what it can see in the request.

Words of the newest user message that it obeys:
``CALL name {json}``    calls that tool, when it is offered, and then says what it returned;
``RECALL term``         says the sentence "… term is …." word for word when a message of the request has it;
                        else searches with ``lcm_grep``, when offered, and answers from the result.
A request to summarise gets a short text made of the request's own words.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from typing import TYPE_CHECKING

from fakes.validity import text_of

if TYPE_CHECKING:
    from fakes.model_server import ModelRequest, Outcome

_CALL = re.compile(r"^CALL (\w+) (\{.*\})\s*$", re.MULTILINE)
_RECALL = re.compile(r"RECALL ([\w-]+)")
UNKNOWN = "I do not know"


def from_view(request: ModelRequest) -> Outcome | str:
    """An answer that uses nothing but the request."""
    if is_summary_request(request):
        return summary_of(request.prompt)
    recall = _RECALL.search(request.prompt)
    if recall:
        return _recall(request, recall.group(1))
    call = _CALL.search(request.prompt)
    last = request.messages[-1] if request.messages else {}
    if last.get("role") == "tool":
        return f"The tool said: {text_of(last.get('content'))[:400]}"
    if call and call.group(1) in request.tools:
        return _calls(call.group(1), json.loads(call.group(2)))
    return f"Noted: {request.prompt[:80]}" if request.prompt.strip() else "Noted."


def is_summary_request(request: ModelRequest) -> bool:
    """True for a request without tools whose instructions, the start of its texts, speak of a summary."""
    opening = "\n".join(text_of(m.get("content"))[:1500] for m in request.messages[:2])
    return not request.tools and re.search(r"\bsummar(y|ise|ize)", opening, re.IGNORECASE) is not None


def summary_of(text: str, words: int = 60) -> str:
    """At most ``words`` words: the most frequent long ones, in an order that is no echo of the text."""
    found = re.findall(r"[^\W\d_]{5,}", text)
    kept = [word for word, _ in Counter(found).most_common(min(words, len(text) // 60))]
    random.Random(len(text)).shuffle(kept)
    lines = [f"They came to {' and '.join(kept[start : start + 6])}." for start in range(0, len(kept), 6)]
    return " ".join(lines) or "Little was said."


def sentence_about(term: str, text: str) -> str | None:
    """The sentence "… term is …." in the text, or None; the marks of a search hit are no part of it."""
    found = re.search(rf'[^.\n"\\]*{re.escape(term)} is [^.\n"\\]+\.', text.replace("**", ""))
    return found.group(0).strip() if found else None


def _recall(request: ModelRequest, term: str) -> Outcome | str:
    for message in reversed(request.messages):
        sentence = sentence_about(term, text_of(message.get("content")))
        if sentence is not None:
            return sentence
    last = request.messages[-1]
    if last.get("role") != "tool" and "lcm_grep" in request.tools:
        return _calls("lcm_grep", {"pattern": term})
    return f"{UNKNOWN} {term}."


def _calls(name: str, arguments: dict[str, object]) -> Outcome:
    from fakes.model_server import Calls

    return Calls((name, arguments))
