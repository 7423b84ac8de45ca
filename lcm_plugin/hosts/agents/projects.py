"""Which stored conversations belong to a project: those about one repository, or one folder where there is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from lcm_plugin.store.protocol import Reader, iterate_conversations


def conversations_of(reader: Reader, cwd: str, is_hidden: Callable[[str], bool]) -> set[int]:
    """The conversations in the project of a folder, but for those of keys that are hidden."""
    if not cwd:
        return set()
    root = project_root(cwd)
    return {
        row.conversation_id
        for row in iterate_conversations(reader)
        if row.project and project_root(row.project) == root and not is_hidden(row.session_key)
    }


@lru_cache(maxsize=4_096)
def project_root(folder: str) -> str:
    """The repository that a folder lies in, or the folder itself."""
    place = Path(os.path.normpath(folder))
    root = next((one for one in (place, *place.parents) if (one / ".git").exists()), place)
    return os.path.normcase(root)
