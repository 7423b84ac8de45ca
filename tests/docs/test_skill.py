"""The skill keeps to the Agent Skills format and names only what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lcm_plugin.commands import command_list
from lcm_plugin.config import LcmConfig, setting_names
from lcm_plugin.hosts.mcp.tools import STATUS, offered
from lcm_plugin.recall.tools import tool_schemas

SKILL = Path(__file__).resolve().parents[2] / "skills" / "lcm"
PAGES = sorted(SKILL.rglob("*.md"))
CODE = re.compile(r"`([^`\n]+)`")


def spoken() -> list[tuple[str, str]]:
    return [(page.name, code) for page in PAGES for code in CODE.findall(page.read_text(encoding="utf-8"))]


def front_matter() -> dict[str, str]:
    _, head, _ = (SKILL / "SKILL.md").read_text(encoding="utf-8").split("---\n", 2)
    return dict(line.split(": ", 1) for line in head.strip().splitlines())


def test_name_and_description_are_within_the_formats_limits() -> None:
    head = front_matter()
    assert head["name"] == SKILL.name == "lcm"
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", head["name"])
    assert 1 <= len(head["description"]) <= 1_024
    assert "Use it when" in head["description"]


def test_pages_are_short_enough_to_be_read() -> None:
    assert len((SKILL / "SKILL.md").read_text(encoding="utf-8").splitlines()) < 500
    assert all(len(page.read_text(encoding="utf-8").splitlines()) < 200 for page in PAGES)


def test_every_reference_is_linked_from_the_skill() -> None:
    text = (SKILL / "SKILL.md").read_text(encoding="utf-8")
    for page in (SKILL / "references").glob("*.md"):
        assert f"(references/{page.name})" in text


def test_every_tool_named_exists_and_every_tool_is_named() -> None:
    tools = {tool["function"]["name"] for tool in tool_schemas(LcmConfig(pin_tool=True, maps=True))}
    named = {word for _, code in spoken() for word in re.findall(r"\blcm_[a-z_]+", code)}
    assert named == tools | {STATUS}


def test_what_it_says_of_mcp_is_what_the_server_offers() -> None:
    page = (SKILL / "references" / "recall-tools.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"^Through MCP .*?\n\n", page, re.MULTILINE | re.DOTALL)
    whole = {tool.name: tool for tool in offered(one_session=False, asking=False)}
    assert set(whole) | {"lcm_expand_query"} == {tool.name for tool in offered(one_session=True, asking=True)}
    assert "lcm_expand_query" not in whole
    assert "all_conversations" not in whole["lcm_grep"].schema["properties"]
    assert "conversation_id" in whole["lcm_grep"].schema["properties"]
    for name in (STATUS, "lcm_expand_query", "all_conversations", "conversation_id"):
        assert f"`{name}`" in said


def test_every_argument_of_every_tool_is_named() -> None:
    page = (SKILL / "references" / "recall-tools.md").read_text(encoding="utf-8")
    for tool in tool_schemas(LcmConfig(pin_tool=True, maps=True)):
        arguments = set(tool["function"]["parameters"]["properties"])
        assert {name for name in arguments if f"`{name}`" not in page} == set(), tool["function"]["name"]


def test_every_command_named_exists() -> None:
    known = {entry["name"].split()[1] if " " in entry["name"] else "" for entry in command_list()}
    for page, code in spoken():
        match = re.match(r"/lcm(?: (\w+))?", code)
        if match:
            assert (match[1] or "") in known | {""}, f"{page}: {code}"


def test_every_shell_command_named_exists() -> None:
    from typer.main import get_command

    from lcm_plugin.cli.app import app

    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    for page, code in spoken():
        match = re.match(r"lcm ([\w-]+)", code)
        if match:
            assert match[1] in known, f"{page}: {code}"


@pytest.mark.parametrize(("page", "code"), spoken(), ids=lambda value: value)
def test_every_setting_named_exists(page: str, code: str) -> None:
    names = set(setting_names())
    for word in re.split(r",\s*", code):
        if re.fullmatch(r"[a-z]+(?:[A-Z][a-z]+)+", word):
            assert word in names, f"{page}: {word}"


def test_the_skill_and_the_settings_agree_on_what_starts_a_pass() -> None:
    text = (SKILL / "references" / "architecture.md").read_text(encoding="utf-8")
    (starts,) = re.findall(r"When `(\w+)` stand before the tail", text)
    assert "start a pass" in (LcmConfig.model_fields[setting_names()[starts]].description or "")


def test_the_defaults_in_the_settings_table_are_the_real_ones() -> None:
    page = (SKILL / "references" / "configuration.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", page, re.MULTILINE)
    names = setting_names()
    assert len(rows) > 5
    for key, default in rows:
        assert float(default) == LcmConfig.model_fields[names[key]].default
