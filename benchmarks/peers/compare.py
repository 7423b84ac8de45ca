"""lcm_plugin beside its peers, in one run: the same corpus, the same questions, the same window.

    python benchmarks/peers/compare.py [--messages 3000] [--locomo FILE]
        [--hermes-lcm CHECKOUT] [--lcm-x CHECKOUT] [--hermes-python PYTHON] [--lossless-claw CHECKOUT --node NODE]

Each peer runs unchanged from a checkout of its own, in its own runtime, with its own defaults, driven as its host
drives it (see the two drivers beside this file; lcm-x grew from hermes-lcm and has its engine's interface). Left out is
what has no checkout given. CPU times are those of the process that holds the engine, of all its threads. Summaries are
returned at once by each. The recall rows ask each peer's ``lcm_grep`` the question exactly as it stands, by relevance.

The talk holds the canaries of `lcm eval canaries`, which are asked for when it is over; ``in view`` is the request of the
question. An odd input is survived when, after it and a compaction in a window of 64,000 tokens, a model could answer what
is handed over: the newest message is its last, calls have their results, and it fits. What it costs in a real Hermes:
``benchmarks/hermes_beside.py --engines compressor,balanced,CHECKOUT``.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from peer_work import WINDOW, fault, work
from recall import load

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import Completer, CompletionRequest, Context, Turn
from lcm_plugin.version import VERSION

HERE = Path(__file__).parent
Row = dict[str, Any]
Shown = list[list[list[str]]]
"""For each chat and question, the contents of the hits, best first."""


class Ours:
    """Our engine as a host of the hooks, in a folder of its own. Close it."""

    def __init__(self, folder: str, window: int, write: Completer) -> None:
        self.session = Session("agent:main:main")
        self.database = Path(folder) / "lcm.db"
        config = LcmConfig(
            database=str(self.database), summary_max_calls_per_window=1_000_000
        )  # weeks in seconds
        self._plugin = LcmPlugin(config, completer=write)
        self._window = window
        self._delta: list[Row] = []

    @property
    def engine(self) -> Engine:
        return self._plugin.engine

    def request(self, message: Row) -> Context | None:
        """What the model is called with after a message; None where a host keeps its own list."""
        self._delta.append(message)
        return self._plugin.before_turn(self._turn())

    def sent(self, text: str) -> list[Row]:
        """The request that a user's text leads to."""
        context = self.request({"role": "user", "content": text})
        return context.messages if context else []

    def answered(self, message: Row) -> None:
        """The model's answer."""
        self._delta.append(message)

    def end_turn(self) -> None:
        self._plugin.after_turn(self._turn())
        self.engine.wait_idle(60)  # a real turn lasts longer than a pass

    def take_back(self, messages: int) -> None:
        """The newest messages leave the host's list."""
        newest = self.engine.record.newest(self.session, messages, standing=True)
        self.engine.record.withdraw(self.session, [row.head.message_id for row in newest])

    def ask(self, question: str) -> str:
        """The text of the request that a question leads to."""
        return "\n".join(str(message.get("content")) for message in self.sent(question))

    def call(self, name: str, arguments: Row) -> Row:
        return self.engine.call_tool(self.session, name, arguments)

    def _turn(self) -> Turn:
        turn = Turn(self.session, self._delta, mode="append", window=self._window)
        self._delta = []
        return turn


def play(task: Row) -> Row:
    """Our own session, through the hooks, every request assembled; then the canaries are asked for."""
    sent = content = largest = 0
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(folder, task["window"], Summaries())
        began = time.process_time()
        for turn in task["turns"]:
            for message in turn["messages"]:
                sent += 1
                content += len(json.dumps(message, ensure_ascii=False).encode())
                if message["role"] == "assistant":
                    ours.answered(message)
                else:
                    context = ours.request(message)
                    largest = max(largest, context.tokens if context else 0)
            ours.end_turn()
            if turn["taken_back"]:
                ours.take_back(len(turn["messages"]))
        cpu = time.process_time() - began
        ours.call("lcm_grep", {"pattern": "anything"})  # indexes what is missing
        rows = sum(1 for _ in ours.engine.messages(ours.session))
        size = ours.database.stat().st_size
        seen = [look_at(ours, canary) for canary in task["canaries"]]
        assemble = _assemble_ms(ours.engine, ours.session)
        ours.engine.close()
        return {
            "messages": sent,
            "rows": rows,
            "cpu_ms_per_message": 1000 * cpu / sent,
            "assemble_ms": assemble,
            "largest": largest,
            "bytes_per_byte": size / content,
            "seen": seen,
        }


def look_at(ours: Ours, canary: Row) -> list[Any]:
    """As the drivers' ``look``; a hit that the answer marks as taken back is not shown as true."""
    text = ours.ask(canary["question"])
    hits = ours.call("lcm_grep", {"pattern": canary["question"], "limit": 10})["hits"]
    found = json.dumps([hit for hit in hits if not hit.get("taken_back")], ensure_ascii=False).replace(
        "**", ""
    )
    words = (canary["right"], canary["wrong"])
    return [
        *(text.rfind(one) if one else -1 for one in words),
        *(bool(one) and one in found for one in words),
    ]


def odd(task: Row) -> Row:
    """As the drivers' ``odd``."""
    faults: dict[str, Completer] = {"summaries are empty": lambda _: "", "the summary model fails": _fail}
    found: Row = {}
    for name, messages in task["odd"].items():
        with tempfile.TemporaryDirectory() as folder:
            ours = Ours(folder, task["small_window"], faults.get(name, Summaries()))
            for message in (*messages, *task["filling"]):
                if message["role"] == "assistant":
                    ours.answered(message)
                    ours.end_turn()
                else:
                    ours.request(message)
            found[name] = ours.sent(task["newest"])
            ours.engine.close()
    return found


