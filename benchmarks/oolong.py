"""Counting over more text than a context holds: maps against one context, in the manner of OOLONG-synth.

    python benchmarks/oolong.py [--tokens 8000,32000,128000] [--noise 0.05] [--window 32000] [--labelled FILE.csv]
                                [--model NAME] [--seed 1] [--json]

OOLONG (Bertsch et al., 2025) builds windows of labelled lines, each with a date and a user, and asks for what only all
of them together say: counts, the most frequent label, comparisons over time, counts of one user. Here the lines are
made up, or come from a CSV with the columns ``text`` and ``label``; the rules are written anew after the paper.

*map*: one map labels every line, SQL answers each question. *window*: the same labels, but only of the newest lines
that fit ``--window`` tokens, which is the best that one call with a truncated context can do. The score of a number is
0.75 to the power of its error, of anything else 1 or 0. The labeller is perfect; with ``--noise`` it also errs with that
probability, and *off* is how far its counts are from what the noise predicts, in standard deviations. With ``--model`` a
real model labels, through litellm. *calls* and *tokens* are what the map cost, *agent* the tokens of the tools' answers.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.maps.source import MapSource
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.maps.records import MapRecord
from lcm_plugin.types import CompletionRequest, CompletionResult

SESSION = Session("agent:bench:main", "run-1")
FIRST_DAY = date(2025, 1, 1)
USERS = 12
PROMPT = "Which of the labels fits the text behind 'Text:' best?"
_SCORE = 0.75
_LABELLED = {
    "food": ("The {a} soup at the {b} place was too salty", "We baked {a} bread and ate it with {b} butter"),
    "travel": ("The {a} train to {b} left an hour late", "Our {b} flight had {a} seats and no window"),
    "sport": ("The {a} team lost the match in {b}", "She ran the {b} marathon in {a} shoes"),
    "weather": ("A {a} storm came over {b} in the night", "It was {a} and misty all day in {b}"),
    "music": ("The {a} band played a slow song in {b}", "He tuned the {a} violin before the {b} concert"),
    "work": ("The {a} report for the {b} office is due", "My {b} manager moved the {a} meeting"),
}
_A = (
    "red",
    "old",
    "quiet",
    "second",
    "large",
    "broken",
    "green",
    "narrow",
    "famous",
    "cheap",
    "early",
    "heavy",
)
_B = ("Lund", "Porto", "Basel", "Cork", "Riga", "Turin", "Bergen", "Ghent", "Varna", "Split", "Brno", "Graz")


@dataclass(frozen=True)
class Line:
    """One line of a window, with its label, which no model sees."""

    day: str
    user: int
    text: str
    label: str

    def __str__(self) -> str:
        return f"Date: {self.day} | User: {self.user} | Text: {self.text}"


@dataclass(frozen=True)
class Question:
    """A question: how its answer follows from the lines, and the SELECT that finds it in a map."""

    kind: str
    sql: str
    answer: Callable[[Sequence[Line]], Any]


@dataclass(frozen=True)
class Row:
    """The figures of one window and labeller."""

    tokens: int
    labeller: str
    lines: int
    map_score: float
    window_score: float
    window_lines: int
    off: float
    calls: int
    map_tokens: int
    agent_tokens: int


def main() -> None:
    """Builds the windows, runs the maps, prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", default="8000,32000,128000")
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--labelled", type=Path)
    parser.add_argument("--model", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sources = read_labelled(options.labelled) if options.labelled else None
    rows = []
    for size in map(int, options.tokens.split(",")):
        lines = make_window(size, options.seed, sources)
        if options.model:
            rows.append(measure(lines, size, options.window, options.model, None, options.seed))
            continue
        rows += [
            measure(lines, size, options.window, "", noise, options.seed) for noise in (0.0, options.noise)
        ]
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    print("| tokens | labeller | lines | map | window | of it seen | off | calls | tokens | agent |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.tokens:,} | {row.labeller} | {row.lines:,} | {row.map_score:.3f} | {row.window_score:.3f} | "
            f"{row.window_lines / row.lines:.0%} | {row.off:.1f} | {row.calls:,} | {row.map_tokens:,} | "
            f"{row.agent_tokens:,} |"
        )


def make_window(tokens: int, seed: int, sources: Sequence[tuple[str, str]] | None = None) -> list[Line]:
    """Lines of about so many tokens in the order of their days; labels are of unequal frequency."""
    random, counter = Random(f"{seed}:{tokens}"), TokenCounter()
    labels = sorted({label for _, label in sources}) if sources else list(_LABELLED)
    weights = [random.uniform(1, 4) for _ in labels]
    lines, used = list[Line](), 0
    while used < tokens:
        label = random.choices(labels, weights)[0]
        text = _text(random, label, len(lines), sources)
        day = FIRST_DAY + timedelta(days=random.randrange(365))
        line = Line(day.isoformat(), 40_000 + random.randrange(USERS), text, label)
        lines.append(line)
        used += counter.text(str(line)) + 1
    return sorted(lines, key=lambda line: line.day)


def _text(random: Random, label: str, number: int, sources: Sequence[tuple[str, str]] | None) -> str:
    if sources:
        return random.choice([text for text, own in sources if own == label])
    template = random.choice(_LABELLED[label])
    return f"{template.format(a=random.choice(_A), b=random.choice(_B))} (no. {number})."


def read_labelled(path: Path) -> list[tuple[str, str]]:
    """(text, label) pairs of a CSV."""
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def questions(lines: Sequence[Line]) -> list[Question]:
    """Every kind of question for the labels, a middle day and the two busiest users of a window."""
    labels = sorted({line.label for line in lines})
    [(user, _), (other, _)] = Counter(line.user for line in lines).most_common(2)
    middle = sorted(line.day for line in lines)[len(lines) // 2]
    asked = [
        Question(
            "most frequent",
            "SELECT label FROM answers GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1",
            lambda some: _first(Counter(line.label for line in some)),
        ),
        Question(
            "busiest month",
            "SELECT substr(item, 7, 7) FROM answers WHERE label = (SELECT label FROM answers GROUP BY 1 "
            "ORDER BY count(*) DESC, 1 LIMIT 1) GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1",
            _busiest_month,
        ),
    ]
    for label in labels:
        asked += [
            Question(
                "count",
                f"SELECT count(*) FROM answers WHERE label = '{label}'",  # noqa: S608 - labels of our own
                lambda some, label=label: sum(line.label == label for line in some),
            ),
            Question(
                "count of a user",
                f"SELECT count(*) FROM answers WHERE label = '{label}' AND item LIKE '%User: {user} |%'",  # noqa: S608
                lambda some, label=label: sum(line.label == label and line.user == user for line in some),
            ),
            Question(
                "more before than after",
                f"SELECT sum(CASE WHEN substr(item, 7, 10) < '{middle}' THEN 1 ELSE -1 END) > 0 "  # noqa: S608
                f"FROM answers WHERE label = '{label}'",
                lambda some, label=label: int(
                    sum((1 if line.day < middle else -1) for line in some if line.label == label) > 0
                ),
            ),
            Question(
                "more of one user than of another",
                f"SELECT sum((item LIKE '%User: {user} |%') - (item LIKE '%User: {other} |%')) > 0 "  # noqa: S608
                f"FROM answers WHERE label = '{label}'",
                lambda some, label=label: int(
                    sum((line.user == user) - (line.user == other) for line in some if line.label == label)
                    > 0
                ),
            ),
        ]
    return asked


def _busiest_month(lines: Sequence[Line]) -> str:
    """The month with most lines of the most frequent label."""
    label = _first(Counter(line.label for line in lines))
    return _first(Counter(line.day[:7] for line in lines if line.label == label))


def _first(counts: Counter[str]) -> str:
    """The most frequent, of equal ones the first by name."""
    return min(counts, key=lambda name: (-counts[name], name)) if counts else ""


def measure(
    lines: Sequence[Line], tokens: int, window: int, model: str, noise: float | None, seed: int
) -> Row:
    """One map over a window, and the answers to all questions by SQL and from what fits a context."""
    labels = sorted({line.label for line in lines})
    labeller = None if noise is None else _labeller(lines, labels, noise, seed)
    schema = {"type": "object", "properties": {"label": {"enum": labels}}, "required": ["label"]}
    with (
        tempfile.TemporaryDirectory(prefix="lcm-") as folder,
        Engine.open(LcmConfig(database=f"{folder}/lcm.db", maps=True), labeller) as engine,
    ):
        source = MapSource(items=[(f"line {number}", str(line)) for number, line in enumerate(lines, 1)])
        record = engine.map(SESSION, source, PROMPT, schema, model=model)
        if record.state != "done" or record.failed:
            errors = [item.error for item in engine.maps.first_items(record.map_id, "failed", 1)]
            why = record.reason or "".join(errors)
            print(f"{record.failed + record.left:,} lines have no label: {why}", file=sys.stderr)
        if not record.done:
            raise SystemExit(1)
        asked, agent = questions(lines), 0
        scores, of_window = list[float](), list[float]()
        seen = _newest(lines, window)
        for question in asked:
            truth = question.answer(lines)
            answer, size = _reduced(engine, record, question.sql)
            agent += size
            scores.append(score(answer, truth))
            of_window.append(score(question.answer(seen), truth))
        counted = dict(
            engine.maps.reduce([record], "SELECT label, count(*) FROM answers GROUP BY 1", 100).rows
        )
    off = max(
        abs(counted.get(label, 0) - mean) / max(1.0, sd)
        for label, mean, sd in _predicted(lines, labels, noise or 0.0)
    )
    name = model or ("perfect" if not noise else f"{noise:.0%} wrong")
    return Row(
        tokens,
        name,
        len(lines),
        sum(scores) / len(scores),
        sum(of_window) / len(of_window),
        len(seen),
        off,
        record.done,
        record.spent,
        agent,
    )


def _labeller(
    lines: Sequence[Line], labels: Sequence[str], noise: float, seed: int
) -> Callable[[CompletionRequest], CompletionResult]:
    known = {str(line): line.label for line in lines}

    def label(request: CompletionRequest) -> CompletionResult:
        item = str(request.messages[1]["content"]).removeprefix("<item>\n").removesuffix("\n</item>")
        random, right = Random(f"{seed}:{noise}:{item}"), known[item]
        wrong = random.random() < noise
        chosen = random.choice([one for one in labels if one != right]) if wrong else right
        return CompletionResult(json.dumps({"label": chosen}), "labeller")

    return label


def _predicted(lines: Sequence[Line], labels: Sequence[str], noise: float) -> list[tuple[str, float, float]]:
    """Each label's count as the noise predicts it, and its standard deviation."""
    counts, other = Counter(line.label for line in lines), noise / max(1, len(labels) - 1)
    found = []
    for label in labels:
        own, rest = counts[label], len(lines) - counts[label]
        variance = own * noise * (1 - noise) + rest * other * (1 - other)
        found.append((label, own * (1 - noise) + rest * other, math.sqrt(variance)))
    return found


def _newest(lines: Sequence[Line], window: int) -> list[Line]:
    counter, used, kept = TokenCounter(), 0, list[Line]()
    for line in reversed(lines):
        used += counter.text(str(line)) + 1
        if used > window:
            break
        kept.append(line)
    return kept[::-1]


def _reduced(engine: Engine, record: MapRecord, sql: str) -> tuple[Any, int]:
    """The first value of an answer, and the answer's tokens as an agent reads them."""
    answer = engine.call_tool(SESSION, "lcm_reduce", {"handles": [record.map_id], "sql": sql})
    if "error" in answer:
        raise RuntimeError(f"{sql}: {answer['error']}")
    return answer["rows"][0][0] if answer["rows"] else None, engine.count_tokens(json.dumps(answer))


def score(answer: Any, truth: Any) -> float:
    """0.75 to the power of a number's error; 1 or 0 for anything else."""
    if isinstance(truth, int) and isinstance(answer, int):
        return float(_SCORE ** abs(answer - truth))
    return float(answer == truth)


if __name__ == "__main__":
    main()
