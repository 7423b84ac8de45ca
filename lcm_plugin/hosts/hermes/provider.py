"""Does the provider compact a session on its side? Then its items stay as they are, and nothing is compacted twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lcm_plugin.hosts.hermes.settings import host_config
from lcm_plugin.types import Message

APP_SERVER, RESPONSES = "codex_app_server", "codex_responses"


def provider_compacts(api_mode: str, listing: Sequence[Message]) -> bool:
    """Whether the model's side keeps the context small.

    Codex' app server does, unless ``compression.codex_app_server_auto`` is ``hermes``. The Responses API does where a
    message carries its checkpoint; before the first one nobody can know, since only some models take part.
    """
    if api_mode == APP_SERVER:
        compression = host_config().get("compression")
        named = compression.get("codex_app_server_auto") if isinstance(compression, Mapping) else None
        return str(named or "native").lower() != "hermes"
    return api_mode == RESPONSES and any(_has_checkpoint(message) for message in reversed(listing))


def _has_checkpoint(message: Message) -> bool:
    items = message.get("codex_reasoning_items")
    return isinstance(items, list) and any(
        isinstance(item, Mapping) and str(item.get("type")).startswith("compaction") for item in items
    )
