"""Runs an evaluation: each system, window and talk by itself, with a file that a broken run goes on from."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.evaluation.answering import Answerer
from lcm_plugin.evaluation.loaders.files import data_hash
from lcm_plugin.evaluation.loaders.formats import FORMATS, GENERATED
from lcm_plugin.evaluation.records import Question, Talk, words_of
from lcm_plugin.evaluation.resume import ResumeFile
from lcm_plugin.evaluation.retrieval import found_by, judge_hits
from lcm_plugin.evaluation.systems import (
    SYSTEMS,
    Baseline,
    Lcm,
    System,
    made,
    text_in,
)
from lcm_plugin.evaluation.tally import Replies, Tally
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.version import VERSION

_OPTIONS = ("talks", "messages", "questions", "model", "judge", "base_url")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. None for ``talks``, ``messages`` and ``questions`` takes all."""

    data: str
    path: Path | None
    systems: tuple[str, ...] = SYSTEMS
    windows: tuple[int, ...] = (8_000, 32_000, 128_000)
    talks: int | None = None
    messages: int | None = None
    questions: int | None = None
    seed: int = 1
    model: str = ""
    judge: str = ""
    base_url: str = ""
    seeds: int = 3
    settings: dict[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raises `InputError` for what cannot be run."""
        unknown = [name for name in self.systems if name not in SYSTEMS]
        if unknown:
            raise InputError(f"unknown system {unknown[0]!r}; there are {', '.join(SYSTEMS)}")
        if self.judge and not self.model:
            raise InputError("a judge needs answers to judge: give --model too")
        if (self.path is None) != (self.data == GENERATED):
            raise InputError(
                f"{GENERATED} makes its own data and takes no path"
                if self.data == GENERATED
                else f"{self.data} needs the path of its data"
            )
        if self.path is not None and not self.path.exists():
            raise InputError(f"{self.path}: no such file or folder")

    def load(self) -> Iterator[Talk]:
        """The talks, shortened as asked."""
        for talk in islice(FORMATS[self.data](self.path, self.seed), self.talks):
            yield talk.shortened(self.messages, self.questions)

    def provenance(self) -> dict[str, Any]:
        """What a reader needs to take the figures again: command, version, data."""
        where = "" if self.path is None else f" {self.path.name}"
        return {
            "command": f"lcm eval {self.data}{where}{self._options()}",
            "version": VERSION,
            "python": platform.python_version(),
            "data": self.data if self.path is None else self.path.name,
            "data_sha256": self._data(),
        }

    def _data(self) -> str:
        if self.path is not None:
            return data_hash(self.path)
        whole = sha256()
        for talk in self.load():
            whole.update(json.dumps([talk.messages, [one.text for one in talk.questions]]).encode())
        return whole.hexdigest()

    def _options(self) -> str:
        written = [f"--systems {','.join(self.systems)}", f"--windows {','.join(map(str, self.windows))}"]
        given = ((name, getattr(self, name)) for name in _OPTIONS)
        written += [f"--{name.replace('_', '-')} {value}" for name, value in given if value]
        if self.data == GENERATED:
            written.append(f"--seed {self.seed}")
        if self.model:
            written.append(f"--seeds {self.seeds}")
        written += [f"--set {key}={value}" for key, value in sorted(self.settings.items())]
        return "".join(f" {one}" for one in written)


@dataclass(frozen=True, slots=True)
class Row:
    """One system in one window."""

    system: str
    window: int
    tally: Tally


class Progress:
    """What is measured already, by key."""

    def __init__(self, path: Path | None, provenance: dict[str, Any]) -> None:
        self._file = ResumeFile(path, provenance)
        self._done = {entry["key"]: Tally.from_dict(entry["tally"]) for entry in self._file.entries}

    def measured(self, key: str, measure: Callable[[], Tally]) -> Tally:
        """What the file has under a key, or else what is measured now."""
        if key not in self._done:
            self._done[key] = measure()
            self._file.add({"key": key, "tally": self._done[key].as_dict()})
        return self._done[key]


def run(
    plan: Plan, resume: Path | None = None, told: Callable[[str], None] = lambda remark: None
) -> list[Row]:
    """Measures every system in every window, and returns a row for each. ``told`` takes remarks on how far it is."""
    plan.check()
    counter, progress = TokenCounter(), Progress(resume, plan.provenance())
    rows = [Row(system, window, Tally()) for window in plan.windows for system in plan.systems]
    for number, talk in enumerate(plan.load()):
        whole = [0.0]

        def cost_of_all(talk: Talk = talk, known: list[float] = whole) -> float:
            known[0] = known[0] or Baseline("full", 0, counter).play(talk).cost
            return known[0]

        for row in rows:
            told(f"{talk.name}, {row.system}, {row.window:,} tokens")
            key = f"{row.system}/{row.window}/{number}/{talk.name}"

            def measure(row: Row = row, talk: Talk = talk) -> Tally:
                return measure_talk(plan, row.system, row.window, talk, counter, cost_of_all)

            row.tally.add(progress.measured(key, measure))
    return rows


def measure_talk(
    plan: Plan, name: str, window: int, talk: Talk, counter: TokenCounter, cost_of_all: Callable[[], float]
) -> Tally:
    """The sums of one system, window and talk."""
    tally = Tally()
    answerer = Answerer(plan.model, plan.judge or plan.model, plan.base_url) if plan.model else None
    with TemporaryDirectory(prefix="lcm-eval-") as folder:
        system = made(name, window, Path(folder), counter, plan.settings)
        try:
            tally.charge(system.play(talk), cost_of_all())
            for question in talk.questions:
                _measure_question(tally, system, window, question, counter)
                for seed in range(1, plan.seeds + 1) if answerer else ():
                    with system.ask(question) as asked:
                        reply = answerer.reply(question, asked, seed) if answerer else Replies()
                    tally.replies.setdefault(str(seed), Replies()).add(reply)
        finally:
            system.close()
    return tally


def _measure_question(
    tally: Tally, system: System, window: int, question: Question, counter: TokenCounter
) -> None:
    """What stands in the context of a question, and what one call finds of the rest."""
    with system.ask(question) as asked:
        view = text_in(asked.messages)
        tally.questions += 1
        tally.context_tokens += asked.tokens
        tally.agent_tokens += asked.tokens
        tally.over_window += asked.tokens > window
        if words := words_of(question.answer):
            tally.answers += 1
            tally.answer_words += len(words & words_of(view)) / len(words)
        if not question.evidence:
            return
        in_view = all(one.text in view for one in question.evidence)
        tally.with_evidence += 1
        tally.evidence += in_view
        reached = in_view
        if isinstance(system, Lcm):
            found, answer = found_by(asked.call, question.text, system.places)
            judge_hits(tally, question, found)
            if not in_view:
                tally.calls += 1
                tally.agent_tokens += asked.tokens + counter.text(json.dumps(answer, ensure_ascii=False))
                reached = question.places <= set(found)
        tally.reached += reached


def document(rows: Sequence[Row], plan: Plan) -> dict[str, Any]:
    """The whole result as one JSON document. Each row names its version and data."""
    where = plan.provenance()
    mark = {"version": where["version"], "data_sha256": where["data_sha256"], "command": where["command"]}
    return {
        **where,
        "rows": [{"system": row.system, "window": row.window, **row.tally.figures(), **mark} for row in rows],
    }
