"""The ``lcm`` command: a person's way into an engine's database."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script."""
    import logging

    from lcm_plugin.cli.app import app

    # Events reach a person as the command's own words; without a handler Python would print warnings.
    logging.getLogger("lcm_plugin").addHandler(logging.NullHandler())
    app()
