"""Both ways into the host, and what is said when the host does not use us."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import plugins.context_engine as bundled
from fakes.answers import is_summary_request
from fakes.speech import turn
from world import BIN, World, texts

import lcm_plugin.hosts.hermes

Make = Callable[..., World]
RECALL_TOOLS = ("lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query")
FOLDER = Path(lcm_plugin.hosts.hermes.__file__).parent / "folder"


def test_the_installed_package_is_found_and_stores_a_one_shot_turn(world: Make) -> None:
    home = world()
    done = home.hermes("chat", "-Q", "-q", "hello there")
    assert "Noted: hello there" in done.stdout, done.stdout + done.stderr
    assert texts(home.stored()) == ["hello there", "Noted: hello there"]
    assert home.problems() == []


def test_a_plugin_folder_is_found_and_does_the_same(world: Make) -> None:
    home = world(enabled=("lcm-folder",))
    folder = home.home / "plugins" / "lcm-folder"
    shutil.copytree(FOLDER, folder)
    manifest = folder / "plugin.yaml"
    manifest.write_text(manifest.read_text().replace("name: lcm\n", "name: lcm-folder\n"))
    home.hermes("chat", "-Q", "-q", "hello there")
    assert texts(home.stored()) == ["hello there", "Noted: hello there"]


def test_the_engine_in_the_agent_is_ours_and_its_tools_are_offered(world: Make) -> None:
    home = world()
    engine = home.scenario("loop", turns=["hello"])["engine"]
    assert engine["class"] == "LcmContextEngine"
    assert engine["status"]["engine"] == "lcm"
    offered = home.server.requests[-1].tools
    assert set(RECALL_TOOLS) <= set(offered)


def test_an_agent_without_the_toolset_is_offered_no_recall_tool_and_stores_all_the_same(world: Make) -> None:
    home = world()
    home.scenario("loop", turns=["hello"], enabled_toolsets=["todo"])
    assert home.server.requests[-1].tools == ("todo",)
    assert texts(home.stored()) == ["hello", "Noted: hello"]


def test_the_recall_tools_cost_less_than_two_thousand_tokens_of_schema(world: Make) -> None:
    home = world()
    home.scenario("loop", turns=["hello"], enabled_toolsets=["context_engine"])
    tools = home.server.requests[-1].body["tools"]
    assert [tool["function"]["name"] for tool in tools] == list(RECALL_TOOLS)
    assert len(json.dumps(tools)) / 4 < 2_000


def test_summaries_are_written_by_the_hosts_auxiliary_model(world: Make) -> None:
    home = world(
        lcm={"contextThreshold": 0.1, "freshTailCount": 4, "leafChunkTokens": 2000},
        host={"auxiliary": {"compression": {"provider": "custom", "model": "small-model"}}},
    )
    home.host["auxiliary"]["compression"] |= {"base_url": home.server.url, "api_key": "sk-fake"}
    home.configure()
    home.scenario("loop", turns=[turn(number, 600) for number in range(1, 13)])
    models = {is_summary_request(request): set() for request in home.server.requests}
    for request in home.server.requests:
        models[is_summary_request(request)].add(request.body["model"])
    assert models == {True: {"small-model"}, False: {"fake-model"}}


def test_the_hosts_folder_of_engines_offers_less_and_gets_an_engine_all_the_same(world: Make) -> None:
    assert world().scenario("collected") == {"engine": "lcm", "offers_skills": False}


def test_registering_opens_and_writes_nothing_and_loads_no_engine(world: Make) -> None:
    home = world()
    found = home.scenario("registered")
    assert found["engine"] == "lcm"
    assert "lcm_plugin.hosts.hermes.engine" in found["loaded"]
    heavy = (
        "lcm_plugin.engine",
        "lcm_plugin.config",
        "lcm_plugin.store.records",
        "pydantic_settings",
        "tiktoken",
    )
    assert not {"litellm", "sqlite_utils", *heavy} & set(found["loaded"])
    assert not home.database.parent.exists()


def test_doctor_says_that_everything_is_in_place(world: Make) -> None:
    assert world().scenario("doctor") == ["info hermes.store", "info hermes.active"]


def test_doctor_and_the_log_say_loudly_that_the_host_selected_another_engine(world: Make) -> None:
    home = world(selected="compressor")
    assert "error hermes.not_selected" in home.scenario("doctor")
    home.hermes("chat", "-Q", "-q", "hello there")
    assert "LCM IS NOT ACTIVE: Hermes uses the context engine 'compressor'" in home.log
    assert "hermes config set context.engine lcm" in home.log
    assert not home.database.exists()


def test_doctor_names_a_plugin_that_is_not_enabled(world: Make) -> None:
    assert "error hermes.not_enabled" in world(enabled=()).scenario("doctor")


def test_the_pages_first_check_works_while_the_plugin_is_not_enabled(world: Make) -> None:
    shown = world(enabled=()).run(str(BIN / "lcm"), "doctor", "--host", "hermes", timeout=120)
    assert shown.returncode == 1, shown.stdout + shown.stderr
    assert "hermes plugins enable lcm" in shown.stdout


def test_doctor_warns_when_the_host_never_compacts_or_offers_no_tools(world: Make) -> None:
    home = world(host={"compression": {"enabled": False}, "platform_toolsets": {"telegram": []}})
    assert {"warning hermes.compression_off", "warning hermes.no_tools"} <= set(home.scenario("doctor"))


def test_a_setting_that_does_nothing_is_a_finding_and_a_log_line_and_no_warning_on_the_terminal(
    world: Make,
) -> None:
    older = {"LCM_CONDENSATION_FANIN": "3", "LCM_L2_BUDGET_RATIO": "0.4"}
    home = world(lcm={"contextTreshold": 0.5}, variables=older)
    assert home.scenario("doctor").count("warning hermes.setting") == 2
    shown = home.hermes("chat", "-Q", "-q", "hello there")
    assert "hello there" in shown.stdout
    assert "Warning" not in shown.stderr
    assert "contextTreshold" not in shown.stdout + shown.stderr
    assert "did you mean 'contextThreshold'" in home.log
    told = [line for line in home.log.splitlines() if "LCM_L2_BUDGET_RATIO" in line]
    assert "LCM_CONDENSATION_FANIN (here condensedMinFanout)" in told[0]


def test_doctor_names_a_leftover_folder_that_wins_over_the_plugin(world: Make, tmp_path: Path) -> None:
    installed = Path(str(bundled.__file__)).parent
    shadow = tmp_path / "shadow" / "plugins"
    (shadow / "context_engine" / "lcm").mkdir(parents=True)
    for original, copied in ((installed.parent, shadow), (installed, shadow / "context_engine")):
        for entry in original.iterdir():
            if not (copied / entry.name).exists():
                (copied / entry.name).symlink_to(entry)
    home = world(shadows=(shadow.parent,))
    assert "error hermes.leftover" in home.scenario("doctor")


def test_the_skill_can_be_read_by_its_name(world: Make) -> None:
    home = world()
    assert home.scenario("skills") == ["lcm:lcm"]


def test_the_host_shell_has_our_command_on_the_hosts_database(world: Make) -> None:
    home = world()
    home.hermes("chat", "-Q", "-q", "hello there")
    shown = home.hermes("lcm", "doctor")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert str(home.database) in home.hermes("lcm", "status").stdout.replace("\n", "")
