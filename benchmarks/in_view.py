"""What stands in the context when a question comes, and what that costs, for each policy and window.

    python benchmarks/in_view.py PATH/locomo_dev.json [--windows 8000,32000] [--policies economy,balanced]
        [--recall on,off] [--chats N] [--questions N] [--set KEY=VALUE …] [--tau PATH/tau_airline.jsonl] [--as-chat]

Each chat (LoCoMo's shape) goes turn by turn through the hooks of the real engine; summaries are the extractive ones,
so nothing is random and no model is called. Then each question of the categories 1 to 4 comes as the newest message
of a copy of the database, as a user would ask it.

*evidence*: questions of which every evidence turn stands word for word in the context. *answer*: words of the gold
answer, without function words, that occur in it; the question itself does not count. *context*: mean tokens. The
columns named *newest* hold the same for the newest messages up to the same tokens, per question. *bill*: the chat's
requests and summaries at the prices of ``cost.py``, in per cent of no compaction. ``--set`` adds a setting to all
runs: a part of the context that a setting turns off is measured with and without it. ``--tau`` adds the bill of
recorded agent sessions and *verbatim*, the mean of tokens that stand word for word in one of their requests.
``--as-chat`` asks as people do in a chat ("Can you remind me: …").

What recall quotes by itself: *quoted* is the per cent of questions with quotes, *tokens* their mean and *most* their
largest size, *lines* how many messages are quoted each time, *right* the per cent of these that are evidence, *any* the
per cent of the times when at least one is. The last table has *right* by how sure recall is of a message, for all rows
of the first table together.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cost import POLICIES, ours

from lcm_plugin import Engine
from lcm_plugin.evaluation.loaders import locomo, tau
from lcm_plugin.evaluation.records import Question, Talk, words_of
from lcm_plugin.evaluation.systems import SESSION, Baseline, Lcm, text_in
from lcm_plugin.messages.tokens import TokenCounter

WINDOWS = "8000,16000,32000,128000"


@dataclass(slots=True)
class Tally:
    """Sums over questions; `row` makes means of them."""

    questions: int = 0
    evidence: int = 0
    answer: float = 0.0
    answers: int = 0

    def add(self, question: Question, view: str) -> None:
        """One question and the text of the context it was asked in."""
        self.questions += 1
        self.evidence += all(one.text in view for one in question.evidence)
        if words := words_of(question.answer):
            self.answer += len(words & words_of(view)) / len(words)
            self.answers += 1

    @property
    def row(self) -> tuple[float, float]:
        """Per cent of questions with their evidence, per cent of the answers' words."""
        return 100 * self.evidence / max(1, self.questions), 100 * self.answer / max(1, self.answers)


@dataclass(slots=True)
class Quotes:
    """Sums over what recall quoted by itself; ``sure`` holds for each message how sure it was, and if it is evidence."""

    times: int = 0
    tokens: int = 0
    most: int = 0
    any: int = 0
    sure: list[tuple[float, bool]] = field(default_factory=list)

    def add(self, question: Question, tokens: int, texts: Sequence[tuple[str, float]]) -> None:
        """What was quoted for a question: the tokens of the block, and each text with how sure recall was."""
        right = [(sure, any(one.text in quoted for one in question.evidence)) for quoted, sure in texts]
        self.times += 1
        self.tokens += tokens
        self.most = max(self.most, tokens)
        self.any += any(is_right for _, is_right in right)
        self.sure += right

    @property
    def right(self) -> float:
        """Per cent of the quoted messages that are evidence."""
        return 100 * sum(is_right for _, is_right in self.sure) / max(1, len(self.sure))


@dataclass(frozen=True, slots=True)
class Row:
    """One policy in one window."""

    policy: str
    window: int
    ours: tuple[float, float]
    newest: tuple[float, float]
    context: float
    bill: float
    recall: str
    questions: int
    quotes: Quotes


def as_asked(talk: Talk, most_questions: int | None, as_chat: bool = False) -> Talk:
    """A chat with about so many of its questions, ``as_chat`` in the words of somebody in a chat."""
    some = talk.shortened(None, most_questions)
    if not as_chat:
        return some
    return replace(
        some, questions=tuple(replace(one, text=f"Can you remind me: {one.text}") for one in some.questions)
    )


def measure(chats: Sequence[Talk], policy: str, window: int, settings: dict[str, str]) -> Row:
    """One row of the table."""
    counter = TokenCounter()
    mine, newest, quotes, bill, whole, tokens = Tally(), Tally(), Quotes(), 0.0, 0.0, 0
    for chat in chats:
        with tempfile.TemporaryDirectory(prefix="lcm-view-") as folder:
            system = Lcm(window, Path(folder) / "talk.db", {**settings, "contextPolicy": policy})
            bill += system.play(chat).cost
            for question in chat.questions:
                with system.ask(question) as asked:
                    mine.add(question, text_in(asked.messages))
                    # The newest messages up to the same tokens.
                    other = Baseline("truncate", asked.tokens, counter)
                    other.take(chat)
                    with other.ask(question) as without:
                        newest.add(question, text_in(without.messages))
                    tokens += asked.tokens
                    if asked.recalled:
                        quotes.add(question, counter.message(asked.messages[-2]), quoted(asked.engine))
        whole += Baseline("full", 0, counter).play(chat).cost
    mean, recall = tokens / max(1, mine.questions), settings.get("activeRecall", "on")
    return Row(policy, window, mine.row, newest.row, mean, 100 * bill / whole, recall, mine.questions, quotes)


