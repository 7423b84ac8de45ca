"""Who works on the store by hand, for the records of what was changed and by whom."""

from __future__ import annotations


def account_name() -> str:
    """The name of the process's account; ``user 1000`` where it has only a number."""
    import getpass
    import os

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"
