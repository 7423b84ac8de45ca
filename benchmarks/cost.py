"""What compaction policies cost in prompt tokens: recorded talk replayed at list-price ratios.

    python benchmarks/cost.py --tau PATH/tau_airline.jsonl --locomo PATH/locomo_dev.json [--windows 32000,128000]

Prices per token: input 1, cache write 1.25, cache read 0.1, output 5; the model that summarises costs a fifth
of that. A provider's cache holds the longest common prefix of messages with the request before. Every
assistant message is one request. *ours* is the real engine behind its hooks under each `contextPolicy`, with a model
that answers at once with as many tokens as it was asked for; the other rows are the rules alone, on the same token counts.
Policies are compared without what recall quotes by itself. ``--recall`` plays the default policy without it, with it, and
with quotes that stay before their request while it stands in the context (*carried*; they are never compacted).
*verbatim* is the mean of tokens that stand in a request word for word: cheaper is not better by itself. *own* are those
of them that no tool gives again, *needed* is the share of the words that calls were made with, and that had been said
before, which stood in the request. *calls* are summary calls, *early* those below the threshold, *quoted* is the share of
requests with quotes. ``--clearing`` plays policies with and without clearing of old results; then cost is in per cent of
the first row.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).parent))

from cost_rules import RULES

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.config import Policy
from lcm_plugin.evaluation.bill import Bill
from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.evaluation.loaders import locomo, tau
from lcm_plugin.evaluation.play import play
from lcm_plugin.messages.markup import recalled_ids_of
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.types import CompletionRequest, Context

Message = dict[str, Any]
MARK = 0.107
SHARE = 0.75
POLICIES: tuple[Policy, ...] = ("economy", "balanced", "faithful")


@dataclass(frozen=True, slots=True)
class Row:
    """One policy on one data set and window."""

    policy: str
    data: str
    window: int
    bill: Bill
    share: float
    seconds: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tau", help="tau-bench transcripts, one JSON object a line")
    parser.add_argument("--locomo", help="LoCoMo chats")
    parser.add_argument("--windows", default="32000,128000")
    parser.add_argument(
        "--recall", action="store_true", help="only the default policy, by what becomes of quotes"
    )
    parser.add_argument(
        "--clearing", action="store_true", help="only the policies, with and without clearing of old results"
    )
    parser.add_argument("--talk", help="a talk as JSON lines of messages")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--limit", type=int, help="only so many messages of each data set")
    options = parser.parse_args()
    logging.getLogger("lcm_plugin").setLevel(logging.ERROR)
    rows: list[Row] = []
    for name, talk in load(options).items():
        talk = talk[: options.limit]
        whole: Bill | None = None
        for window in map(int, options.windows.split(",")):
            for policy, bill, seconds in played(options, talk, window):
                whole = whole or bill
                rows.append(Row(policy, name, window, bill, bill.cost / whole.cost, seconds))
    if not rows:
        parser.error("give --tau or --locomo")
    show(rows)
    if not (options.recall or options.clearing):
        show_marks(rows)


def played(
    options: argparse.Namespace, talk: Sequence[Message], window: int
) -> Iterator[tuple[str, Bill, float]]:
    """The rows that were asked for."""
    if options.clearing:
        return clearing_bills(talk, window, options.policies.split(","))
    return (recall_bills if options.recall else bills)(talk, window)


def load(options: argparse.Namespace) -> dict[str, list[Message]]:
    """The data sets as one long talk each, with one system message in front."""
    found: dict[str, list[Message]] = {}
    if options.tau:
        [talk] = tau.load(Path(options.tau))
        found["tau"] = talk.messages
    if options.locomo:
        found["locomo"] = [
            {"role": row["role"], "content": row["content"]}
            for talk in locomo.load(Path(options.locomo))
            for row in talk.messages
        ]
    if options.talk:
        found[Path(options.talk).stem] = [
            json.loads(line) for line in Path(options.talk).read_text().splitlines()
        ]
    return found


def bills(talk: Sequence[Message], window: int) -> Iterator[tuple[str, Bill, float]]:
    """Every policy's bill, no compaction first."""
    counter = TokenCounter()
    tokens = [counter.message(message) for message in talk]
    for name, make in RULES.items():
        bill = Bill()
        rule = make(window, bill.summary)
        for number, message in enumerate(talk):
            if message["role"] == "assistant":
                bill.request(rule.context(), tokens[number])
            rule.add(message, tokens[number])
            if number + 1 < len(talk) and talk[number + 1]["role"] == "user":
                rule.after_turn()
        if name == "floor":
            # A perfect cache: everything is written once, and read from then on.
            bill.hits, bill.misses = bill.hits + bill.misses - sum(tokens), sum(tokens)
        yield name, bill, 0.0
    for policy in POLICIES:
        started = time.perf_counter()
        bill = ours(talk, window, counter, policy)
        yield f"ours, {policy}", bill, time.perf_counter() - started


