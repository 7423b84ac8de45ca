"""What a shell completes: sessions, settings, ids of what is stored. A database that cannot be read offers nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from lcm_plugin.errors import LcmError

if TYPE_CHECKING:
    from lcm_plugin.store.protocol import Reader

_MOST = 100
_LEAST_SUMMARIES = 20


def sessions(ctx: Any, incomplete: str) -> list[str]:
    """Session keys that begin so."""
    return _read(ctx, lambda reader: sorted({key for key in reader.session_keys(incomplete).values() if key}))


def ids(ctx: Any, incomplete: str) -> list[str]:
    """Ids of summaries, files and messages that begin so, the newest ones, and session keys."""
    stored = stored_ids(ctx, incomplete) if incomplete[:1] in ("s", "f", "m") else []
    return [*stored, *sessions(ctx, incomplete)]


def stored_ids(ctx: Any, incomplete: str) -> list[str]:
    """Ids of the newest files, and of the newest conversations' summaries and newest messages, that begin so."""

    def known(reader: Reader) -> list[str]:
        files = [one.file_id for one in reader.newest_files(None, limit=_MOST)]
        return [
            one for one in (*_summaries(reader), *files, *_messages(reader)) if one.startswith(incomplete)
        ]

    return _read(ctx, known)


def summary_ids(ctx: Any, incomplete: str) -> list[str]:
    """Ids of the newest conversations' summaries that begin so."""
    return _read(ctx, lambda reader: [one for one in _summaries(reader) if one.startswith(incomplete)])


def settings(incomplete: str) -> list[str]:
    """Settings, as the configuration file writes them."""
    from lcm_plugin.config.model import shown_keys

    return [
        name for name in sorted(shown_keys().values()) if name.casefold().startswith(incomplete.casefold())
    ]


def _summaries(reader: Reader) -> list[str]:
    newest = reader.conversations_used_since(0, limit=_LEAST_SUMMARIES)
    return [
        one.summary_id for row in newest for one in reader.list_summaries(row.conversation_id, limit=_MOST)
    ]


def _messages(reader: Reader) -> list[str]:
    newest = reader.conversations_used_since(0, limit=_LEAST_SUMMARIES)
    return [one.ref for row in newest for one in reader.heads(row.conversation_id, limit=_LEAST_SUMMARIES)]


def _read(ctx: Any, find: Callable[[Reader], list[str]]) -> list[str]:
    from lcm_plugin.cli.open_engine import reading

    try:
        with reading(ctx.params.get("database")) as engine, engine.store.read() as reader:
            return list(islice(find(reader), _MOST))
    except LcmError:
        return []
