"""Made-up talk whose every sentence can be found again."""

from __future__ import annotations

import random

_WHO = ["gardener", "carpenter", "sailor", "baker", "printer", "miller", "weaver", "potter"]
_DID = ["measured", "repaired", "counted", "painted", "carried", "sorted", "labelled", "polished"]
_WHAT = ["barrels", "windows", "ladders", "baskets", "lanterns", "bricks", "ropes", "jars"]
_WHERE = ["harbour", "orchard", "library", "market", "bridge", "cellar", "tower", "workshop"]


def turn(number: int, tokens: int) -> str:
    """A user's text of about that many tokens (four characters each), numbered."""
    rng = random.Random(number)
    words = [f"Note {number:03d} follows."]
    while sum(map(len, words)) + len(words) < 4 * tokens:
        who, did, what, where = (rng.choice(words_of) for words_of in (_WHO, _DID, _WHAT, _WHERE))
        words.append(f"The {who} {did} {rng.randint(2, 99)} {what} near the {where}.")
    return " ".join(words)


def fact(number: int) -> str:
    """A sentence that only its own turn contains."""
    return f"The code of VAULT-{number:03d} is heron-{7919 * number % 9973}."
