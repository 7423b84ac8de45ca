"""Wheel and sdist: the same bytes each time, metadata that an index takes, and everything that their tests need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from lcm_plugin import __version__

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def build(folder: Path) -> dict[str, bytes]:
    """The content of the wheel and of the sdist, by file name."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
    return folder


@pytest.fixture(scope="module")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    [top] = folder.iterdir()
    return top


@pytest.mark.long
def test_two_builds_are_the_same_to_the_byte(built: Path, tmp_path: Path) -> None:
    assert build(tmp_path) == {path.name: path.read_bytes() for path in built.iterdir()}
    assert len(list(built.iterdir())) == 2


@pytest.mark.long
def test_an_index_takes_their_metadata(built: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "twine", "check", "--strict", *map(str, built.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


@pytest.mark.long
def test_the_sdist_holds_what_a_checkout_holds(unpacked: Path) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("this is no checkout")
    missing = [name for name in tracked.stdout.splitlines() if not (unpacked / name).exists()]
    assert [name for name in missing if not name.startswith(".github/")] == []


@pytest.mark.long
@pytest.mark.parametrize("folder", [".", "package"])
def test_the_tests_of_the_sdist_can_be_imported_there(unpacked: Path, folder: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        f"tests/{folder}",
    ]
    done = subprocess.run(command, cwd=unpacked, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]


def test_one_version_is_named_everywhere() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+),", changes, re.MULTILINE)
    assert newest is not None
    assert PROJECT["version"] == __version__ == newest[1]


def dependencies() -> dict[str, tuple[float, str]]:
    """The rows of the page: package, megabytes that only it brings, reason."""
    section = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8").partition("## Dependencies")[2]
    rows = re.findall(r"^\| `([\w.-]+)` \| ([\d.]*) ?\| (.+) \|$", section, re.MULTILINE)
    return {name: (float(size or 0), reason) for name, size, reason in rows}


def test_each_dependency_has_a_reason_on_the_page() -> None:
    named = {re.split(r"[<>=\[; ]", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert {name for name, (_, reason) in dependencies().items() if len(reason.split()) > 3} == named


@pytest.mark.long
def test_the_parts_of_a_plain_install_are_what_the_page_says_in_all(built: Path) -> None:
    page = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    whole, of_three = (
        float(re.findall(pattern, page)[0]) for pattern in (r"adds ([\d.]+) MB", r"([\d.]+) of them are this")
    )
    sizes = {name: size for name, (size, _) in dependencies().items()}
    own = of_three - sizes["tiktoken"] - sizes["sqlite-utils"]
    assert own + sum(sizes.values()) == pytest.approx(whole, abs=0.3)
    # What the wheel unpacks to, with bytecode about twice its sources on every Python.
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = {one.filename: one.file_size for one in archive.infolist()}
    sources = sum(size for name, size in files.items() if name.endswith(".py"))
    assert sum(files.values()) + 1.85 * sources == pytest.approx(own * 1e6, rel=0.1)


@pytest.mark.long
def test_a_wheel_brings_no_text_twice_and_no_large_data_but_the_encoding(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        named = [(one.filename, archive.read(one)) for one in archive.infolist() if one.file_size > 500]
    assert len({content for _, content in named}) == len(named)
    data = {name: len(content) for name, content in named if not name.endswith((".py", "/RECORD"))}
    assert [name for name, size in data.items() if size > 110_000] == ["lcm_plugin/messages/o200k_base.bin"]


HOSTS = {"bub", "langchain", "openai-agents", "pydantic-ai"}


def test_each_extra_is_in_the_table_and_has_its_cost_unless_it_is_a_hosts() -> None:
    page = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `lcm_plugin\[([\w-]+)\]` \| .+? \| (.*) \|$", page, re.MULTILINE))
    assert set(rows) == set(PROJECT["optional-dependencies"])
    costs = {name for name, cost in rows.items() if re.fullmatch(r"\+\d+ \| \+\d+ \| \+\d+", cost)}
    assert costs >= set(rows) - HOSTS
