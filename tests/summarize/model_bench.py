"""Chunks to summarise, and a summariser whose model is a server on this machine."""

from __future__ import annotations

from typing import Any

from fakes.model_server import Failure, ModelServer, Outcome

from lcm_plugin.config import LcmConfig
from lcm_plugin.events import Event, EventBus
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.summarize.base import SourceBlock, SummaryDraft, SummaryTask
from lcm_plugin.summarize.summarizer import Summarizer

START = 1_715_785_200_000  # 2024-05-15 15:00 UTC
MINUTE = 60_000

_WORK = (
    (
        "user",
        "",
        "Please move the invoices of customer {n} to bucket archive-{n}; the old path /srv/in/{n} is full.",
    ),
    (
        "assistant",
        "",
        "Understood. The plan is to copy with rsync first, because a move of {n}00 files cannot be undone.",
    ),
    (
        "tool",
        "shell",
        "rsync -a /srv/in/{n} s3://archive-{n}\nsent 18{n}, skipped 3\nerror E{n}7: checksum of inv-{n}.pdf differs",
    ),
    (
        "assistant",
        "",
        "We decided to retry inv-{n}.pdf with --checksum. Result: {n}00 files moved, nothing is left in /srv/in/{n}.",
    ),
)


def block(number: int, role: str, text: str, tool: str = "", sender: str = "") -> SourceBlock:
    """One message, a minute after the one before."""
    at = START + number * MINUTE
    return SourceBlock(f"msg_{number}", role, text, at, at, sender, tool)


def work(rounds: int = 8) -> tuple[SourceBlock, ...]:
    """Rounds of a made-up job: a request, a plan, a tool's output, an outcome."""
    texts = [
        (role, tool, text.format(n=number)) for number in range(1, rounds + 1) for role, tool, text in _WORK
    ]
    return tuple(block(index, role, text, tool) for index, (role, tool, text) in enumerate(texts))


GOOD = (
    "The user asked for the invoices of customers 1 to 8 to be moved from /srv/in to the buckets archive-1 to archive-8, "
    "since the old paths were full. The assistant copied with rsync first, because a move cannot be undone. "
    "Each run reported a checksum error (E17 to E87) for one file such as inv-1.pdf; it was decided to retry "
    "those with --checksum, after which all files were moved and nothing was left.\n"
    "Expand for details about: inv-2.pdf, inv-3.pdf, s3://archive-4"
)


class Bench:
    """A summariser, its model server, and what both did."""

    def __init__(self, server: ModelServer, counter: TokenCounter) -> None:
        self.server = server
        self.events: list[Event] = []
        self._counter = counter

    def summarizer(self, **settings: Any) -> Summarizer:
        """One that calls the server as provider ``openai``, unless the settings say otherwise."""
        bus = EventBus()
        bus.subscribe(self.events.append)
        arguments = {key: settings.pop(key) for key in ("completer", "guards", "clock") if key in settings}
        values = {
            "summary_model": "small-1",
            "summary_provider": "openai",
            "summary_base_url": self.server.url,
            "summary_timeout_ms": 10_000,
        } | settings
        return Summarizer(LcmConfig(**values), self._counter, bus, **arguments)

    def names(self) -> list[str]:
        """The names of the events so far, those of the model and of summaries."""
        return [event.name for event in self.events]

    def reasons(self) -> list[str]:
        """Why texts were rejected, in order."""
        return [event.fields["reason"] for event in self.events if event.name == "summary.rejected"]

    def run(self, task: SummaryTask, *outcomes: Outcome | str, **settings: Any) -> SummaryDraft | None:
        """Summarises while the server gives these outcomes, and a 400 to any further call."""
        self.server.enqueue(*outcomes)
        self.server.default = lambda request: Failure(400, "one call too many", "unexpected_call")
        return self.summarizer(**settings).summarize(task)
