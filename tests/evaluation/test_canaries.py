"""Exact words planted in a long talk are in view, found, and not mistaken for what was said before them."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from fakes.shell import run_here

from lcm_plugin.evaluation.canaries.asking import Sighting, counts, look, measure, missed
from lcm_plugin.evaluation.canaries.core import run
from lcm_plugin.evaluation.canaries.planting import FACTS, KINDS, Canary, Exchange, script

FACT = Canary("fact", "What is the code?", "The code is 7261.")
CHANGED = Canary("changed", "What is the code?", "The code is 9.", "The code is 7.")
GONE = Canary("taken back", "What is the code?", "", "The code is 5.")


class Told:
    """A host with answers that were written down."""

    def __init__(self, view: str = "", answer: dict[str, Any] | None = None, later: str = "") -> None:
        self._view, self._answer, self._later = view, answer or {"hits": []}, later
        self.said: list[Exchange] = []

    @property
    def passes(self) -> int:
        return len(self.said) // 40

    def say(self, exchange: Exchange) -> None:
        self.said.append(exchange)

    def ask(self, question: str) -> str:
        return self._view

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        first = name == "lcm_grep" and arguments["limit"] == 10
        return self._answer if first else {"text": self._later}


def hit(text: str, **more: Any) -> dict[str, Any]:
    return {"hits": [{"snippet": text, **more}]}


@pytest.mark.parametrize(
    ("host", "seen"),
    [
        (Told("… The code is 7261. …"), (True, True, True)),
        (Told("… The code is 7262. …", hit("The **code** is 7261.")), (False, True, True)),
        (Told("", None, "The code is 7261."), (False, False, True)),
        (Told("The code\nis 7261"), (False, False, False)),
    ],
)
def test_only_the_exact_words_count(host: Told, seen: tuple[bool, bool, bool]) -> None:
    one = look(host, FACT, 3)
    assert (one.in_view, one.one_call, one.found) == seen
    assert one.passed is seen[2]


@pytest.mark.parametrize(
    ("host", "mistaken"),
    [
        (Told("The code is 7. Later: The code is 9."), False),
        (Told("The code is 9. Later: The code is 7."), True),
        (Told("The code is 7."), True),
        (Told("", hit("The code is 7.")), True),
        (Told("", {"hits": [{"snippet": "The code is 7."}, {"snippet": "The code is 9."}]}), False),
    ],
)
def test_the_newest_value_must_win(host: Told, mistaken: bool) -> None:
    assert look(host, CHANGED, 3).wrong is mistaken


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        (Told("nothing"), False),
        (Told("The code is 5."), True),
        (Told("", hit("The code is 5.", taken_back=True)), False),
        (Told("", hit("The code is 5.")), True),
    ],
)
def test_what_was_taken_back_must_not_appear(host: Told, shown: bool) -> None:
    assert look(host, GONE, 3).wrong is shown


def test_a_script_is_the_same_for_a_seed_and_says_each_thing_once() -> None:
    first, again = script(5), script(5)
    assert (first.canaries, first.planting) == (again.canaries, again.planting)
    assert list(islice(first.others, 3)) == list(islice(again.others, 3))
    assert script(6).canaries != first.canaries
    text = json.dumps([exchange.messages("x") for exchange in first.planting])
    words = [word for one in first.canaries for word in (one.right, one.wrong) if word and one.kind != "plan"]
    assert [text.count(word) for word in words] == [1] * len(words)
    assert {kind: sum(one.kind == kind for one in first.canaries) for kind in KINDS}["fact"] == FACTS
    assert sum(bool(exchange.calls) for exchange in first.planting) > len(first.planting) / 3


def test_a_goal_that_is_missed_is_named() -> None:
    sightings = measure(Told(), script(1), (1,))
    failures = missed(sightings)
    assert any("0 facts found, goal 30" in failure for failure in failures)
    assert any("0 facts in view, goal 27" in failure for failure in failures)
    assert [row["planted"] for row in counts(sightings)] == [30, 4, 1, 5, 4]


@pytest.mark.long
def test_all_is_found_after_three_compactions() -> None:
    sightings = run(2, 16_000, {}, (3,))
    assert missed(sightings) == []
    facts = _facts(sightings)
    assert sum(one.found for one in facts) == FACTS
    assert sum(one.in_view for one in facts) >= 27


@pytest.mark.long
def test_all_is_found_after_thirty_compactions() -> None:
    assert missed(run(1, 16_000, {}, (3, 30))) == []


@pytest.mark.long
def test_a_plugin_that_quotes_nothing_fails_the_command() -> None:
    words = ("eval", "canaries", "--after", "1", "--set", "activeRecall=off", "--json")
    done = run_here(*words)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["command"] == "lcm eval canaries --after 1 --window 16000 --seed 1 --set activeRecall=off"
    assert any("facts in view, goal 27" in line for line in found["missed"])
    assert "facts in view" in done.stderr


def _facts(sightings: list[Sighting]) -> list[Sighting]:
    return [one for one in sightings if one.canary.kind == "fact"]
