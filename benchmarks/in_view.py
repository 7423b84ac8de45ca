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
recorded agent sessions. ``--as-chat`` asks as people do in a chat ("Can you remind me: …").

What recall quotes by itself: *quoted* is the per cent of questions with quotes, *tokens* their mean and *most* their
largest size, *lines* how many messages are quoted each time, *right* the per cent of these that are evidence, *any* the
per cent of the times when at least one is. The last table has *right* by how sure recall is of a message, for all rows
of the first table together.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from cost import POLICIES, Bill, ours, play
from cost_rules import Entry
from locomo_messages import messages
from recall import evidence_of

from lcm_plugin import Engine, LcmConfig, LcmPlugin, Session, Turn
from lcm_plugin.events import Event
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.recall.query import is_function_word
from lcm_plugin.types import Context

Message = dict[str, Any]
SESSION = Session("agent:view:main")
WINDOWS = "8000,16000,32000,128000"
_PROMPT_TOKENS = 600


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the texts of its evidence turns and the content words of its gold answer."""

    text: str
    evidence: tuple[str, ...]
    answer: frozenset[str]


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat's messages and questions."""

    messages: list[Message]
    questions: list[Question]


@dataclass(slots=True)
class Tally:
    """Sums over questions; `row` makes means of them."""

    questions: int = 0
    evidence: int = 0
    answer: float = 0.0
    answers: int = 0

    def add(self, question: Question, texts: Sequence[str]) -> None:
        """One question and the texts of the context it was asked in."""
        whole = "\n".join(texts)
        self.questions += 1
        self.evidence += all(text in whole for text in question.evidence)
        if question.answer:
            self.answer += len(question.answer & words_of(whole)) / len(question.answer)
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
        right = [(sure, any(text in quoted for text in question.evidence)) for quoted, sure in texts]
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


