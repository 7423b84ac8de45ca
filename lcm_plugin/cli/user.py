"""Who sits at the terminal."""

from __future__ import annotations


def user_name() -> str:
    """The name of the account, for records of who removed something; its number when it has none."""
    import getpass
    import os

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"user {os.getuid()}"
