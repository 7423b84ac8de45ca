"""Full-text search and its index."""

from __future__ import annotations

from lcm_plugin.store.sqlite.conversations import Handle


class SearchQueries(Handle):
    """Full-text and regular-expression queries."""


class SearchChanges(SearchQueries):
    """Maintenance of the full-text indexes."""
