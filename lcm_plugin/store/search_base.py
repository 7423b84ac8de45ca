"""The search part of the store seam."""

from __future__ import annotations

from typing import Protocol


class SearchReader(Protocol):
    """Full-text and regular-expression queries."""


class SearchWriter(Protocol):
    """Maintenance of the full-text indexes."""
