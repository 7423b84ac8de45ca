"""How well a question, exactly as asked, finds its evidence.

    python benchmarks/recall.py PATH/locomo_dev.json [--json] [--dressed] [--long] [--semantic]
        [--gold] [--limit N]

Each chat of the file (LoCoMo's shape) is stored as a session of one database; each question of the
categories 1 to 4 that names its evidence goes as text to the public tool ``lcm_grep``. hit@k: a turn of
the evidence is among the first k messages; all@10: every one is. *after compaction* repeats it when the
chats were compacted as far as it goes. *on screen* counts the evidence that the first ten hits show
with one turn before and after.

Beside it, over the same messages in plain SQLite: content words OR-ed with Porter stems and bm25, and
the form that quotes every word and ANDs them. ``--dressed`` repeats the questions with OR between the words,
in quotes, with punctuation, in capitals. ``--long`` joins eight turns into one message, the other kind of
history that the same settings must serve. ``--semantic`` also asks with ``semanticSearch`` on, beside the vectors
alone. ``--gold`` measures something else: how often one answer of ``lcm_grep`` and of ``lcm_expand_query`` shows the
gold answer as a string.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.loaders.locomo import load
from lcm_plugin.evaluation.records import Question, Talk, whole_messages
from lcm_plugin.recall.query import is_function_word

Ranking = Callable[[Question], list[int]]
TURNS_JOINED = 8


@dataclass(frozen=True)
class Score:
    """Shares in percent, times in milliseconds."""

    name: str
    questions: int
    hit_1: float
    hit_10: float
    all_10: float
    on_screen_10: float
    median_ms: float
    p95_ms: float


def chat_of(question: Question) -> str:
    """The chat that a question is about."""
    return question.key.rpartition("/")[0]


def joined(chat: Talk, size: int = TURNS_JOINED) -> Talk:
    """The chat with every ``size`` turns of a session in one message."""
    rows: list[dict[str, Any]] = []
    where: dict[int, int] = {}
    for index, row in enumerate(chat.messages):
        text = f"{row['name']}: {row['content']}"
        if rows and rows[-1]["created_at"] == row["created_at"] and rows[-1]["turns"] < size:
            rows[-1]["content"] += f"\n{text}"
            rows[-1]["turns"] += 1
        else:
            role = "user" if len(rows) % 2 == 0 else "assistant"
            rows.append({"role": role, "content": text, "created_at": row["created_at"], "turns": 1})
        where[index] = len(rows) - 1
    questions = tuple(
        replace(q, evidence=whole_messages(rows, [where[place] for place in q.places]))
        for q in chat.questions
    )
    return Talk(chat.name, rows, questions)


def measure(name: str, questions: Sequence[Question], ranking: Ranking) -> Score:
    """The shares of questions whose evidence a ranking finds."""
    first = ten = every = screen = 0
    times = []
    for question in questions:
        started = time.perf_counter()
        places = ranking(question)[:10]
        times.append((time.perf_counter() - started) * 1000)
        shown = {place + step for place in places for step in (-1, 0, 1)}
        first += bool(places) and places[0] in question.places
        ten += not question.places.isdisjoint(places)
        every += question.places <= set(places)
        screen += not question.places.isdisjoint(shown)
    share = 100 / max(1, len(questions))
    times.sort()
    return Score(
        name,
        len(questions),
        *(round(count * share, 1) for count in (first, ten, every, screen)),
        median_ms=round(times[len(times) // 2], 2) if times else 0.0,
        p95_ms=round(times[int(len(times) * 0.95)], 2) if times else 0.0,
    )


@dataclass(frozen=True)
class Shown:
    """In which percent of the questions an answer of a tool shows the gold answer as a string, and its tokens."""

    name: str
    questions: int
    gold: float
    mean_tokens: float
    most_tokens: int


def shown(name: str, engine: Engine, questions: Sequence[Question], tool: str, argument: str) -> Shown:
    """Asks a tool each question; the first call's whole answer counts, marks of matches taken off."""
    gold, tokens = 0, []
    for question in questions:
        answer = engine.call_tool(Session(chat_of(question)), tool, {argument: question.text})
        tokens.append(engine.count_tokens(json.dumps(answer, ensure_ascii=False)))
        # The texts themselves: JSON writes a quoted title with backslashes.
        gold += plain(question.answer) in plain("\n".join(texts_in(answer)))
    share = 100 / max(1, len(questions))
    return Shown(
        name, len(questions), round(gold * share, 1), round(sum(tokens) / len(tokens), 0), max(tokens)
    )


