"""Many hosts and workers on one PostgreSQL server, killed and cut off while they work: is anything lost?

    python benchmarks/chaos.py [--seconds 120] [--processes 16] [--conversations 200] [--seed N] [--json]

Processes take turns in the conversations through the plugin's hooks, as hosts do: whole lists, newest parts of
lists and deltas, with and without ids, tool calls, /new and /reset, searches, summaries by a model server. One in
eight is an ``lcm worker``. Every few seconds one of them is killed (SIGKILL) and replaced; once the server is
restarted, stopped at once, or killed. Each host keeps a journal of what was acknowledged. A host that takes a
talk over from a dead one hands its list over again, as hosts do.

Afterwards every acknowledged message must be there once, in order, with nothing that was not said; the
invariants of the store hold, the doctor finds nothing broken, every context is valid. No hook may have raised
or given nothing; one may have failed with an event only while the server was away. Exit code 1 if not.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from chaos_host import SETTINGS, SLOTS, ChaosHost, Place, start_host
from chaos_proof import Proof, diaries, prove
from fakes.answers import summary_of
from fakes.model_server import Failure, ModelServer, Outcome, Reply
from postgres_server import PostgresServer

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.cli.errors import DATABASE
from lcm_plugin.store.open import open_store

Restart = Literal["fast", "immediate", "crash"]
# Shorter and longer than hosts wait for a server (`SETTINGS`).
_AWAY_S = (0.5, 4.5)
_GRACE_S = 8.0
_WORKER_SHARE = 8
_AIMED = 0.8
_WORKER = "from lcm_plugin.cli import main; main()"
_CONFLICTS = ("locked", "deferred")
_LEAST_KILLS = 2
_LONGEST_STRETCH = 10


@dataclass(slots=True)
class Report:
    """What a run did and found; times in seconds. ``faults`` says in words what was not as it should be."""

    seed: int = 0
    seconds: float = 0.0
    restart: Restart = "fast"
    away_s: float = 0.0
    turns: int = 0
    kills: int = 0
    worker_kills: int = 0
    kills_in_hooks: int = 0
    hooks: int = 0
    hook_p50_ms: float = 0.0
    hook_p95_ms: float = 0.0
    hook_max_ms: float = 0.0
    failed_while_away: int = 0
    busy: int = 0
    summaries: int = 0
    passes: int = 0
    conflicts: int = 0
    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Process:
    """A host's or a worker's process; ``worker`` has its handle."""

    pid: int
    number: int
    worker: subprocess.Popen[bytes] | None = None
    started: float = field(default_factory=time.monotonic)


class Chaos:
    """One run: starts, kills and replaces processes, and restarts the server once."""

    def __init__(self, place: Place, server: PostgresServer, rng: Random, report: Report) -> None:
        self._place = place
        self._server = server
        self._rng = rng
        self._report = report
        self._processes: list[_Process] = []
        self._started = 0
        self.away = (0.0, 0.0)

    def run(self, seconds: float, processes: int, kill_every_s: float) -> None:
        """Lets all work for so long, then ends them and has each talk take one more turn.

        On a busy machine it takes longer, up to ten times: until two were killed and something was summarised.
        """
        workers = max(1, processes // _WORKER_SHARE)
        for number in range(processes):
            self._start(worker=number < workers)
        began = time.monotonic()
        end, restart_at = began + seconds, began + seconds * self._rng.uniform(0.4, 0.6)
        kill_at = began + kill_every_s
        latest = began + seconds * _LONGEST_STRETCH
        while (now := time.monotonic()) < end or (now < latest and not self._has_shown_enough()):
            time.sleep(0.05 if now < end else 1.0)
            self._require_alive()
            if time.monotonic() >= kill_at:
                kill_at += kill_every_s * self._rng.uniform(0.6, 1.4)
                self._kill()
            if restart_at and time.monotonic() >= restart_at:
                restart_at = 0.0
                self._restart()
        self._report.seconds = time.monotonic() - began
        self._end()
        self._catch_up()

    def _has_shown_enough(self) -> bool:
        if self._report.kills < _LEAST_KILLS or not self._report.away_s:
            return False
        store = open_store(LcmConfig(database=self._place.database), read_only=True)
        try:
            with store.read() as reader:
                return bool(reader.status().summaries_by_depth)
        finally:
            store.close()

    def _start(self, *, worker: bool) -> None:
        self._started += 1
        number = self._started
        if not worker:
            pid = start_host(self._place, number, self._rng.randrange(1 << 30))
            self._processes.append(_Process(pid, number))
            return
        settings = {f"LCM_{key.upper()}": str(value) for key, value in SETTINGS.items()}
        command = [
            sys.executable,
            "-c",
            _WORKER,
            "worker",
            "--poll",
            "0.5",
            "--database",
            self._place.database,
        ]
        log = (self._place.folder / f"worker-{number}.log").open("wb")
        process = subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=log)
        self._processes.append(_Process(process.pid, number, process))

    def _kill(self) -> None:
        victim = self._rng.choice(self._processes)
        if victim.worker is None and self._rng.random() < _AIMED:
            victim = self._in_a_hook() or victim
            self._report.kills_in_hooks += self._place.in_hook[victim.number % SLOTS]
        os.kill(victim.pid, signal.SIGKILL)
        _wait(victim)
        self._place.in_hook[victim.number % SLOTS] = 0
        self._processes.remove(victim)
        self._report.kills += 1
        self._report.worker_kills += victim.worker is not None
        self._start(worker=victim.worker is not None)

    def _in_a_hook(self) -> _Process | None:
        """A host in the middle of a hook, as soon as there is one."""
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            busy = [one for one in self._processes if self._place.in_hook[one.number % SLOTS]]
            if busy:
                time.sleep(self._rng.uniform(0.0, 0.012))
                return self._rng.choice(busy)
            time.sleep(0.001)
        return None

    def _restart(self) -> None:
        began = time.monotonic()
        if self._report.restart == "crash":
            self._server.crash()
        else:
            self._server.stop(self._report.restart)
        time.sleep(self._rng.uniform(*_AWAY_S))
        self._server.start()
        self.away = (began, time.monotonic())
        self._report.away_s = self.away[1] - began

    def _require_alive(self) -> None:
        for process in list(self._processes):
            code = _ended(process)
            if code is None:
                continue
            if not self._found_no_server(process, code):
                self._report.faults.append(f"process {process.number} ended by itself with code {code}")
            self._processes.remove(process)
            self._start(worker=process.worker is not None)

    def _found_no_server(self, process: _Process, code: int) -> bool:
        """A worker that starts while there is none says so and ends; whoever keeps it running starts it again."""
        return (
            process.worker is not None
            and code == DATABASE
            and self.away[0] - _GRACE_S <= process.started <= self.away[1]
        )

    def _end(self) -> None:
        for process in self._processes:
            os.kill(process.pid, signal.SIGTERM)
        for process in self._processes:
            code = _wait(process)
            # One that has only just begun does not listen yet.
            early = code == -signal.SIGTERM and time.monotonic() - process.started < _GRACE_S
            if code != 0 and not early and not self._found_no_server(process, code):
                self._report.faults.append(f"process {process.number} ended with code {code} after SIGTERM")

    def _catch_up(self) -> None:
        number = self._started + 1
        pid = start_host(self._place, number, self._rng.randrange(1 << 30), ChaosHost.catch_up)
        if _wait(_Process(pid, number)) != 0:
            self._report.faults.append("the last turns could not be taken")


def _ended(process: _Process) -> int | None:
    if process.worker is not None:
        return process.worker.poll()
    pid, status = os.waitpid(process.pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None


def _wait(process: _Process) -> int:
    if process.worker is not None:
        return process.worker.wait()
    return os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])


def read_diaries(lines: list[dict[str, Any]], away: tuple[float, float], report: Report) -> None:
    """Counts what the hosts noted, and tells what must not be in it."""
    # A person who has asked for a compaction waits for the model; nobody else does.
    hooks = [line for line in lines if line["kind"] == "hook" and line["name"] != "lcm_run_command"]
    seconds = sorted(line["seconds"] for line in hooks)
    report.hooks = len(seconds)
    report.turns = sum(line["name"] == "after_turn" for line in hooks)
    if seconds:
        report.hook_p50_ms = seconds[len(seconds) // 2] * 1000
        report.hook_p95_ms = seconds[int(len(seconds) * 0.95)] * 1000
        report.hook_max_ms = seconds[-1] * 1000
    report.faults += [line["text"] for line in lines if line["kind"] == "fault"]
    events = [line for line in lines if line["kind"] == "event"]
    names = Counter(line["name"] for line in events)
    report.passes = names["compaction.pass"]
    report.conflicts = sum(line.get("reason") in _CONFLICTS for line in events)
    for line in events:
        if line["name"] in ("hook.failed", "tool.failed"):
            _judge_failure(line, away, report)


def _judge_failure(line: dict[str, Any], away: tuple[float, float], report: Report) -> None:
    if away[0] <= line["at"] <= away[1] + _GRACE_S:
        report.failed_while_away += 1
    elif line["error"] == "StoreBusy":
        report.busy += 1
    else:
        report.faults.append(
            f"{line.get('hook', 'a tool')} failed: {line['error']}: {line.get('detail', '')[:300]}"
        )


@contextmanager
def model_server(seed: int) -> Iterator[str]:
    """The URL of a model that takes its time and fails now and then, in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        rng = Random(seed)
        # A host that is killed ends its connection in the middle, which is nothing to be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

        def answer(request: Any) -> Outcome:
            delay = rng.uniform(0.2, 1.5)
            return (
                Failure(503, delay=delay)
                if rng.random() < 0.03
                else Reply(summary_of(request.prompt), delay=delay)
            )

        with ModelServer(default=answer) as server:
            os.write(writing, server.url.encode() + b"\n")
            signal.pause()
    os.close(writing)
    with os.fdopen(reading) as pipe:
        url = pipe.readline().strip()
    try:
        yield url
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def run(
    seconds: float, processes: int, conversations: int, seed: int, restart: Restart, folder: Path
) -> Report:
    """A whole run with its proof. Files stay in the folder."""
    rng = Random(seed)
    report = Report(seed=seed, restart=restart)
    _load(folder)
    with PostgresServer(durable=restart == "crash") as server, model_server(seed) as model:
        database = f"{server.url}&schema=chaos"
        Engine.open(LcmConfig(database=database)).close()
        place = Place(database, folder, model, conversations, think_s=processes / 40)
        chaos = Chaos(place, server, rng, report)
        chaos.run(seconds, processes, kill_every_s=max(2.0, seconds / 40))
        read_diaries(diaries(place), chaos.away, report)
        _add(prove(place), report)
    return report


