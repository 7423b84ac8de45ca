"""A hook of a host that starts a process for each: ``python -m lcm_plugin.hosts.agents.command gemini-cli``.

It reads the host's JSON from stdin and prints what the host adds to its context, and nothing but JSON. It never fails: a
hook with another exit code would block the turn.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from typing import Any


def main(arguments: list[str]) -> None:
    """Answers one hook."""
    parser = argparse.ArgumentParser("lcm_plugin.hosts.agents.command", description=__doc__)
    parser.add_argument("log")
    parser.add_argument("--database")
    asked = parser.parse_args(arguments)
    answer: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        # UTF-8, whatever the encoding of the terminal is.
        answer = _answered(asked.log, asked.database, json.loads(sys.stdin.buffer.read()))
    sys.stdout.write(json.dumps(answer))


def _answered(log: str, database: str | None, said: dict[str, Any]) -> dict[str, Any]:
    from lcm_plugin.config.file import load_config
    from lcm_plugin.engine import Engine
    from lcm_plugin.hosts.agents.calls import HookCall
    from lcm_plugin.hosts.agents.capture import Capture
    from lcm_plugin.hosts.agents.hooks import added
    from lcm_plugin.hosts.agents.passages import Passages, pack_is_due
    from lcm_plugin.hosts.agents.resume import resume_pack
    from lcm_plugin.types import Session

    call = HookCall.of_host(said)
    with Engine.open(load_config(**({"database": database} if database else {}))) as engine:
        texts = []
        if call.event != "AfterAgent":
            # The prompt may be in the log already, and would be found as the best answer to itself.
            texts = [Passages(log, lambda: engine).for_prompt(call)]
        Capture(engine, log).store(call.logs, project=call.cwd)
        if texts and pack_is_due(call.transcript):
            texts.insert(0, resume_pack(engine, Session(f"agent:{log}:{call.session}")))
        text = "\n\n".join(filter(None, texts))
    return added(call.event, text) if text else {}


if __name__ == "__main__":
    main(sys.argv[1:])
