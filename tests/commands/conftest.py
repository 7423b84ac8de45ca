"""Fixtures of the command tests."""

from histories import busy, busy_sqlite

__all__ = ["busy", "busy_sqlite"]
