"""Whether a host's package is there and new enough, said in a sentence instead of a missing name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

NEEDED = {
    "pydantic-ai": ("pydantic-ai-slim", "2.64"),
    "langchain": ("langchain", "1.1"),
    "openai-agents": ("openai-agents", "0.7"),
}
"""For each extra the distribution and its least version, as `pyproject.toml` has them."""


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Imports of an adapter go inside; raises `ImportError` for a package that is missing or too old."""
    distribution, least = NEEDED[extra]
    try:
        found = version(distribution)
    except PackageNotFoundError:
        found = ""
    if _numbers(found) < _numbers(least):
        state = f"{distribution} {found} is too old" if found else f"{distribution} is not installed"
        raise ImportError(
            f"{state}: lcm_plugin works with {distribution} {least} or newer; "
            f"pip install 'lcm_plugin[{extra}]' brings it",
            name=distribution,
        )
    yield


def _numbers(text: str) -> tuple[int, ...]:
    """The release of a version; the empty tuple, which is less than any other, for none."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()
