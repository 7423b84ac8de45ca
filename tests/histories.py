"""Random histories of talks, for the adapters of hosts whose environments have no Hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import effort

Steps = list[tuple[str, int]]


def random_steps(kinds: Sequence[str], whole: int, *, here: int) -> list[Steps]:
    """Histories of three to ten steps, each with a number that says where; ``here`` many of them without ``CI``."""
    rng = Random(effort.seed())
    return [
        [(rng.choice(kinds), rng.randrange(50)) for _ in range(rng.randrange(3, 11))]
        for _ in range(effort.examples(whole, here=here))
    ]
