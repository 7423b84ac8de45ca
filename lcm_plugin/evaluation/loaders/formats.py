"""The data sets by the names that ``lcm eval`` knows them by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from lcm_plugin.errors import InputError
from lcm_plugin.evaluation.generated import generated
from lcm_plugin.evaluation.loaders import beam, locomo, longmemeval, oolong, tau
from lcm_plugin.evaluation.records import Talk

GENERATED = "generated"
Load = Callable[[Path | None, int], Iterator[Talk]]


def _reading(name: str, load: Callable[[Path], Iterator[Talk]]) -> Load:
    def read(path: Path | None, seed: int) -> Iterator[Talk]:
        assert path is not None
        try:
            yield from load(path)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # A file of another shape fails somewhere deep within it.
            raise InputError(
                f"{path} is not laid out like {name}: {type(error).__name__}: {error}"
            ) from error

    return read


FORMATS: dict[str, Load] = {
    "locomo": _reading("LoCoMo", locomo.load),
    "beam": _reading("BEAM", beam.load),
    "longmemeval": _reading("LongMemEval", longmemeval.load),
    "realtalk": _reading("REALTALK", locomo.load_realtalk),
    "tau": _reading("tau-bench transcripts", tau.load),
    "oolong": _reading("OOLONG", oolong.load),
    GENERATED: lambda path, seed: generated(seed),
}
