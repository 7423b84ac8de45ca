"""Writes ``incident.jsonl``: one made-up night on call, as messages of an agent with tools.

    python examples/make_incident.py [--seed 7] [--out examples/incident.jsonl]

The same seed gives the same bytes. All of it is invented: companies, people, hosts, numbers.
"""

from __future__ import annotations

import argparse
import base64
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from incident_aftermath import checks, morning, refunds, side_finds
from incident_story import Exchange, Step, alarm, backlog, database
from incident_week import certificate, guest_keys, leftovers, weekly

SYSTEM = (
    "You help the operations team of Harbour & Pine, a mail-order house for garden tools. You may read everything; "
    "you change production only after the person on call has said yes. "
    "Quote exact values. Say when something you said turns out wrong."
)


ACTS = (
    *(alarm, database, backlog),
    *(refunds, side_finds, checks, morning),
    *(certificate, guest_keys, leftovers, weekly),
)


def incident(seed: int) -> Iterator[dict[str, Any]]:
    """The messages, in order."""
    rng = Random(seed)
    yield {"role": "system", "content": SYSTEM}
    for act in ACTS:
        for exchange in act():
            yield from _turn(exchange, rng)


def _turn(exchange: Exchange, rng: Random) -> Iterator[dict[str, Any]]:
    yield {"role": "user", "content": _content(exchange)}
    for step in exchange.steps:
        yield from _step(step, rng)
    yield {"role": "assistant", "content": exchange.answer}


def _content(exchange: Exchange) -> str | list[dict[str, Any]]:
    if not exchange.picture:
        return exchange.ask
    url = "data:image/png;base64," + base64.b64encode(chart()).decode()
    return [
        {"type": "text", "text": exchange.ask},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
    ]


def _step(step: Step, rng: Random) -> Iterator[dict[str, Any]]:
    ids = [f"call_{rng.getrandbits(48):012x}" for _ in step.calls]
    calls = [
        {
            "id": name,
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for name, call in zip(ids, step.calls, strict=True)
    ]
    yield {"role": "assistant", "content": step.thought, "tool_calls": calls}
    for name, call in zip(ids, step.calls, strict=True):
        yield {"role": "tool", "tool_call_id": name, "name": call.tool, "content": call.output(rng)}


def chart() -> bytes:
    """A small grey PNG of an error curve that steps up: the screenshot in the story."""
    width, height, step = 96, 32, 56
    rows = []
    for y in range(height):
        line = [0 if y == (28 if x < step else 6) or x in (0, step) else 255 for x in range(width)]
        rows.append(bytes([0, *line]))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    # Level 0 stores without compressing, so that every zlib gives the same bytes.
    body = zlib.compress(b"".join(rows), 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("incident.jsonl"))
    options = parser.parse_args()
    messages = list(incident(options.seed))
    lines = [json.dumps(message, ensure_ascii=False) for message in messages]
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{options.out}: {len(messages)} messages, {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
