"""What a plain install and each extra cost: CPU seconds, megabytes and packages.

    python benchmarks/extras.py                     # the table of docs/installing.md, as Markdown
    python benchmarks/extras.py --only mcp postgres
    python benchmarks/extras.py --parts             # of which dependency the plain install's megabytes are

The wheel of this checkout is installed alone, and each extra into a copy of that environment. Seconds are CPU seconds
of ``pip install`` without its cache, so that neither the network nor other work on the machine is in them; megabytes are
what it adds on disk, compiled bytecode included. ``(host)`` names extras that are mostly the host's own packages.
``--parts`` installs it beside pydantic and httpx, as most hosts have them; a package that several need is counted with the
first of them.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOSTS = {"bub", "langchain", "openai-agents", "pydantic-ai"}


@dataclass(frozen=True)
class Cost:
    """One installation: CPU seconds, bytes and distributions beyond an empty environment."""

    seconds: float
    bytes: int
    packages: int


def _cpu_seconds() -> float:
    """What the child processes so far have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def size_of(folder: Path) -> int:
    """The bytes of all files below a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def count(python: Path) -> int:
    """How many distributions an environment has."""
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], capture_output=True, check=True, text=True
    )
    return len(listed.stdout.splitlines())


def install(python: Path, wheel: Path, extra: str) -> Cost:
    """Installs the wheel, with an extra if one is named, into an environment."""
    begun, size, packages = _cpu_seconds(), size_of(python.parents[1]), count(python)
    wanted = f"lcm_plugin[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    options = ["--quiet", "--no-cache-dir", "--disable-pip-version-check"]
    subprocess.run([python, "-m", "pip", "install", *options, wanted], check=True)
    used = _cpu_seconds() - begun
    return Cost(used, size_of(python.parents[1]) - size, count(python) - packages)


# Run by the environment's own Python: what each distribution there needs, and its bytes.
LIST = """
import importlib.metadata, json
print(json.dumps({one.name: [
    [need for need in one.requires or () if "extra ==" not in need],
    sum(file.locate().stat().st_size for file in one.files or () if file.locate().is_file()),
] for one in importlib.metadata.distributions()}))
"""


def installed(python: Path) -> dict[str, tuple[list[str], int]]:
    """Each distribution of an environment, by its normalised name: the names that it needs, and its bytes."""
    told = subprocess.run([python, "-c", LIST], capture_output=True, check=True, text=True).stdout
    return {
        normal(name): ([normal(need) for need in needs], size)
        for name, (needs, size) in json.loads(told).items()
    }


def normal(requirement: str) -> str:
    """The normalised name of a requirement's distribution."""
    name = re.match(r"[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""


def parts(before: Iterable[str], after: dict[str, tuple[list[str], int]], top: str) -> dict[str, int]:
    """The bytes that ``top`` and each of its dependencies bring with all that these need, each counted once."""
    counted = {*before, top, *after[top][0]}
    found = {top: after[top][1]}
    for name in after[top][0]:
        if name not in before:
            found[name], waiting = after[name][1], list(after[name][0])
            while waiting:
                need = waiting.pop()
                if need in after and need not in counted:
                    counted.add(need)
                    found[name] += after[need][1]
                    waiting += after[need][0]
    return found


def extras() -> list[str]:
    """The extras that this Python can have, as pyproject.toml names them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = list(project["optional-dependencies"])
    return [name for name in names if name != "bub" or sys.version_info >= (3, 12)]


def print_parts(python: Path, wheel: Path) -> None:
    """Installs the wheel beside pydantic and httpx and prints the parts of what that added."""
    subprocess.run([python, "-m", "pip", "install", "--quiet", "pydantic", "httpx"], check=True)
    before = installed(python)
    whole = install(python, wheel, "")
    print(f"{whole.seconds:.0f} CPU seconds, {whole.bytes / 1e6:.1f} MB, {whole.packages} packages\n")
    for name, size in parts(before, installed(python), "lcm-plugin").items():
        print(f"| `{name}` | {size / 1e6:.1f} |")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=extras(), metavar="EXTRA", help="these extras, not all")
    parser.add_argument("--parts", action="store_true", help="the dependencies of the plain install")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lcm-extras-") as folder:
        base = Path(folder) / "base"
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        [wheel] = Path(folder).glob("*.whl")
        venv.create(base, with_pip=True)
        if arguments.parts:
            print_parts(base / "bin" / "python", wheel)
            return
        print("| install | CPU seconds | MB | packages |\n|---|---|---|---|")
        plain = install(base / "bin" / "python", wheel, "")
        print(
            f"| `lcm_plugin` | {plain.seconds:.0f} | {plain.bytes / 1e6:.0f} | {plain.packages} |", flush=True
        )
        for extra in arguments.only:
            place = shutil.copytree(base, Path(folder) / extra, symlinks=True)
            cost = install(place / "bin" / "python", wheel, extra)
            shutil.rmtree(place)
            name = f"`lcm_plugin[{extra}]`{' (host)' if extra in HOSTS else ''}"
            print(
                f"| {name} | +{cost.seconds:.0f} | +{cost.bytes / 1e6:.0f} | +{cost.packages} |", flush=True
            )


if __name__ == "__main__":
    main()
