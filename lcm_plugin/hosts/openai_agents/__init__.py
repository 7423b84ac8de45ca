"""OpenAI Agents: a session whose stored items stay whole and whose returned items are the assembled context.

Needs the extra ``openai-agents``.
"""

from __future__ import annotations

from lcm_plugin.hosts.versions import needed

with needed("openai-agents"):
    from lcm_plugin.hosts.openai_agents.session import LcmSession
    from lcm_plugin.hosts.openai_agents.tools import recall_tools

__all__ = ["LcmSession", "recall_tools"]
