"""A host's package that is missing or too old is named in a sentence when its adapter is imported."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lcm_plugin.hosts.versions import NEEDED, needed

ROOT = Path(__file__).parents[2]


def test_the_least_versions_are_those_of_the_extras() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra: [f"{name}>={least}"] for extra, (name, least) in NEEDED.items()} == {
        extra: extras[extra] for extra in NEEDED
    }


@pytest.mark.parametrize("extra", NEEDED)
def test_an_old_package_is_a_sentence_that_says_what_to_do(tmp_path: Path, extra: str) -> None:
    distribution, least = NEEDED[extra]
    info = tmp_path / f"{distribution.replace('-', '_')}-0.6.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.6.1\n")
    module = f"lcm_plugin.hosts.{extra.replace('-', '_')}"
    lines = ["import sys", f"sys.path.insert(0, {str(tmp_path)!r})", f"import {module}"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.stderr.strip().splitlines()[-1] == (
        f"ImportError: {distribution} 0.6.1 is too old: lcm_plugin works with {distribution} {least} or newer; "
        f"pip install 'lcm_plugin[{extra}]' brings it"
    )


def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEEDED, "langchain", ("no-such-distribution", "1.1"))
    with (
        pytest.raises(ImportError, match="no-such-distribution is not installed"),
        needed("langchain"),
    ):
        pass
