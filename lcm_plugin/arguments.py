"""What a program hands over, checked by the annotations of the methods that it calls.

`checked` is for the classes of the public API: an argument of another kind is an `InputError` that names the
argument, what it may be and what came, where it would else be an error of some inner line, or stored as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from numbers import Real
from os import PathLike
from typing import Any, TypeVar

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import InputError
from lcm_plugin.types import Session, Turn

_Class = TypeVar("_Class", bound=type)
_SHOWN = (bool, int, float, str, bytes, Session, type(None))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


# By annotation: what a value must be, and the words for it. Other annotations are not looked at.
_KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "LcmConfig": (lambda value: isinstance(value, LcmConfig), "an LcmConfig"),
    "Session": (
        lambda value: isinstance(value, Session) and _is_named(value),
        "a Session of texts, as in Session('agent:main:main')",
    ),
    "Turn": (lambda value: isinstance(value, Turn), "a Turn"),
    "Sequence[Message]": (
        lambda value: isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)),
        "a list of messages",
    ),
    "int": (_is_number, "a whole number"),
    "float": (_is_number, "a number"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "str | PathLike[str]": (
        lambda value: isinstance(value, (str, PathLike)) and bool(str(value)) and "\0" not in str(value),
        "a path or a URL",
    ),
    "Completer": (callable, "a function that takes a CompletionRequest"),
    "Listener": (callable, "a function that takes an Event"),
    "Callable[[], int]": (callable, "a function that returns milliseconds"),
}


def _is_named(session: Session) -> bool:
    return isinstance(session.key, str | None) and isinstance(session.id, str | None)


def checked(owner: _Class) -> _Class:
    """The class, with arguments of its public methods checked by their annotations."""
    for name, method in list(vars(owner).items()):
        made = name in ("__init__", "open") or not name.startswith("_")
        if isinstance(method, classmethod) and made:
            setattr(owner, name, classmethod(_checked(method.__func__)))
        elif inspect.isfunction(method) and made:
            setattr(owner, name, _checked(method))
    return owner


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    parameters = list(inspect.signature(method).parameters.values())
    rules = {
        one.name: (*_KINDS[kind], optional)
        for one in parameters
        if (kind := str(one.annotation).removesuffix(" | None").replace("os.", "")) in _KINDS
        for optional in [str(one.annotation).endswith(" | None")]
    }
    names = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    various = next((one.name for one in parameters if one.kind is one.VAR_POSITIONAL), "")
    if not rules:
        return method

    @wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        for at, value in enumerate(given):
            _check(rules, names[at] if at < len(names) else various, value)
        for name, value in named.items():
            _check(rules, name, value)
        return method(*given, **named)

    return call


def _check(rules: dict[str, tuple[Callable[[object], bool], str, bool]], name: str, value: object) -> None:
    if (rule := rules.get(name)) is None:
        return
    fits, words, optional = rule
    if not (fits(value) or (optional and value is None)):
        shown = repr(value) if isinstance(value, _SHOWN) else f"of the type {type(value).__name__}"
        raise InputError(f"{name} must be {words}{', or None' if optional else ''}, not {shown:.80}")
