"""A hook of a host that starts a process for each: ``python -I -S hook_client.py FOLDER PARENT LOG [--database …]``.

It hands what the host says to the server of the same session (`hook_socket`), and prints the answer. Where no server
is, the hook runs as a process of its own (`command`). A server that hangs is noted beside its socket, so that the hooks
behind the first one do not wait for it again. Without its packages Python starts in 20 ms, so that nothing here may
import one. It never fails: a hook that ends with an error may block the turn.
"""

import os
import sys

# The module over it takes longer to import than all the rest.
from _socket import AF_UNIX, SHUT_WR, SOCK_STREAM, socket

# A server that lives says at once that it has the call; its answer is due in the time that it gives itself.
_ALIVE_SECONDS, _SECONDS = 0.3, 6.0
_ALIVE_AGAIN_SECONDS, _AGAIN_SECONDS = 0.05, 0.3
_NOTE = "late-"
_TIMEOUT_VARIABLE = "PLUGIN_TIMEOUT_OF_LCM_MS"
_CHUNK = 1 << 16
_NOTHING = b"{}\n"
_MODULE = "lcm_plugin.hosts.agents.command"


def main(arguments: list[str]) -> None:
    """Answers one hook."""
    folder, parent, *rest = arguments
    said = sys.stdin.buffer.read()
    answer = _of_server(folder, f"{parent}-", said)
    sys.stdout.buffer.write(_of_process(rest, said) if answer is None else answer)


def _of_server(folder: str, mark: str, said: bytes) -> bytes | None:
    """What the session's server answers; None where there is none."""
    here = os.getcwd()
    try:
        # A name without its folder is never too long for a socket.
        os.chdir(folder)
        about = os.stat(".")
        if about.st_uid != os.geteuid() or about.st_mode & 0o077:
            return None
        # A server that was started again stands beside the one that went.
        found = sorted((name for name in os.listdir(".") if name.startswith(mark)), key=_age)
        return next((answer for name in found if (answer := _asked(name, said)) is not None), None)
    except OSError:
        return None
    finally:
        os.chdir(here)


def _age(name: str) -> float:
    try:
        return -os.lstat(name).st_mtime
    except OSError:
        return 0.0


def _asked(name: str, said: bytes) -> bytes | None:
    connection = socket(AF_UNIX, SOCK_STREAM)
    noted = os.path.exists(_NOTE + name)
    alive, whole = (_ALIVE_AGAIN_SECONDS, _AGAIN_SECONDS) if noted else (_alive_seconds(), _SECONDS)
    connection.settimeout(alive)
    try:
        connection.connect(name)
        connection.sendall(said)
        connection.shutdown(SHUT_WR)
        parts = []
        while part := connection.recv(_CHUNK):
            parts.append(part)
            connection.settimeout(whole)
    except TimeoutError:
        _note(name)
        return _NOTHING
    except OSError:
        return None
    finally:
        connection.close()
    answer = b"".join(parts).lstrip()
    if not answer.endswith(b"\n"):
        return None
    if noted:
        _forget(name)
    return answer


def _alive_seconds() -> float:
    try:
        return max(_ALIVE_SECONDS, float(os.environ.get(_TIMEOUT_VARIABLE) or 0) / 1_000)
    except ValueError:
        return _ALIVE_SECONDS


def _note(name: str) -> None:
    """Notes that the server of a socket did not answer in time."""
    try:
        os.close(os.open(_NOTE + name, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError:
        return


def _forget(name: str) -> None:
    try:
        os.unlink(_NOTE + name)
    except OSError:
        # Another hook did.
        return


def _of_process(arguments: list[str], said: bytes) -> bytes:
    import subprocess

    command = [sys.executable, "-P", "-m", _MODULE, *arguments]
    return subprocess.run(command, input=said, stdout=subprocess.PIPE, check=False).stdout


if __name__ == "__main__":
    main(sys.argv[1:])