def load(path: Path, most_questions: int | None, as_chat: bool = False) -> Iterator[Chat]:
    """The chats of a file with the questions that can be judged, ``as_chat`` in the words of somebody in a chat."""
    for sample in json.loads(path.read_text(encoding="utf-8")):
        rows = list(messages(sample))
        places = {row["id"].rpartition("/")[2]: index for index, row in enumerate(rows)}
        questions = (
            Question(
                f"Can you remind me: {item['question']}" if as_chat else item["question"],
                tuple(rows[place]["content"] for place in sorted(evidence)),
                frozenset(words_of(str(item["answer"]))),
            )
            for item in sample["qa"]
            if item["category"] in (1, 2, 3, 4) and (evidence := evidence_of(item["evidence"], places))
        )
        found = list(questions)
        yield Chat(rows, found[:: max(1, len(found) // (most_questions or len(found)))])


def words_of(text: str) -> set[str]:
    """The content words of a text, in small letters."""
    return {word for word in re.findall(r"\w+", text.lower()) if not is_function_word(word)}


def measure(chats: Sequence[Chat], policy: str, window: int, settings: dict[str, str]) -> Row:
    """One row of the table."""
    counter = TokenCounter()
    mine, newest, quotes, bill, whole, tokens = Tally(), Tally(), Quotes(), 0.0, 0.0, 0
    for chat in chats:
        with tempfile.TemporaryDirectory(prefix="lcm-view-") as folder:
            database = Path(folder) / "talk.db"
            bill += replay(database, chat.messages, window, policy, settings)
            for question, context, passages in asked(database, chat.questions, window, policy, settings):
                texts = [str(message["content"]) for message in context.messages[:-1]]
                mine.add(question, texts)
                newest.add(question, newest_up_to(context.tokens, chat.messages, question, counter))
                tokens += context.tokens
                if context.recalled:
                    quotes.add(question, counter.message(context.messages[-2]), passages)
        whole += no_compaction(chat.messages, counter)
    mean, recall = tokens / max(1, mine.questions), settings.get("activeRecall", "on")
    return Row(policy, window, mine.row, newest.row, mean, 100 * bill / whole, recall, mine.questions, quotes)


def open_engine(database: Path, policy: str, settings: dict[str, str]) -> Engine:
    """An engine without a model on a database."""
    return Engine.open(LcmConfig.from_plugin({**settings, "contextPolicy": policy}, database=str(database)))


def replay(
    database: Path, talk: Sequence[Message], window: int, policy: str, settings: dict[str, str]
) -> float:
    """Plays a chat into a new database and returns its cost, a model's summaries in place of the extracted ones."""
    bill = Bill()

    def charge(event: Event) -> None:
        if event.name == "compaction.pass":
            bill.summary(event.fields["token_before"] + _PROMPT_TOKENS, event.fields["token_after"])

    with open_engine(database, policy, settings) as engine:
        engine.subscribe(charge)
        play(engine, SESSION, talk, window, bill)
    return bill.cost


def asked(
    database: Path, questions: Sequence[Question], window: int, policy: str, settings: dict[str, str]
) -> Iterator[tuple[Question, Context, list[tuple[str, float]]]]:
    """Each question with the context that the model call which answers it gets, and what recall quoted how surely."""
    copy = database.with_name("asked.db")
    for question in questions:
        for suffix in ("", "-wal", "-shm"):
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)
        shutil.copy(database, copy)
        with open_engine(copy, policy, settings) as engine:
            turn = Turn(SESSION, [{"role": "user", "content": question.text}], mode="append", window=window)
            context = LcmPlugin(engine=engine).before_turn(turn)
            assert context is not None
            yield question, context, quoted(engine)


def quoted(engine: Engine) -> list[tuple[str, float]]:
    """The texts that recall quoted last, with how sure it was of each."""
    with engine.store.read() as reader:
        [conversation] = reader.family(SESSION.key)
        decision = engine.active_recall.last(conversation.conversation_id)
        passages = decision.passages if decision else ()
        rows = reader.search_rows("message", [passage.row_id for passage in passages])
    return [(rows[passage.row_id].text, passage.sure) for passage in passages]


def newest_up_to(
    budget: int, talk: Sequence[Message], question: Question, counter: TokenCounter
) -> list[str]:
    """The newest messages that fit beside the question."""
    room = budget - counter.message({"role": "user", "content": question.text})
    texts: list[str] = []
    for message in reversed(talk):
        room -= counter.message(message)
        if room < 0:
            break
        texts.append(message["content"])
    return texts


def no_compaction(talk: Sequence[Message], counter: TokenCounter) -> float:
    """The bill of a chat that is sent whole every time."""
    bill, entries = Bill(), list[Entry]()
    for number, message in enumerate(talk):
        size = counter.message(message)
        if message["role"] == "assistant":
            bill.request(entries, size)
        entries.append(Entry(number, size))
    return bill.cost


def tau_bills(path: Path, windows: Sequence[int], policies: Sequence[str]) -> dict[tuple[str, int], float]:
    """The bill of recorded agent sessions, one after the other, in per cent of no compaction."""
    from cost import load as load_talk

    counter = TokenCounter()
    [talk] = load_talk(argparse.Namespace(tau=str(path), locomo=None)).values()
    whole = no_compaction(talk, counter)
    return {
        (policy, window): 100 * ours(talk, window, counter, policy).cost / whole
        for policy in POLICIES
        if policy in policies
        for window in windows
    }


def show(rows: Iterable[Row], tau: dict[tuple[str, int], float]) -> Iterator[Row]:
    """The table, a line as soon as it is measured."""
    head = f"{'policy':<10}{'window':>9}{'recall':>8}{'evidence':>10}{'newest':>8}{'answer':>8}{'newest':>8}"
    head += (
        f"{'context':>9}{'bill':>8}{'quoted':>8}{'tokens':>8}{'most':>6}{'lines':>7}{'right':>7}{'any':>6}"
    )
    print(head + (f"{'tau':>8}" if tau else ""))
    for row in rows:
        quotes = row.quotes
        times = max(1, quotes.times)
        line = (
            f"{row.policy:<10}{row.window:>9,}{row.recall:>8}{row.ours[0]:>10.1f}{row.newest[0]:>8.1f}{row.ours[1]:>8.1f}"
            f"{row.newest[1]:>8.1f}{row.context:>9,.0f}{row.bill:>7.1f}%{100 * quotes.times / max(1, row.questions):>8.1f}"
            f"{quotes.tokens / times:>8.0f}{quotes.most:>6}{len(quotes.sure) / times:>7.1f}{quotes.right:>7.1f}"
            f"{100 * quotes.any / times:>6.1f}"
        )
        cost = tau.get((row.policy, row.window))
        print(line + (f"{cost:>7.1f}%" if cost is not None else ""), flush=True)
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
    chats = list(islice(load(options.file, options.questions, options.as_chat), options.chats))
    settings = dict(item.split("=", 1) for item in options.set)
    windows = [int(window) for window in options.windows.split(",")]
    policies = options.policies.split(",")
    tau = tau_bills(options.tau, windows, policies) if options.tau else {}
    measured = (
        measure(chats, policy, window, {**settings, "activeRecall": recall})
        for policy in policies
        for window in windows
        for recall in options.recall.split(",")
    )
    rows = list(show(measured, tau))
    if any(row.quotes.times for row in rows):
        show_curve([one for row in rows for one in row.quotes.sure])
    print(f"{sum(len(chat.questions) for chat in chats)} questions, {len(chats)} chats")


if __name__ == "__main__":
    main()
