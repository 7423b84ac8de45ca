"""What the plugin loads when the host starts; the host itself is not needed."""

from __future__ import annotations

import json
import subprocess
import sys

_REGISTER = """
import json, sys, types
base = types.ModuleType("agent.context_engine")
base.ContextEngine = type("ContextEngine", (), {})
sys.modules |= {"agent": types.ModuleType("agent"), "agent.context_engine": base}
before = set(sys.modules)
from lcm_plugin.hosts.hermes import register

class Context:
    def register_context_engine(self, engine):
        self.engine = engine
    def register_hook(self, name, callback): ...
    def register_middleware(self, kind, callback): ...
    def register_command(self, name, handler, **options): ...
    def register_cli_command(self, *command): ...

context = Context()
register(context)
print(json.dumps([context.engine.name, sorted(set(sys.modules) - before)]))
"""


LIGHT = {"sessions.access", "sessions.globs", "store.session_keys", "compaction.overflow"}
"""What registering loads beside the adapter itself and what looks inside a message."""


def test_registering_loads_no_engine_no_settings_and_no_encoding() -> None:
    done = subprocess.run([sys.executable, "-c", _REGISTER], capture_output=True, text=True, check=True)
    name, loaded = json.loads(done.stdout)
    assert name == "lcm"
    inner = {module.removeprefix("lcm_plugin.") for module in loaded if module.startswith("lcm_plugin.")}
    assert "hosts.hermes.engine" in inner
    assert {
        module for module in inner if "." in module and not module.startswith(("hosts.", "messages."))
    } == LIGHT
    assert "types" in inner
    assert not {
        "lcm_plugin.engine",
        "lcm_plugin.config",
        "pydantic",
        "tiktoken",
        "sqlite_utils",
        "litellm",
    } & set(loaded)
