"""Random histories of talks, for the adapters of hosts whose environments have no Hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import effort

Steps = list[tuple[str, int]]


def random_steps(kinds: Sequence[str], number: int) -> Steps:
    """Three to ten steps, each with a number that says where; other ones for another ``number``, and a failing test
    shows them."""
    rng = Random(f"{effort.seed()}/{number}")
    return [(rng.choice(kinds), rng.randrange(50)) for _ in range(rng.randrange(3, 11))]


def numbers(whole: int, *, here: int) -> range:
    """For ``pytest.mark.parametrize``: so many histories with ``CI``, and ``here`` many elsewhere."""
    return range(effort.examples(whole, here=here))