def _add(proof: Proof, report: Report) -> None:
    report.acknowledged, report.summaries = proof.acknowledged, proof.summaries
    report.lost, report.doubled = proof.lost, proof.doubled
    report.faults += proof.faults


def _load(folder: Path) -> None:
    """Imports what every host needs, before they are forked."""
    lane = Session("agent:chaos:warm")
    with Engine.open(LcmConfig(database=str(folder / "warm.db"), **SETTINGS)) as engine:
        engine.ingest(lane, [{"role": "user", "content": f"word {number} " * 40} for number in range(40)])
        engine.compact(lane, force=True)
        engine.check()
    with suppress(ImportError):
        import psycopg_pool  # noqa: F401


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    parser.add_argument(
        "--restart", choices=get_args(Restart), help="how the server goes; by the seed if not given"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave journals and diaries there")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.getLogger("lcm_plugin").setLevel(logging.CRITICAL)
    restart = options.restart or Random(options.seed).choice(get_args(Restart))
    with tempfile.TemporaryDirectory(prefix="lcm-chaos-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        report = run(options.seconds, options.processes, options.conversations, options.seed, restart, folder)
    if options.json:
        print(json.dumps(asdict(report)))
    else:
        _print(report)
    sys.exit(bool(report.faults))


def _print(report: Report) -> None:
    print(
        f"{report.turns:,} turns in {report.seconds:.0f} s, {report.kills} kills ({report.worker_kills} of workers, "
        f"{report.kills_in_hooks} in a hook), "
        f"server {report.restart} for {report.away_s:.1f} s, seed {report.seed}"
    )
    print(
        f"{report.hooks:,} hooks: median {report.hook_p50_ms:.0f} ms, p95 {report.hook_p95_ms:.0f} ms, "
        f"longest {report.hook_max_ms:.0f} ms; {report.failed_while_away} failed with an event while the server was "
        f"away, {report.busy} busy"
    )
    print(f"{report.summaries:,} summaries, {report.passes:,} passes by hosts, {report.conflicts} conflicts")
    print(f"{report.acknowledged:,} messages acknowledged, {report.lost} lost, {report.doubled} doubled")
    print(f"{len(report.faults)} faults")
    for fault in report.faults[:20]:
        print(f"  {fault}")


if __name__ == "__main__":
    main()
