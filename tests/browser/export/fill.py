"""Fills databases and exports them as pages: ``python fill.py FOLDER``. Runs where this package is installed."""

from __future__ import annotations

import base64
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clock import Clock
from fakes.shell import run_here
from messages import assistant, call, result, user
from small_talk import turns

from lcm_plugin import Engine, LcmConfig, Session

HOSTILE = "</script><img src=x onerror=\"alert('run')\"><svg onload=alert(1)>{{data}}<!--"
OLD_ANSWER = (
    "# Old\n\nAn **old** answer\n\n- one\n- two\n\n<b>no element</b> ![far](https://example.org/a.png)"
)
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 12,
    "leaf_chunk_tokens": 600,
    "leaf_target_tokens": 80,
    "condensed_target_tokens": 100,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
}
MAIN = Session("agent:main:main", "run-1")


def picture() -> str:
    """A red square of 40 pixels as PNG in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\x00" + b"\xd0\x30\x30" * 40 for _ in range(40))
    head = struct.pack(">IIBBBBB", 40, 40, 8, 2, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
    return base64.b64encode(png).decode()


def talk(engine: Engine) -> None:
    engine.ingest(Session("agent:main:old"), [user("An old question"), assistant(OLD_ANSWER)])
    for number in range(20):
        engine.ingest(MAIN, turns(4, start=4 * number))
        if number == 2:
            arguments = '{"path": "/srv/harbour.txt", "lines": 3}'
            engine.ingest(MAIN, [user("Read the zanzibar file"), call("c1", "read_file", arguments)])
            engine.ingest(
                MAIN, [result("c1", "one\ntwo\nthree"), assistant("The zanzibar file has three lines.")]
            )
        engine.compact(MAIN, budget=6_000)
    engine.compact(MAIN, force=True, budget=3_000)
    block = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture()}"}}
    engine.ingest(
        MAIN, [user([{"type": "text", "text": "What is this?"}, block]), assistant("A red square.")]
    )


def hostile(engine: Engine) -> None:
    session = Session(f"agent:{HOSTILE}:x")
    for number in range(20):
        engine.ingest(
            session,
            [user(f"{HOSTILE} {number}", sender=HOSTILE), assistant(HOSTILE, reasoning_content=HOSTILE)],
        )
        engine.ingest(session, [call(f"c{number}", HOSTILE, HOSTILE), result(f"c{number}", HOSTILE)])
    engine.compact(session, force=True, budget=1_000)


def long(engine: Engine) -> None:
    for start in range(0, 5_000, 100):
        engine.ingest(MAIN, turns(100, start=start))
        engine.compact(MAIN, budget=20_000)


def empty(engine: Engine) -> None:
    engine.ingest(MAIN, [{"role": "system", "content": ""}])


def main(folder: Path) -> None:
    for fill in (talk, hostile, long, empty):
        name = fill.__name__
        settings = SETTINGS if fill is not long else {"leaf_chunk_tokens": 8_000, "leaf_target_tokens": 300}
        database = folder / f"{name}.db"
        with Engine.open(LcmConfig(database=str(database), **settings), clock=Clock(step=47_000)) as engine:
            fill(engine)
        done = run_here("export", "-o", folder / f"{name}.html", "--database", database)
        if done.returncode:
            raise SystemExit(done.stderr)


main(Path(sys.argv[1]))
