"""Session ids of the host and the lanes they belong to."""

from __future__ import annotations

import threading
from typing import Any, cast

from lcm_plugin.hosts.hermes.engine import HermesEngine
from lcm_plugin.hosts.hermes.lanes import Lanes, LiveEngines
from lcm_plugin.store.session_keys import hermes_key


class StateDb:
    """The two columns of the host's session table that say where a session came from."""

    def __init__(self, **rows: dict[str, Any]) -> None:
        self.rows = rows

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        return self.rows.get(session_id)


def nothing_stored(_: str) -> None:
    return None


def test_a_new_session_gets_a_lane_of_its_own() -> None:
    lanes = Lanes(nothing_stored)
    one, two = (lanes.session(name, "cli", "main") for name in ("s1", "s2"))
    assert (one.key, one.id) == ("agent:main:cli:s1", "s1")
    assert two.key != one.key


def test_a_lane_keeps_its_key_when_a_compaction_renames_the_session() -> None:
    lanes = Lanes(nothing_stored)
    first = lanes.session("s1", "cli", "main")
    lanes.continue_as("s1", "s2")
    assert lanes.session("s2", "cli", "main").key == first.key


def test_another_process_finds_the_lane_in_the_store_whatever_the_platform() -> None:
    lanes = Lanes({"s1": "agent:main:telegram:s1"}.get)
    assert lanes.session("s1", "cli", "main").key == "agent:main:telegram:s1"


def test_a_renamed_session_is_followed_through_the_hosts_own_records() -> None:
    records = StateDb(
        s3={"parent_session_id": "s2"},
        s2={"parent_session_id": "s1", "end_reason": "compression"},
        s1={"end_reason": "compression"},
    )
    lanes = Lanes({"s1": "agent:main:cli:s1"}.get)
    assert lanes.session("s3", "cli", "main", records).key == "agent:main:cli:s1"


def test_branches_sub_agents_and_new_chats_do_not_join_their_origin() -> None:
    records = StateDb(
        branch={"parent_session_id": "s1", "model_config": '{"_branched_from": "s1"}'},
        child={"parent_session_id": "s1", "model_config": '{"_delegate_from": "s1"}'},
        fresh={"parent_session_id": "s1"},
        s1={"end_reason": "compression"},
    )
    lanes = Lanes({"s1": "agent:main:cli:s1"}.get)
    for name in ("branch", "child"):
        assert lanes.session(name, "cli", "main", records).key == f"agent:main:cli:{name}"
    records.rows["s1"] = {"end_reason": "new_session"}
    assert lanes.session("fresh", "cli", "main", records).key == "agent:main:cli:fresh"


def test_a_loop_in_the_hosts_records_ends() -> None:
    records = StateDb(
        a={"parent_session_id": "b", "end_reason": "compression"},
        b={"parent_session_id": "a", "end_reason": "compression"},
    )
    assert Lanes(nothing_stored).session("a", "cli", "main", records).key == "agent:main:cli:a"


def test_a_colon_in_an_id_cannot_reach_into_another_part_of_the_key() -> None:
    assert hermes_key("default", "cli", "a") == hermes_key("", "", "a") == "agent:main:cli:a"
    assert hermes_key("main", "cli", "a:b") == "agent:main:cli:a%3Ab"
    assert hermes_key("main", "cli", "a%3Ab") != hermes_key("main", "cli", "a:b")


class Bound:
    """What the registry looks at in an engine."""

    def __init__(self, session_id: str, bound_at: int, gateway_key: str = "") -> None:
        self.session_id, self.bound_at, self.gateway_key = session_id, bound_at, gateway_key


def bound(session_id: str, bound_at: int, gateway_key: str = "") -> HermesEngine:
    return cast(HermesEngine, Bound(session_id, bound_at, gateway_key))


def test_a_hook_belongs_to_the_engine_whose_loop_runs_in_its_thread() -> None:
    live = LiveEngines()
    owner, fork = bound("s1", 1), bound("fork", 2)
    live.add(owner)
    live.add(fork)
    seen: dict[str, HermesEngine | None] = {}

    def run(name: str, engine: HermesEngine) -> None:
        live.enter(engine)
        seen[name] = live.of_hook("s1")

    for name, engine in (("owner", owner), ("fork", fork)):
        thread = threading.Thread(target=run, args=(name, engine))
        thread.start()
        thread.join()
    assert seen == {"owner": owner, "fork": None}
    assert live.of_hook("s1") is owner


def test_the_engine_that_was_bound_last_answers_for_a_session() -> None:
    live = LiveEngines()
    old, new = bound("s1", 1, "key"), bound("s1", 2, "key")
    live.add(new)
    live.add(old)
    assert live.of_session("s1") is new
    assert live.of_gateway_key("key") is new
    assert live.of_session("other") is None
    assert live.of_gateway_key("") is None


def test_engines_of_agents_that_are_gone_are_forgotten() -> None:
    live = LiveEngines()
    live.add(bound("s1", 1))
    assert live.of_session("s1") is None
