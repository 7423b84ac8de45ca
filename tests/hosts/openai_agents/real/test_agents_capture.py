"""The SDK compacts (`responses.compact`) or seals the items: they go through as they are, and nothing is compacted twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, Runner
from agents.extensions.memory import EncryptedSession
from agents.memory import OpenAIResponsesCompactionSession
from fakes.speech import fact, turn
from scripted import Item, ScriptedModel, said
from talk import SETTINGS

from lcm_plugin import LcmConfig
from lcm_plugin.hosts.openai_agents import LcmSession
from lcm_plugin.types import Reason

SEALED: Item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA" * 400}
ASKED = "What was the code of VAULT-003, please?"


def session_in(folder: Path, **settings: Any) -> LcmSession:
    config = LcmConfig(database=str(folder / "lcm.db"), **{**SETTINGS, **settings})
    return LcmSession("talk", config, window=12_000)


def answers(items: list[Item], number: int) -> list[Any]:
    return [said(f"Heard {len(items)} items.", number)]


class NamedModel(ScriptedModel):
    """Its responses have ids, without which the SDK does not compact by itself."""

    async def get_response(self, *given: Any, **named: Any) -> Any:
        response = await super().get_response(*given, **named)
        return replace(response, response_id=f"resp_{len(self.inputs)}")


class CompactingClient:
    """The one call of OpenAI's client that compacts: all is one sealed item."""

    def __init__(self) -> None:
        self.inputs: list[list[Item]] = []
        self.responses = SimpleNamespace(compact=self._compact)

    async def _compact(self, **options: Any) -> Any:
        self.inputs.append(options["input"])
        return SimpleNamespace(output=[{**SEALED, "id": f"cmp_{len(self.inputs)}"}], usage=None)


@pytest.mark.parametrize("settings", [{"capture_only": True}, {}])
def test_the_sdk_compacts_the_history_and_what_it_sealed_can_still_be_found_and_is_quoted(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    ours, client = session_in(tmp_path, **settings), CompactingClient()
    theirs = OpenAIResponsesCompactionSession("talk", ours, client=client, compaction_mode="input")  # type: ignore[arg-type]
    model = NamedModel(answers)
    agent = Agent(name="listener", model=model)
    told = [f"{turn(number, 30)} {fact(number)}" for number in range(1, 25)]

    async def talk() -> list[Any]:
        for text in told:
            await Runner.run(agent, text, session=theirs, run_config=ours.run_config())
        await theirs.run_compaction({"force": True, "compaction_mode": "input"})
        kept = await theirs.get_items()
        await Runner.run(agent, ASKED, session=theirs, run_config=ours.run_config())
        return kept

    kept = asyncio.run(talk())
    assert len(client.inputs) > 1, "it compacted by itself, too"
    assert kept == [{**SEALED, "id": f"cmp_{len(client.inputs)}"}]
    last = model.inputs[-1]
    assert last[0] == kept[0]
    assert last[-1]["content"] == ASKED
    assert fact(3) in last[-2]["content"]
    assert [item for item in asyncio.run(ours.record()) if item.get("role") == "user"] == [
        {"role": "user", "content": text} for text in (*told, ASKED)
    ]
    engine = ours.engine
    assert engine.captures_only(ours.core_session)
    assert not engine.compact(ours.core_session, force=True, budget=1_000).compacted
    assert all(item.kind == "message" for item in engine.context_items(ours.core_session))
    assert engine.call_tool(ours.core_session, "lcm_grep", {"pattern": "VAULT-003"})["hits"]
    ours.close()


def test_a_compaction_that_the_api_made_in_an_answer_stays_and_ends_ours(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    items: list[Item] = [
        {"role": "user", "content": f"Note {n}. " + "The garden is wet. " * 40} for n in range(30)
    ]
    asyncio.run(session.add_items(items))
    asyncio.run(session.add_items([SEALED, {"role": "user", "content": "Go on."}]))
    assert session.engine.wait_idle(60)
    assert (
        session.engine.compact(session.core_session, force=True, budget=2_000).reason is Reason.HOST_COMPACTS
    )
    assert asyncio.run(session.get_items()) == [*items, SEALED, {"role": "user", "content": "Go on."}]
    session.close()


def test_the_encrypted_session_reads_what_it_wrote_and_its_envelopes_are_never_summarised(
    tmp_path: Path,
) -> None:
    ours = session_in(tmp_path)
    theirs = EncryptedSession("talk", ours, "a key of enough letters for a test", ttl=3_600)
    items: list[Any] = [
        {"role": "user", "content": f"Secret {n}. " + "The garden is wet. " * 40} for n in range(40)
    ]
    asyncio.run(theirs.add_items(items))
    assert asyncio.run(theirs.get_items()) == items
    assert ours.engine.compact(ours.core_session, force=True, budget=2_000).reason is Reason.HOST_COMPACTS
    assert asyncio.run(theirs.get_items(3)) == items[-3:]
    assert asyncio.run(theirs.pop_item()) == items[-1]
    assert "Secret" not in str(ours.engine.messages(ours.core_session))
    ours.close()


def test_a_replacement_that_fails_leaves_the_history_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_in(tmp_path, capture_only=True)
    items: list[Item] = [{"role": "user", "content": f"Note {n}"} for n in range(6)]
    asyncio.run(session.add_items(items))

    def fails(*_: Any, **__: Any) -> Any:
        raise OSError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(session.engine, "ingest", fails)
        with pytest.raises(OSError, match="full"):
            asyncio.run(session._atomic_replace_items([SEALED]))
    assert asyncio.run(session.get_items()) == items
    session.close()