def texts_in(value: object) -> Iterator[str]:
    """Every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts_in(one)


def ceiling(chats: Sequence[Talk]) -> Shown:
    """In which percent of the questions the gold answer stands anywhere in the chat."""
    asked = [
        plain(question.answer) in text
        for chat in chats
        for text in ["\n".join(plain(row["content"]) for row in chat.messages)]
        for question in chat.questions
    ]
    return Shown("anywhere in the chat", len(asked), round(100 * sum(asked) / len(asked), 1), 0, 0)


def plain(text: str) -> str:
    """A text for comparison: lower case, without the marks of matches."""
    return " ".join(text.replace("**", "").lower().split())


class Tool:
    """The public tool over one engine that holds all chats."""

    def __init__(self, engine: Engine, chats: Sequence[Talk], limit: int) -> None:
        self._engine = engine
        self._limit = limit
        self._places: dict[str, dict[str, int]] = {}
        for chat in chats:
            session = Session(chat.name)
            engine.ingest(session, chat.messages)
            items = engine.context_items(session)
            self._places[chat.name] = {item.id: index for index, item in enumerate(items)}

    def __call__(self, question: Question) -> list[int]:
        answer = self._engine.call_tool(
            Session(chat_of(question)), "lcm_grep", {"pattern": question.text, "limit": self._limit}
        )
        places = self._places[chat_of(question)]
        return [places[hit["id"]] for hit in answer["hits"] if hit["id"] in places]

    def by_meaning(self, question: Question) -> list[int]:
        """What the stored vectors alone find."""
        with self._engine.store.read() as reader:
            conversation = reader.find_conversation(Session(chat_of(question)))
            assert conversation is not None
            meaning = self._engine.recall.semantics.meaning(
                reader, question.text, [conversation.conversation_id], []
            )
        assert meaning is not None
        return [self._places[chat_of(question)][f"msg_{row_id}"] for row_id in meaning.nearest(10)]

    def compact(self) -> None:
        """Compacts every chat as far as it goes."""
        for name in self._places:
            self._engine.compact(Session(name), force=True)


class Plain:
    """Plain FTS5 over the same messages, one table a chat."""

    def __init__(self, chats: Sequence[Talk], expression: Callable[[str], str]) -> None:
        self._databases = {chat.name: _fts5(chat) for chat in chats}
        self._expression = expression

    def __call__(self, question: Question) -> list[int]:
        expression = self._expression(question.text)
        if not expression:
            return []
        rows = self._databases[chat_of(question)].execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT 10", (expression,)
        )
        return [row[0] for row in rows]


def _fts5(chat: Talk) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize='porter unicode61')")
    database.executemany(
        "INSERT INTO words (rowid, text) VALUES (?, ?)",
        [
            (index, f"{row['name']}: {row['content']}" if "name" in row else row["content"])
            for index, row in enumerate(chat.messages)
        ],
    )
    return database


def any_content_word(question: str) -> str:
    """The content words, OR-ed."""
    words = [word for word in re.findall(r"\w+", question.lower()) if not is_function_word(word)]
    return " OR ".join(f'"{word}"' for word in words)


def every_word(question: str) -> str:
    """Every word quoted, all required."""
    return " ".join(f'"{word}"' for word in re.findall(r"\w+", question))


def dressed(question: str) -> Iterator[tuple[str, str]]:
    """The same question as people and models also write it."""
    yield "OR between words", " OR ".join(question.split())
    yield "in quotes", f'"{question}"'
    yield "each word in quotes", " ".join(f'"{word}"' for word in question.split())
    yield "punctuated", ", ".join(question.split()) + "!?..."
    yield "capitals", question.upper()


def run_gold(arguments: argparse.Namespace) -> list[Shown]:
    """How often the gold answer is shown by one call, no model at work, after compaction."""
    chats = list(load(arguments.file))
    questions = [question for chat in chats for question in chat.questions]
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine.open(LcmConfig(database=f"{folder}/lcm.db")) as engine,
    ):
        Tool(engine, chats, arguments.limit).compact()
        return [
            ceiling(chats),
            shown("lcm_grep", engine, questions, "lcm_grep", "pattern"),
            shown("lcm_expand_query", engine, questions, "lcm_expand_query", "prompt"),
        ]


def run(arguments: argparse.Namespace) -> list[Score]:
    """All measurements, in the order in which they are printed."""
    chats = list(load(arguments.file))
    if arguments.long:
        chats = [joined(chat) for chat in chats]
    questions = [question for chat in chats for question in chat.questions]
    scores = [
        measure("AND of every word, bm25", questions, Plain(chats, every_word)),
        measure("OR of content words, porter, bm25", questions, Plain(chats, any_content_word)),
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine.open(LcmConfig(database=f"{folder}/lcm.db")) as engine,
    ):
        tool = Tool(engine, chats, arguments.limit)
        scores.append(measure("lcm_grep, as asked", questions, tool))
        if arguments.dressed:
            for name in [name for name, _ in dressed("")]:
                changed = [replace(q, text=dict(dressed(q.text))[name]) for q in questions]
                scores.append(measure(f"lcm_grep, {name}", changed, tool))
        tool.compact()
        scores.append(measure("lcm_grep, after compaction", questions, tool))
    return scores + (run_semantic(chats, questions, arguments) if arguments.semantic else [])


def run_semantic(
    chats: Sequence[Talk], questions: Sequence[Question], arguments: argparse.Namespace
) -> list[Score]:
    """The same questions with vectors, and what the vectors find without the words."""
    with tempfile.TemporaryDirectory() as folder:
        config = LcmConfig(database=f"{folder}/lcm.db", semantic_search=True, semantic_model=arguments.model)
        with Engine.open(config) as engine:
            tool = Tool(engine, chats, arguments.limit)
            started = time.process_time()
            engine.recall.catch_up(lambda: False)
            seconds = time.process_time() - started
            count = sum(len(chat.messages) for chat in chats)
            print(f"vectors of {count} messages: {seconds:.1f} s of CPU time", file=sys.stderr)
            return [
                measure("vectors alone", questions, tool.by_meaning),
                measure("lcm_grep, with vectors", questions, tool),
            ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--dressed", action="store_true", help="also ask in other forms")
    parser.add_argument("--long", action="store_true", help="join turns into long messages")
    parser.add_argument("--semantic", action="store_true", help="also with a sentence model's vectors")
    parser.add_argument("--model", default="minilm", help="the sentence model (default minilm)")
    parser.add_argument("--gold", action="store_true", help="how often one call shows the gold answer")
    parser.add_argument("--limit", type=int, default=10, help="hits per question (default 10)")
    arguments = parser.parse_args()
    if arguments.gold:
        gold = run_gold(arguments)
        if arguments.json:
            print(json.dumps([asdict(one) for one in gold], indent=1))
            return
        print(f"{'':36} {'gold %':>7} {'tokens':>7} {'most':>7}")
        for row in gold:
            print(f"{row.name:36} {row.gold:7.1f} {row.mean_tokens:7.0f} {row.most_tokens:7}")
        return
    scores = run(arguments)
    if arguments.json:
        print(json.dumps([asdict(score) for score in scores], indent=1))
        return
    print(f"{'':36} {'hit@1':>7} {'hit@10':>7} {'all@10':>7} {'screen':>7} {'ms':>8} {'p95':>8}")
    for one in scores:
        print(
            f"{one.name:36} {one.hit_1:7.1f} {one.hit_10:7.1f} {one.all_10:7.1f} {one.on_screen_10:7.1f} "
            f"{one.median_ms:8.2f} {one.p95_ms:8.2f}"
        )
    print(f"{scores[0].questions} questions")


if __name__ == "__main__":
    main()
