"""Python programs as forks of a process that has imported the package already.

A new interpreter takes up to a second of CPU for its imports alone. What is tested by killing a program, by letting
several write at once, or by looking at what one prints, needs a process of its own but not that. Each test process
keeps one such server, and it ends with it.
"""

from __future__ import annotations

import atexit
import io
import multiprocessing
import os
import runpy
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

_IMPORTED = (
    "lcm_plugin.cli.app",
    "lcm_plugin.cli.commands",
    "lcm_plugin.cli.commands.look",
    "lcm_plugin.cli.console",
    "lcm_plugin.cli.dag",
    "lcm_plugin.cli.replay.play",
    "lcm_plugin.cli.tables",
    "lcm_plugin.memory",
    "lcm_plugin.plugin",
    "lcm_plugin.store.postgres.store",
    "lcm_plugin.store.sqlite.store",
    "markdown_it",
    "prometheus_client",
    "psycopg",
    "psycopg_pool",
    "pytest",
    "sqlite_utils",
)
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(list(_IMPORTED))


@dataclass(frozen=True)
class Done:
    """How a program ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


class Running:
    """A program that runs: ``python WORDS``, where they begin with ``-c CODE`` or a file's path.

    ``stdin``, ``stdout`` and ``stderr`` are paths; the files that are not named are nobody's. ``env`` is the whole
    environment, by default this process's as it is now. ``strict`` makes its warnings errors.
    """

    def __init__(
        self,
        *words: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        stdin: str | Path = os.devnull,
        stdout: str | Path = os.devnull,
        stderr: str | Path = os.devnull,
        strict: bool = False,
    ) -> None:
        files = [str(stdin), str(stdout), str(stderr)]
        environment = dict(os.environ if env is None else env)
        arguments = (list(map(str, words)), environment, str(cwd or Path.cwd()), files, strict)
        self._process = FORKS.Process(target=_program, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """How it ended, a signal as a negative number, or none while it runs."""
        return self._process.exitcode

    def wait(self, seconds: float = 300.0) -> int:
        """How it ended, once it has."""
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            self.kill()
            raise AssertionError(f"it did not end within {seconds} s")
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.join()


def run(
    *words: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    stdin: str = "",
    strict: bool = False,
) -> Done:
    """Runs a program to its end; the arguments are those of `Running`, ``stdin`` is text."""
    with TemporaryDirectory(prefix="lcm-run-") as folder:
        given, out, err = (Path(folder) / name for name in ("stdin", "stdout", "stderr"))
        given.write_text(stdin, encoding="utf-8")
        code = Running(*words, env=env, cwd=cwd, stdin=given, stdout=out, stderr=err, strict=strict).wait()
        return Done(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


@contextmanager
def piped(
    *words: str | Path, env: Mapping[str, str] | None = None, strict: bool = False
) -> Iterator[tuple[Running, IO[str]]]:
    """A program and what it prints, as it does; it is killed in the end. The arguments are those of `Running`."""
    with TemporaryDirectory(prefix="lcm-pipe-") as folder:
        pipe = Path(folder) / "stdout"
        os.mkfifo(pipe)
        running = Running(*words, env=env, stdout=pipe, strict=strict)
        try:
            with pipe.open(encoding="utf-8") as printed:
                yield running, printed
        finally:
            running.kill()


def _program(words: list[str], env: dict[str, str], cwd: str, files: list[str], strict: bool) -> None:
    """The fork's life, as an interpreter's."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    for number, path in enumerate(files):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        opened = os.open(path, flags | os.O_NOCTTY, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = _text(0, "r"), _text(1, "w"), _text(2, "w")
    if strict:
        warnings.simplefilter("error")
    code = _ended_with(words)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _text(number: int, mode: str) -> Any:
    binary = open(number, f"{mode}b", buffering=-1, closefd=False)  # noqa: SIM115 - lives as long as the process
    return io.TextIOWrapper(binary, encoding="utf-8", line_buffering=number == 2 or os.isatty(number))


def _ended_with(words: list[str]) -> int:
    try:
        if words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = words
            sys.path.insert(0, str(Path(words[0]).parent))
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
        return 1
    return 0
