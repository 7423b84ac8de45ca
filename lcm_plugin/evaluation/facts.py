"""Facts to plant in a talk and to ask for: each has one exact statement, and others that look like it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

_PLACES = (
    *(
        "boathouse",
        "greenhouse",
        "north gate",
        "cold store",
        "print room",
        "roof garden",
        "archive",
        "pump station",
    ),
    *(
        "ferry office",
        "test track",
        "quarry",
        "observatory",
        "bakery",
        "canteen",
        "wine cellar",
        "harbour crane",
    ),
    *(
        "ticket hall",
        "orchard",
        "sawmill",
        "reading room",
        "clock tower",
        "dry dock",
        "stable",
        "weather mast",
    ),
)
_PEOPLE = (
    *("Ines Okafor", "Tom Varga", "Mara Lind", "Yusuf Demir", "Olga Brandt", "Pavel Novak", "Lena Fischer"),
    *("Dario Conti", "Nora Quist", "Emil Sato", "Ruth Adler", "Karim Haddad", "Ida Berg", "Jon Ferro"),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something said once. ``statement`` holds ``value``, and ``question`` names what it is about."""

    subject: str
    statement: str
    question: str
    value: str


@dataclass(frozen=True, slots=True)
class _Property:
    statement: str
    question: str


_PROPERTIES = (
    _Property("The door code of the {place} is {value}.", "What is the door code of the {place}?"),
    _Property("The spare key of the {place} is with {value}.", "Who has the spare key of the {place}?"),
    _Property("The {place} is inspected on {value}.", "When is the {place} inspected?"),
    _Property(
        "The invoice for the {place} has the number {value}.", "Which number has the invoice for the {place}?"
    ),
    _Property("The budget of the {place} is {value} euros.", "How large is the budget of the {place}?"),
)


def facts(random: Random, count: int) -> list[Fact]:
    """So many facts, each about a place and a property of its own; every value differs.

    With more than some twenty, several are about one place, and in any case several have one property.
    """
    pairs = [(place, property_) for place in _PLACES for property_ in range(len(_PROPERTIES))]
    return [_fact(random, number, *pair) for number, pair in enumerate(random.sample(pairs, count))]


def _fact(random: Random, number: int, place: str, kind: int) -> Fact:
    own, form = 1_000 + number, _PROPERTIES[kind]
    value = (
        f"{random.randrange(10, 99)}{own}",
        f"{random.choice(_PEOPLE)} (desk {own})",
        f"{random.randrange(1, 28)} March 2027 at {random.randrange(8, 18)}:{random.randrange(10, 59)} (slot {own})",
        f"RE-{own}-{random.randrange(100, 999)}",
        f"{own},{random.randrange(100, 999)}",
    )[kind]
    return Fact(
        place, form.statement.format(place=place, value=value), form.question.format(place=place), value
    )


def changed(random: Random, fact: Fact, number: int) -> Fact:
    """The same fact with another value, said later."""
    value = f"{random.randrange(10, 99)}{5_000 + number}"
    return Fact(fact.subject, fact.statement.replace(fact.value, value), fact.question, value)
