"""The skill that tells an agent how to find things again, among the host's own skills."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path


def offer_skill() -> None:
    """Adds our folder of skills to the host's, which are the folders of the namespace package ``skills``."""
    package = Path(__file__).parents[2]
    for folder in (package / "skills", package.parent / "skills"):
        if (folder / "lcm" / "SKILL.md").exists():
            try:
                path = import_module("skills").__path__
            except ImportError:
                return
            if str(folder) not in path:
                path.append(str(folder))
            return
