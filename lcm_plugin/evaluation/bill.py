"""What prompts cost at list-price ratios, with a provider's cache that holds the longest common prefix.

Prices per token: input 1, cache write 1.25, cache read 0.1, output 5; the model that summarises costs a fifth of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

INPUT, WRITE, READ, OUTPUT, SUMMARISER = 1.0, 1.25, 0.1, 5.0, 0.2
PROMPT_TOKENS = 600
"""What the instructions of a summary take beside its source."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a request. ``verbatim`` is false for summaries, cleared results and the system prompt.

    ``again`` marks what a tool gives again.
    """

    key: object
    tokens: int
    verbatim: bool = True
    again: bool = False


@dataclass(slots=True)
class Bill:
    """Adds up requests. ``cost`` is in prices of one input token; ``quoted`` counts the requests with quotes of recall.

    ``own`` are the verbatim tokens that no tool gives again. Of the ``needed`` words that calls were made with and that
    had been said before, ``held`` stood in the request. ``calls`` are summary calls, ``early`` those below the threshold.
    """

    previous: list[object] = field(default_factory=list)
    hits: int = 0
    misses: int = 0
    output: int = 0
    summaries: float = 0.0
    requests: int = 0
    verbatim: int = 0
    largest: int = 0
    quoted: int = 0
    own: int = 0
    needed: int = 0
    held: int = 0
    calls: int = 0
    early: int = 0

    def request(self, entries: Sequence[Entry], output: int) -> None:
        """One model call with its prompt, and what the model answered (tokens)."""
        hit = 0
        for before, now in zip(self.previous, entries, strict=False):
            if before != now.key:
                break
            hit += now.tokens
        total = sum(entry.tokens for entry in entries)
        self.hits += hit
        self.misses += total - hit
        self.output += output
        self.requests += 1
        self.largest = max(self.largest, total)
        self.verbatim += sum(entry.tokens for entry in entries if entry.verbatim)
        self.own += sum(entry.tokens for entry in entries if entry.verbatim and not entry.again)
        self.previous = [entry.key for entry in entries]

    def summary(self, source: int, text: int) -> None:
        """One call of the model that summarises (tokens in and out)."""
        self.calls += 1
        self.summaries += SUMMARISER * (source * INPUT + text * OUTPUT)

    @property
    def cost(self) -> float:
        """The whole bill."""
        return self.hits * READ + self.misses * WRITE + self.output * OUTPUT + self.summaries
