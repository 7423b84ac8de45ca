"""The documentation tells the truth: code blocks run, links lead somewhere."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import processes
from fakes.processes import Done

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "skills").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EVERY_PAGE = sorted({*PAGES, *(ROOT / "docs").rglob("*.md")})
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)


def blocks() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for number, code in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), 1):
            yield f"{page.relative_to(ROOT)}:{number}", code


def run(code: str, folder: Path) -> Done:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LCM_")}
    environment = {**kept, "LCM_DATABASE_PATH": str(folder / "lcm.db"), "HOME": str(folder)}
    return processes.run("-c", code, env=environment, cwd=folder, strict=True)


@pytest.mark.parametrize(
    ("place", "code"), list(blocks()), ids=lambda value: value if len(value) < 60 else ""
)
def test_a_code_block_runs(tmp_path: Path, place: str, code: str) -> None:
    done = run(code, tmp_path)
    assert done.returncode == 0, f"{place}\n{done.stderr}"


PRINTED = re.compile(
    r"^```python\n(?P<code>.*?)^```\n+prints\n+```\n(?P<said>.*?)^```", re.MULTILINE | re.DOTALL
)


def test_what_a_page_says_that_a_block_prints_is_what_it_prints(tmp_path: Path) -> None:
    shown = [match for page in PAGES for match in PRINTED.finditer(page.read_text(encoding="utf-8"))]
    assert shown
    for match in shown:
        said = re.escape(match["said"]).replace("…", ".*")
        assert re.fullmatch(said, run(match["code"], tmp_path).stdout)


def test_the_host_of_one_page_is_20_lines_and_remembers(tmp_path: Path) -> None:
    [code] = BLOCK.findall((ROOT / "docs" / "hosting.md").read_text(encoding="utf-8"))[:1]
    assert len(code.splitlines()) <= 20
    watched = code.replace(
        "def model(messages):", "def model(messages):\n    print(len(messages), 'messages')", 1
    )
    first, second = run(watched, tmp_path), run(watched, tmp_path)
    assert first.stdout.splitlines()[0] == "1 messages"
    assert second.stdout.splitlines()[0] == "5 messages"
    assert "What is my cat called?" in second.stdout


def test_the_hosts_own_model_and_its_ears_are_used(tmp_path: Path) -> None:
    [code] = BLOCK.findall((ROOT / "docs" / "hosting.md").read_text(encoding="utf-8"))[1:2]
    done = run(code + "manager.get_plugin('lcm').engine.wait_idle()\n", tmp_path)
    assert "asked for summary in" in done.stdout
    assert "ingest.stored" in done.stdout
    assert "compaction.pass" in done.stdout


def test_a_plugin_loaded_by_entry_point_can_be_attached(tmp_path: Path) -> None:
    [code] = BLOCK.findall((ROOT / "docs" / "hosting.md").read_text(encoding="utf-8"))[1:2]
    loaded = code.replace(
        "register(manager)\n",
        "from lcm_plugin.hookspecs import HostHooks, PluginHooks\n"
        "manager.add_hookspecs(HostHooks)\nmanager.add_hookspecs(PluginHooks)\n"
        "manager.load_setuptools_entrypoints('lcm.plugins')\n"
        "manager.get_plugin('lcm').attach(manager)\n",
    )
    assert loaded != code
    assert "ingest.stored" in run(loaded, tmp_path).stdout


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, anchor = link.partition("#")
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(place), f"{page.name}: {link}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_the_readme() -> None:
    """By links, from page to page."""
    root = Path(__file__).resolve().parents[2]
    reached: set[Path] = set()
    waiting = [root / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        links = re.findall(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        waiting += [(page.parent / link).resolve() for link in links if "://" not in link]
    assert set((root / "docs").rglob("*.md")) <= reached


def test_every_benchmark_is_named_on_its_page() -> None:
    root = Path(__file__).resolve().parents[2]
    text = (root / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    scripts = {path.name for path in (root / "benchmarks").glob("*.py")}
    assert {name for name in scripts if name not in text} == set()
