"""The middleware's options in LangChain's own words, as settings of the core.

``trigger`` and ``keep`` are what `SummarizationMiddleware` takes: ``("fraction", 0.8)``, ``("tokens", 4_000)``,
``("messages", 50)``; ``trigger`` also as a list, of which any counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from lcm_plugin.config import LcmConfig
from lcm_plugin.config.file import load_config

Kind: TypeAlias = Literal["fraction", "tokens", "messages"]
ContextSize: TypeAlias = tuple[Kind, "int | float"]
Trigger: TypeAlias = (
    "ContextSize | Mapping[str, int | float] | Sequence[ContextSize | Mapping[str, int | float]]"
)

# So many messages that only their tokens end the tail.
_ANY_NUMBER = 100_000


def configured(
    config: LcmConfig | None,
    trigger: Trigger | None,
    keep: ContextSize | None,
    policy: str | None,
    window: int | None,
) -> LcmConfig | None:
    """The config with what the options say; raises `ValueError` for one that cannot be."""
    values = _settings(trigger, keep, policy, window, config)
    if not values:
        return config
    if config is None:
        return load_config(**values)
    explicit = {name: getattr(config, name) for name in type(config).model_fields if _is_set(config, name)}
    return LcmConfig(**{**explicit, **values})


def _settings(
    trigger: Trigger | None,
    keep: ContextSize | None,
    policy: str | None,
    window: int | None,
    config: LcmConfig | None,
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if trigger is not None:
        values |= _triggers(trigger, window)
        if config is None or not _is_set(config, "context_policy"):
            # Nothing is compacted before the trigger.
            values["context_policy"] = "faithful"
    if keep is not None:
        values |= _kept(keep, window)
    if policy is not None:
        values["context_policy"] = policy
    return values


def _triggers(trigger: Trigger, window: int | None) -> dict[str, Any]:
    shares: list[float] = []
    messages: list[int] = []
    for kind, amount in _conditions(trigger):
        if kind == "messages":
            messages.append(int(amount))
        else:
            shares.append(amount if kind == "fraction" else amount / _known(window, "trigger"))
    values: dict[str, Any] = {}
    if shares:
        share = min(1.0, *shares)
        values |= {"context_threshold": share, "hard_threshold": max(share, 0.95)}
    if messages:
        values["max_active_messages"] = min(messages)
    return values


def _kept(keep: ContextSize, window: int | None) -> dict[str, Any]:
    kind, amount = _size(keep, "keep")
    if kind == "messages":
        return {"fresh_tail_count": int(amount)}
    tokens = amount * _known(window, "keep") if kind == "fraction" else amount
    return {"fresh_tail_count": _ANY_NUMBER, "fresh_tail_max_tokens": max(1, int(tokens))}


def _conditions(trigger: Trigger) -> list[tuple[Kind, int | float]]:
    """Any of these: a tuple is one, a list holds several."""
    several = isinstance(trigger, list) or (
        isinstance(trigger, tuple) and not (trigger and isinstance(trigger[0], str))
    )
    return [_size(one, "trigger") for one in (trigger if several else (trigger,))]


def _size(value: Any, name: str) -> tuple[Kind, int | float]:
    if isinstance(value, Mapping):
        if len(value) != 1:
            raise ValueError(
                f"{name}={value!r}: conditions that must all hold are not supported; give a list, of which any counts"
            )
        value = next(iter(value.items()))
    match value:
        case ("fraction", int() | float() as share) if 0 < share <= 1:
            return "fraction", share
        case ("tokens" | "messages" as kind, int() | float() as amount) if amount >= 1:
            return kind, amount
    raise ValueError(
        f"{name} must be ('fraction', above 0 and at most 1), ('tokens', n) or ('messages', n), not {value!r}"
    )


def _known(window: int | None, name: str) -> int:
    if window is None:
        raise ValueError(f"this {name} needs the model's size: LcmMiddleware(…, window=128_000)")
    return window


def _is_set(config: LcmConfig, name: str) -> bool:
    return config.source_of(name) != "default"
