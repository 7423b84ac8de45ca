"""LangChain 1.x: a middleware that keeps every message and sends a bounded context.

It takes the place of ``SummarizationMiddleware``. Needs the extra ``langchain``.
"""

from __future__ import annotations

from lcm_plugin.hosts.versions import needed

with needed("langchain"):
    from lcm_plugin.hosts.langchain.middleware import LcmMiddleware

__all__ = ["LcmMiddleware"]
