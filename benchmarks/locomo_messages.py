"""Turns the LoCoMo chats into messages that ``lcm replay`` plays.

    python benchmarks/locomo_messages.py PATH/locomo_dev.json > locomo.jsonl

One line a chat: ``session`` and ``messages``, as `lcm_plugin.evaluation.loaders.locomo` reads them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lcm_plugin.evaluation.loaders.locomo import load


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit((__doc__ or "").strip())
    for talk in load(Path(sys.argv[1])):
        print(json.dumps({"session": talk.name, "messages": talk.messages}, ensure_ascii=False))


if __name__ == "__main__":
    main()
