"""A process whose disk is full: what it may write to one file is limited, as by a quota.

    python storage_child.py DATABASE

Prints one JSON line: what the write said, how many messages stood then, and after there was room again.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from pathlib import Path

from lcm_plugin import CompletionRequest, Engine, LcmConfig, LcmError, Session

LANE = Session("agent:disk:main")


def main() -> None:
    path = Path(sys.argv[1])
    asked = 0

    def model(request: CompletionRequest) -> str:
        nonlocal asked
        asked += 1
        return "They talked."

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Engine.open(LcmConfig(database=str(path)), model) as engine:
        engine.ingest(LANE, [{"role": "user", "content": "before"}])
        room = path.with_name(f"{path.name}-wal").stat().st_size
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room + 4_096, most))
        said = ""
        try:
            engine.ingest(LANE, [{"role": "user", "content": f"part {n} " + "x" * 9_000} for n in range(9)])
        except LcmError as error:
            said = f"{type(error).__name__}: {error}"
        during = len(engine.messages(LANE))
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        engine.ingest(LANE, [{"role": "user", "content": "after"}])
        findings = [finding.code for finding in engine.check().findings]
        texts = [message["content"] for message in engine.messages(LANE)]
    print(json.dumps({"said": said, "during": during, "texts": texts, "findings": findings, "asked": asked}))


if __name__ == "__main__":
    main()
