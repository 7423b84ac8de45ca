"""Lossless context management as a capability of a pydantic-ai agent."""

from __future__ import annotations

from lcm_plugin.hosts.versions import needed

with needed("pydantic-ai"):
    from lcm_plugin.hosts.pydantic_ai.capability import LcmCapability

__all__ = ["LcmCapability"]