def clearing_bills(
    talk: Sequence[Message], window: int, policies: Sequence[Policy]
) -> Iterator[tuple[str, Bill, float]]:
    """Each policy's bill without clearing of old results and with it."""
    counter = TokenCounter()
    for policy in policies:
        for name, tools in (("kept", []), ("cleared", None)):
            started = time.perf_counter()
            bill = ours(talk, window, counter, policy, tools=tools)
            yield f"ours, {policy}, {name}", bill, time.perf_counter() - started


def recall_bills(talk: Sequence[Message], window: int) -> Iterator[tuple[str, Bill, float]]:
    """The default policy's bill without quotes, with those of the running turn, and with all carried along."""
    counter = TokenCounter()
    for name, recall, carried in (
        ("no quotes", "off", False),
        ("quotes", "on", False),
        ("carried", "on", True),
    ):
        started = time.perf_counter()
        bill = ours(talk, window, counter, "balanced", recall, carried)
        yield f"ours, {name}", bill, time.perf_counter() - started


def ours(
    talk: Sequence[Message],
    window: int,
    counter: TokenCounter,
    policy: Policy,
    recall: Literal["on", "off"] = "off",
    carried: bool = False,
    tools: list[str] | None = None,
) -> Bill:
    """The engine behind its hooks, with the settings that it has out of the box but for the policy and quotes."""
    bill = Bill()
    with tempfile.TemporaryDirectory(prefix="lcm-cost-") as folder:
        config = LcmConfig(
            database=str(Path(folder) / "cost.db"),
            context_policy=policy,
            active_recall=recall,
            **({} if tools is None else {"clear_results_of": tools}),
            summary_max_calls_per_window=10_000_000,
            summary_max_tokens_per_window=1_000_000_000,
        )
        with Engine.open(config, completer=Summaries(counter, bill.summary)) as engine:
            play(engine, Session("agent:cost:main"), talk, window, bill, Quotes(carried).sent)
    return bill


@dataclass(slots=True)
class Quotes:
    """What recall quoted before requests, by the request; with ``carried`` it goes on standing before them."""

    carried: bool
    before: dict[str, Message] = field(default_factory=dict)

    def sent(self, context: Context) -> list[Message]:
        """The messages of a request."""
        if not self.carried:
            return context.messages
        messages = list[Message]()
        for number, message in enumerate(context.messages):
            if is_quotes(message):
                self.before[json.dumps(context.messages[number + 1], ensure_ascii=False)] = message
            elif message["role"] == "user" and (
                kept := self.before.get(json.dumps(message, ensure_ascii=False))
            ):
                messages += [kept, message]
            else:
                messages.append(message)
        return messages


def is_quotes(message: Message) -> bool:
    """Whether a message of a context is what recall quotes."""
    return bool(recalled_ids_of(str(message.get("content"))))


class Summaries:
    """A model that answers at once with as many tokens as it was asked for."""

    def __init__(self, counter: TokenCounter, charge: Callable[[int, int], None]) -> None:
        self._counter = counter
        self._charge = charge
        self._rng = Random(1)
        self._sentences = Corpus(1).sentences()

    def __call__(self, request: CompletionRequest) -> str:
        target, text, size = request.max_tokens // 2, [], 0
        while size < target * 0.95:
            text.append(self._rng.choice(self._sentences))
            size += self._counter.text(text[-1])
        answer = " ".join(text)
        self._charge(sum(map(self._counter.message, request.messages)), self._counter.text(answer))
        return answer


def show(rows: Sequence[Row]) -> None:
    """The bills as a table."""
    print(
        f"{'policy':<34}{'data':<8}{'window':>8}{'cost':>8}{'hits':>7}{'largest':>9}{'verbatim':>10}"
        f"{'own':>9}{'needed':>8}{'calls':>7}{'early':>7}{'quoted':>8}"
    )
    for row in sorted(rows, key=lambda row: (row.data, row.window)):
        bill = row.bill
        share = bill.hits / max(1, bill.hits + bill.misses)
        print(
            f"{row.policy:<34}{row.data:<8}{row.window:>8,}{row.share:>8.1%}{share:>7.1%}{bill.largest:>9,}"
            f"{bill.verbatim // max(1, bill.requests):>10,}{bill.own // max(1, bill.requests):>9,}"
            f"{bill.held / max(1, bill.needed):>8.1%}{bill.calls:>7,}{bill.early:>7,}"
            f"{bill.quoted / max(1, bill.requests):>8.1%}"
            + (f"   {row.seconds:.0f} s" if row.seconds else "")
        )


def show_marks(rows: Sequence[Row]) -> None:
    """What holds of the marks."""
    for window in sorted({row.window for row in rows}):
        mine = [row for row in rows if row.policy == "ours, economy" and row.window == window]
        none = [row for row in rows if row.policy == "no compaction" and row.window == window]
        share = sum(row.bill.cost for row in mine) / sum(row.bill.cost for row in none)
        largest = max(row.bill.largest for row in mine)
        verdict = "holds" if share <= MARK and largest <= SHARE * window else "DOES NOT HOLD"
        print(
            f"economy, all data, window {window:,}: {share:.1%} of no compaction (mark {MARK:.1%}), largest request "
            f"{largest:,} of {SHARE * window:,.0f}: {verdict}"
        )


if __name__ == "__main__":
    main()
