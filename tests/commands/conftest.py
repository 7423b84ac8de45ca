"""Fixtures of the command tests."""

from histories import busy

__all__ = ["busy"]
