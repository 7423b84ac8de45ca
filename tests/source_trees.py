"""The package's modules, parsed once for all tests that look at its source."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import lcm_plugin

PACKAGE = Path(lcm_plugin.__file__).parent


@cache
def trees() -> Mapping[str, ast.Module]:
    """Every module by its path in the package."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }
