"""How a map is worked: lengths, times, and what it may cost."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from lcm_plugin.errors import InputError

MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens of prompts and of answers."""

    prompt: float
    answer: float

    def micro(self, tokens_in: int, tokens_out: int) -> int:
        """The cost of a call in millionths of a dollar."""
        return round(tokens_in * self.prompt + tokens_out * self.answer)


@dataclass(frozen=True, slots=True)
class MapOptions:
    """``max_tokens`` bounds one answer, ``seconds`` one call, or with ``agentic`` the whole work on one item.

    An agentic item may read ``read_tokens`` of history and of what the program's own ``tools``, by name, return.
    ``budget_tokens`` and ``budget_usd`` end the map when the next calls might go over; None is no limit. Prices are
    dollars per million tokens, None when nobody knows them.
    """

    agentic: bool = False
    max_tokens: int = 500
    seconds: float = 60.0
    read_tokens: int = 8_000
    budget_tokens: int | None = None
    budget_usd: float | None = None
    price_in: float | None = None
    price_out: float | None = None
    tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("max_tokens", 1), ("seconds", 0.1), ("read_tokens", 100)):
            _check(name, getattr(self, name), least)
        for name in ("budget_tokens", "budget_usd", "price_in", "price_out"):
            if getattr(self, name) is not None:
                _check(name, getattr(self, name), 0)
        if self.tools and not self.agentic:
            raise InputError("tools are for agentic maps: set agentic")
        if self.budget_usd is not None and self.price is None:
            raise InputError(
                "budget_usd needs a price: the model's is not known, so give price_in and price_out, dollars per "
                "million tokens"
            )

    @property
    def price(self) -> Price | None:
        """The price, when both halves are known."""
        if self.price_in is None or self.price_out is None:
            return None
        return Price(self.price_in, self.price_out)

    @property
    def most_read(self) -> int:
        """Tokens that one item's helper may read, and hand on of that."""
        return self.read_tokens + self.read_tokens // 2 if self.agentic else 0

    def cost(self, tokens_in: int, tokens_out: int) -> int:
        """Millionths of a dollar; 0 when the price is not known."""
        return self.price.micro(tokens_in, tokens_out) if self.price else 0

    def dump(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def load(cls, text: str) -> MapOptions:
        """From JSON; keys of a newer version are passed over."""
        known = {one.name for one in fields(cls)}
        values: dict[str, Any] = json.loads(text)
        kept = {name: value for name, value in values.items() if name in known}
        return cls(**kept | {"tools": tuple(kept.get("tools", ()))})


def _check(name: str, value: Any, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
        raise InputError(f"{name} = {value!r} must be a number from {least} up")