def quoted(engine: Engine) -> list[tuple[str, float]]:
    """The texts that recall quoted last, with how sure it was of each."""
    with engine.store.read() as reader:
        [conversation] = reader.family(SESSION.key)
        decision = engine.active_recall.last(conversation.conversation_id)
        passages = decision.passages if decision else ()
        rows = reader.search_rows("message", [passage.row_id for passage in passages])
    return [(rows[passage.row_id].text, passage.sure) for passage in passages]


def tau_bills(
    path: Path, windows: Sequence[int], policies: Sequence[str]
) -> dict[tuple[str, int], tuple[float, float]]:
    """Recorded agent sessions, one after the other: the bill in per cent of no compaction, and tokens word for word."""
    counter = TokenCounter()
    [talk] = tau.load(path)
    whole = Baseline("full", 0, counter).play(talk).cost
    bills = {
        (policy, window): ours(talk.messages, window, counter, policy)
        for policy in POLICIES
        if policy in policies
        for window in windows
    }
    return {row: (100 * bill.cost / whole, bill.verbatim / bill.requests) for row, bill in bills.items()}


def show(rows: Iterable[Row], bills: dict[tuple[str, int], tuple[float, float]]) -> Iterator[Row]:
    """The table, a line as soon as it is measured."""
    head = f"{'policy':<10}{'window':>9}{'recall':>8}{'evidence':>10}{'newest':>8}{'answer':>8}{'newest':>8}"
    head += (
        f"{'context':>9}{'bill':>8}{'quoted':>8}{'tokens':>8}{'most':>6}{'lines':>7}{'right':>7}{'any':>6}"
    )
    print(head + (f"{'tau':>8}{'verbatim':>10}" if bills else ""))
    for row in rows:
        quotes = row.quotes
        times = max(1, quotes.times)
        line = (
            f"{row.policy:<10}{row.window:>9,}{row.recall:>8}{row.ours[0]:>10.1f}{row.newest[0]:>8.1f}{row.ours[1]:>8.1f}"
            f"{row.newest[1]:>8.1f}{row.context:>9,.0f}{row.bill:>7.1f}%{100 * quotes.times / max(1, row.questions):>8.1f}"
            f"{quotes.tokens / times:>8.0f}{quotes.most:>6}{len(quotes.sure) / times:>7.1f}{quotes.right:>7.1f}"
            f"{100 * quotes.any / times:>6.1f}"
        )
        cost, verbatim = bills.get((row.policy, row.window), (None, 0))
        print(line + (f"{cost:>7.1f}%{verbatim:>10,.0f}" if cost is not None else ""), flush=True)
        yield row


def show_curve(sure: Sequence[tuple[float, bool]]) -> None:
    """How many of the quoted messages are evidence, by how sure recall was of them."""
    print(f"\n{'sure':<12}{'messages':>9}{'right':>7}{'and surer':>11}")
    for low in range(9, -1, -1):
        here = [
            is_right for one, is_right in sure if low / 10 <= one < (low + 1) / 10 or (low == 9 and one >= 1)
        ]
        above = [is_right for one, is_right in sure if one >= low / 10]
        print(
            f"{low / 10:.1f} to {(low + 1) / 10:.1f}  {len(here):>9,}{100 * sum(here) / max(1, len(here)):>7.1f}"
            f"{100 * sum(above) / max(1, len(above)):>11.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--windows", default=WINDOWS)
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument(
        "--recall", default="on", help="the values of activeRecall to measure, on,off for both"
    )
    parser.add_argument("--as-chat", action="store_true", help="ask in the words of somebody in a chat")
    parser.add_argument("--chats", type=int, help="only so many chats")
    parser.add_argument("--questions", type=int, help="only about so many questions of each chat")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all runs"
    )
    parser.add_argument("--tau", type=Path, help="tau-bench transcripts, one JSON object a line")
    options = parser.parse_args()
    logging.getLogger("lcm_plugin").setLevel(logging.ERROR)
    talks = islice(locomo.load(options.file), options.chats)
    chats = [as_asked(talk, options.questions, options.as_chat) for talk in talks]
    settings = dict(item.split("=", 1) for item in options.set)
    windows = [int(window) for window in options.windows.split(",")]
    policies = options.policies.split(",")
    bills = tau_bills(options.tau, windows, policies) if options.tau else {}
    measured = (
        measure(chats, policy, window, {**settings, "activeRecall": recall})
        for policy in policies
        for window in windows
        for recall in options.recall.split(",")
    )
    rows = list(show(measured, bills))
    if any(row.quotes.times for row in rows):
        show_curve([one for row in rows for one in row.quotes.sure])
    print(f"{sum(len(chat.questions) for chat in chats)} questions, {len(chats)} chats")


if __name__ == "__main__":
    main()
