"""Made-up talk: turns of a wanted size whose every word can be found again."""

from __future__ import annotations

import random

_SUBJECTS = [
    "gardener",
    "carpenter",
    "sailor",
    "baker",
    "printer",
    "miller",
    "weaver",
    "potter",
    "smith",
    "mason",
]
_VERBS = [
    "measured",
    "repaired",
    "counted",
    "painted",
    "carried",
    "sorted",
    "labelled",
    "polished",
    "weighed",
    "stacked",
]
_OBJECTS = [
    "barrels",
    "windows",
    "ladders",
    "baskets",
    "lanterns",
    "bricks",
    "ropes",
    "jars",
    "shelves",
    "wheels",
]
_PLACES = [
    "harbour",
    "orchard",
    "library",
    "market",
    "bridge",
    "cellar",
    "tower",
    "workshop",
    "meadow",
    "station",
]


def sentence(rng: random.Random) -> str:
    """One plain sentence."""
    subject, verb, thing, place = (rng.choice(w) for w in (_SUBJECTS, _VERBS, _OBJECTS, _PLACES))
    return f"The {subject} {verb} {rng.randint(2, 99)} {thing} near the {place}."


def turn(number: int, tokens: int, seed: int = 0) -> str:
    """A user's text of about that many tokens (four characters each), numbered."""
    rng = random.Random(f"{seed}:{number}")
    said = [f"Note {number:03d} follows."]
    while sum(map(len, said)) + len(said) < 4 * tokens:
        said.append(sentence(rng))
    return " ".join(said)


def fact(number: int) -> str:
    """A sentence that only its own turn contains."""
    return f"The code of VAULT-{number:03d} is heron-{7919 * number % 9973}."
