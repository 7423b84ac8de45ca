"""Ages and sizes as people write them: ``90d``, ``12h``, ``2GB``, ``500 MB``."""

from __future__ import annotations

import re

from lcm_plugin.errors import InputError

_AGE = re.compile(r"(\d{1,6})\s*(m|h|d|w|y)", re.ASCII)
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)\s*(B|KB|MB|GB|TB)?", re.ASCII)
_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000, "y": 365 * 86_400_000}
_BYTES = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def parse_age(text: str) -> int:
    """Milliseconds. Raises `InputError` naming what was written and what may be."""
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise InputError(
            f"{text!r} is no age: write a whole number and m, h, d, w or y (minutes to years), as in 90d"
        )
    return int(match[1]) * _MS[match[2]]


def parse_size(text: str) -> int:
    """Bytes, with units of 1024. Raises `InputError` naming what was written and what may be."""
    match = _SIZE.fullmatch(text.strip().upper())
    if match is None:
        raise InputError(f"{text!r} is no size: write a number and B, KB, MB, GB or TB, as in 2GB")
    return int(float(match[1]) * _BYTES[match[2] or ""])
