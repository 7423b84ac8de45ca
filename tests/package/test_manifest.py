"""``plugin.json`` says what the code does, and the wheel carries what a host looks for."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import jsonschema
import pytest

from lcm_plugin.config import LcmConfig, setting_names
from lcm_plugin.manifest import as_text, manifest
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.recall.tools import tool_names

ROOT = Path(__file__).resolve().parents[2]


def test_the_file_in_the_repository_is_what_the_code_says() -> None:
    assert (ROOT / "plugin.json").read_text(encoding="utf-8") == as_text(), (
        "run: python -m lcm_plugin.manifest > plugin.json"
    )


def test_it_lists_the_hooks_tools_and_commands() -> None:
    said = manifest()
    assert said["id"] == "lcm"
    assert {"before_turn", "after_turn", "before_reset", "session_end"} <= set(said["hooks"]["implements"])
    assert said["hooks"]["calls"] == ["lcm_complete", "lcm_event"]
    assert "lcm_grep" in said["tools"]
    assert any(command["name"].startswith("/lcm") for command in said["commands"])


def test_every_setting_has_a_schema_a_label_and_help() -> None:
    said = manifest()
    keys = {setting_names()[key] for key in said["configSchema"]["properties"]}
    assert keys == set(LcmConfig.model_fields)
    assert set(said["uiHints"]) == set(said["configSchema"]["properties"])
    assert all(hint["label"] and hint["help"] for hint in said["uiHints"].values())


# What OpenClaw's loader takes of a manifest, by its page on plugin manifests and its loader of November 2026.
CONVENTIONS = {
    "type": "object",
    "required": ["id", "configSchema"],
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
        "name": {"type": "string"},
        "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+"},
        "description": {"type": "string", "minLength": 1},
        "kind": {"enum": ["memory", "context-engine"]},
        "skills": {"type": "array", "items": {"type": "string", "pattern": "^[^/.]"}, "minItems": 1},
        "contracts": {
            "type": "object",
            "required": ["tools"],
            "properties": {"tools": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}},
        },
        "configSchema": {
            "type": "object",
            "required": ["type", "properties"],
            "properties": {"type": {"const": "object"}, "properties": {"type": "object"}},
        },
        "uiHints": {
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "label": {"type": "string"},
                    "help": {"type": "string"},
                    "placeholder": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "advanced": {"type": "boolean"},
                    "sensitive": {"type": "boolean"},
                },
            }
        },
    },
}
LARGEST_MANIFEST = 256 * 1024


def test_it_keeps_the_conventions_of_openclaws_manifests() -> None:
    said = manifest()
    jsonschema.Draft202012Validator(CONVENTIONS).validate(said)
    assert len(as_text().encode()) < LARGEST_MANIFEST
    assert all((ROOT / folder / "SKILL.md").is_file() for folder in said["skills"])


def test_its_contract_names_every_tool_that_any_settings_bring() -> None:
    with_all = tool_names(LcmConfig(pin_tool=True, maps=True))
    assert set(manifest()["contracts"]["tools"]) == set(with_all) >= set(manifest()["tools"])


def test_its_entry_point_is_the_plugin() -> None:
    said = manifest()["entryPoint"]
    (found,) = entry_points(group=said["group"], name=said["name"])
    assert found.value == said["object"]
    assert isinstance(found.load(), LcmPlugin)


def test_the_schema_of_the_settings_is_one_and_takes_the_defaults() -> None:
    schema = manifest()["configSchema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    defaults = {key: rule["default"] for key, rule in schema["properties"].items() if "default" in rule}
    assert len(defaults) > 50
    jsonschema.Draft202012Validator(schema).validate(defaults)
    with pytest.raises(jsonschema.ValidationError, match="many"):
        jsonschema.Draft202012Validator(schema).validate({"maxSweepPasses": "many"})


@pytest.mark.parametrize(
    ("key", "value"),
    [("newSessionRetainDepth", -1), ("incrementalMaxDepth", -1), ("freshTailMaxTokens", None)],
)
def test_documented_special_values_are_within_the_schema(key: str, value: object) -> None:
    rule = manifest()["configSchema"]["properties"][key]
    choices = rule.get("anyOf", [rule])
    if value is None:
        assert {"type": "null"} in choices
    else:
        assert any(choice.get("minimum", 0) <= value for choice in choices if choice.get("type") == "integer")
    LcmConfig(**{key: value})


def test_the_wheel_carries_plugin_json_the_skill_and_the_entry_point(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [points] = [archive.read(name).decode() for name in names if name.endswith("entry_points.txt")]
        carried = json.loads(archive.read("lcm_plugin/plugin.json"))
    assert carried == manifest()
    assert "[lcm.plugins]\nlcm = lcm_plugin.plugin:plugin" in points
    assert {"lcm_plugin/py.typed", "lcm_plugin/skills/lcm/SKILL.md"} <= set(names)
    page = sorted((ROOT / "lcm_plugin" / "interchange" / "export" / "page").iterdir())
    assert {str(part.relative_to(ROOT)) for part in page} <= set(names)
    assert not any(name.startswith(("tests/", "benchmarks/")) for name in names)
