"""Which identifiers a summary states, and whether its sources hold them: quick looks find what slow ones would."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcm_plugin.maintenance.summaries import claims as module
from lcm_plugin.maintenance.summaries.claims import Claim, Evidence, claims

_PIECES = (
    "took 5 minutes 5,000 tokens. at 12:30 HP-90417 /srv/bills/may.csv https://a.example/b 7f3e90acd 2026-11-30 3.2.1",
    "(80%) ms 1,234,567 crates/today.log",
)


@given(st.lists(st.sampled_from([*" ".join(_PIECES).split(), "\n", ""]), max_size=14))
def test_claims_are_found_as_if_every_word_were_looked_at(words: list[str]) -> None:
    text = " ".join(words)
    with patch.object(module, "_where_claims_are", str):
        whole = claims(text)
    assert claims(text) == whole


@pytest.mark.parametrize(
    ("source", "held"),
    [
        ("It took 5,000 tokens.", True),
        ("It took 5 000 tokens, 15 in all.", True),
        ("It was 5000.", True),
        ("15000, 50001 and 3.5000", False),
    ],
)
def test_a_number_is_held_however_its_thousands_are_written(source: str, held: bool) -> None:
    assert Evidence(source).supports(Claim("number", "5000")) is held
