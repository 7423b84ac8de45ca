"""Works a map off until it is killed: each call is written down when it is answered."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.types import CompletionRequest


def main(database: str, map_id: str, log: str) -> None:
    lines = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def model(request: CompletionRequest) -> str:
        time.sleep(0.01)
        item = str(request.messages[1]["content"]).split("\n")[1]
        os.write(lines, f"{item}\n".encode())
        return '"seen"'

    with Engine.open(LcmConfig(database=database), model) as engine:
        Path(log).touch()
        engine.maps.run(map_id, parallel=3)


main(*sys.argv[1:])
