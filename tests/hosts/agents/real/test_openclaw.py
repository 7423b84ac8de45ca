"""OpenClaw with lcm in its context engine slot: turns are committed there, and contexts come from there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from real_agents import Openclaw
from stored import rows_of, said_in, talk_of, twice

from lcm_plugin.hosts.agents.plugin_files import openclaw_files
from lcm_plugin.manifest import as_text, manifest

BOTH = '[[call exec {"command":"echo one"}]] [[call exec {"command":"echo two"}]]'


def test_turns_are_committed_once_and_the_context_comes_from_there(openclaw: Openclaw) -> None:
    session = openclaw.say(f"The gate code is HERON-4417. {BOTH} [[say Noted.]]")
    talk = talk_of(openclaw.database, session)
    assert talk[0].role == "user"
    assert talk[0].said.startswith("The gate code is HERON-4417.")
    assert [name for row in talk for name in row.calls] == ["exec", "exec"]
    assert talk[-1].said == "Noted."
    openclaw.say("And the garage? [[say Nobody told me.]]")
    assert said_in(openclaw.database, session)[-1] == ("assistant", "Nobody told me.")
    assert twice(rows_of(openclaw.database)) == []
    request = openclaw.models.talk("And the garage?")[-1]
    assert "Noted." in request.text
    said = openclaw.lcm("doctor", "--host", "openclaw")
    assert "openclaw.last_turn: the last turn is stored" in said


def read_manifests(*asked: tuple[Path, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What OpenClaw's own loader makes of each folder's manifest, and what is wrong with these settings by it."""
    agents = Path(os.environ["LCM_TEST_AGENTS"])
    command = [
        str(agents / "node" / "node_modules" / "node" / "bin" / "node"),
        str(Path(__file__).with_name("read_manifests.mjs")),
        str(agents / "openclaw" / "node_modules" / "openclaw"),
    ]
    folders = [{"folder": str(folder), "settings": settings} for folder, settings in asked]
    done = subprocess.run(command, input=json.dumps({"folders": folders}), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert [one for one in found if "error" in one] == []
    return found


def test_its_loader_reads_both_manifests_and_nothing_of_them_is_dropped(tmp_path: Path) -> None:
    ours, adapter = tmp_path / "ours", tmp_path / "lcm"
    ours.mkdir()
    (ours / "openclaw.plugin.json").write_text(as_text(), encoding="utf-8")
    for name, text in openclaw_files(None, {}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    said = manifest()
    defaults = {
        key: rule["default"] for key, rule in said["configSchema"]["properties"].items() if "default" in rule
    }
    settings = [defaults, {"contextThreshold": 0.5}, {"contextThreshold": 7}, {"maxSweepPasses": "many"}]
    read, of_adapter = read_manifests((ours, settings), (adapter, [{}, {"window": 1}]))

    for key in (
        "id",
        "name",
        "version",
        "description",
        "kind",
        "skills",
        "contracts",
        "configSchema",
        "uiHints",
    ):
        assert read["manifest"][key] == said[key], key
    whole, changed, too_large, no_number = read["errors"]
    assert (whole, changed) == ([], [])
    assert too_large != []
    assert too_large[0].startswith("contextThreshold")
    assert no_number == ["maxSweepPasses: must be integer"]

    written = json.loads((adapter / "openclaw.plugin.json").read_text(encoding="utf-8"))
    assert {key: of_adapter["manifest"][key] for key in written} == written
    assert of_adapter["errors"][0] == []
    assert of_adapter["errors"][1] != []