def _fail(_: CompletionRequest) -> str:
    raise RuntimeError("no model")


class Summaries:
    """Answers at once with some 1,200 tokens of the corpus, other ones each time."""

    def __init__(self) -> None:
        self._rng = Random(1)
        self._sentences = Corpus(1).sentences()

    def __call__(self, request: CompletionRequest) -> str:
        return " ".join(self._rng.choices(self._sentences, k=70))


def _assemble_ms(engine: Engine, session: Session) -> float:
    """Milliseconds of a context after one more message, median of 50."""
    times = []
    for number in range(50):
        engine.ingest(session, [{"role": "user", "content": f"And number {number}?"}], mode="append")
        began = time.process_time()
        engine.assemble(session, WINDOW)
        times.append(1000 * (time.process_time() - began))
    return sorted(times)[25]


def ask(chats: list[Any]) -> Shown:
    """What our ``lcm_grep`` shows for each question."""
    shown = []
    for chat in chats:
        with (
            tempfile.TemporaryDirectory() as folder,
            Engine.open(LcmConfig(database=f"{folder}/lcm.db")) as engine,
        ):
            session = Session(f"agent:{chat.name}:main")
            engine.ingest(session, chat.messages)
            texts = [message["content"] for message in chat.messages]
            by_id = dict(zip((f"msg_{n}" for n in range(1, len(texts) + 1)), texts, strict=True))
            answers = []
            for question in chat.questions:
                arguments = {"pattern": question.text, "scope": "messages", "limit": 10}
                hits = engine.call_tool(session, "lcm_grep", arguments)["hits"]
                answers.append([by_id[hit["id"]] for hit in hits])
            shown.append(answers)
    return shown


def judge(chats: list[Any], shown: Shown) -> Row:
    """hit@1, hit@10 and all-evidence@10 in per cent."""
    first = ten = every = asked = 0
    for chat, answers in zip(chats, shown, strict=True):
        for question, contents in zip(chat.questions, answers, strict=True):
            wanted = {chat.messages[place]["content"] for place in question.places}
            asked += 1
            first += contents[:1] != [] and contents[0] in wanted
            ten += bool(wanted & set(contents))
            every += wanted <= set(contents)
    return {
        "questions": asked,
        "hit@1": 100 * first / asked,
        "hit@10": 100 * ten / asked,
        "all@10": 100 * every / asked,
    }


def canaries(task: Row, seen: list[list[Any]]) -> Row:
    """How many of each kind stand in the request that asks for them, are shown by one search, and are mistaken."""
    found = Counter[str]()
    for canary, (right, wrong, hit, wrong_hit) in zip(task["canaries"], seen, strict=True):
        kind = canary["kind"]
        found[f"{kind}: asked"] += 1
        if kind == "taken back":
            found[f"{kind}: in the context as if true"] += wrong >= 0
            found[f"{kind}: in the search as if true"] += wrong_hit
            continue
        found[f"{kind}: in view"] += right >= 0
        found[f"{kind}: or by one search"] += right >= 0 or hit
        if canary["wrong"]:
            found[f"{kind}: older one alone or last"] += wrong > right
    return dict(found)


def survived(sent: Row) -> Row:
    """How many odd inputs an engine got over, and what went wrong with the others."""
    faults = {name: said for name, messages in sent.items() if (said := fault(messages))}
    return {"odd inputs": len(sent), "survived": len(sent) - len(faults), "not": faults}


def version_of(checkout: str) -> str:
    """The folder's name and the version that its own files give."""
    folder = Path(checkout).resolve()
    said = (
        file.read_text(encoding="utf-8")
        for name in ("plugin.yaml", "package.json")
        if (file := folder / name).exists()
    )
    found = next((re.search(r'"?version"?: "?([\w.-]+)', text) for text in said), None)
    return f"{folder.name} {found[1] if found else ''}".strip()


def _run(command: list[Any], folder: str | None = None) -> Row:
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command[1]} failed:\n{done.stderr[-2000:]}")
    answer: Row = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=3000)
    parser.add_argument("--locomo", type=Path)
    parser.add_argument("--hermes-lcm")
    parser.add_argument("--lcm-x")
    parser.add_argument("--hermes-python", default=sys.executable)
    parser.add_argument("--lossless-claw")
    parser.add_argument("--node", default="node")
    arguments = parser.parse_args()
    chats = list(load(arguments.locomo)) if arguments.locomo else []
    task = work(
        arguments.messages,
        [{"messages": chat.messages, "questions": [q.text for q in chat.questions]} for chat in chats],
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "work.json"
        file.write_text(json.dumps(task), encoding="utf-8")
        runs: dict[str, Callable[[], Row]] = {
            f"lcm_plugin {VERSION}": lambda: {"play": play(task), "recall": ask(chats), "odd": odd(task)}
        }
        for checkout in filter(None, (arguments.hermes_lcm, arguments.lcm_x)):
            command = [arguments.hermes_python, HERE / "hermes_lcm.py", checkout, file]
            runs[version_of(checkout)] = partial(_run, command)
        if arguments.lossless_claw:
            command = [arguments.node, "--import", "tsx", HERE / "lossless_claw.mjs", file]
            runs[version_of(arguments.lossless_claw)] = partial(_run, command, arguments.lossless_claw)
        for name, run in runs.items():
            result = run()
            seen = result["play"].pop("seen")
            figures = {key: round(value, 2) for key, value in result["play"].items()}
            figures |= judge(chats, result["recall"]) if chats else {}
            print(name, json.dumps(figures | canaries(task, seen) | survived(result["odd"])), flush=True)


if __name__ == "__main__":
    main()
