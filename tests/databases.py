"""How a test asks for a database without knowing which store it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

# Gives the path or URL of an empty database, which goes when the context ends.
FreshDatabase = Callable[..., AbstractContextManager[str]]
