"""The tools as a host sees them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lcm_plugin import Engine, Session
from lcm_plugin.recall.delegation.delegate import DELEGATE_RULES
from lcm_plugin.recall.tools import (
    TOOL_NAMES,
    DescribeArguments,
    ExpandArguments,
    ExpandQueryArguments,
    GrepArguments,
    tool_schemas,
)

pytestmark = pytest.mark.both_stores_under_ci

MODELS = dict(
    zip(TOOL_NAMES, (GrepArguments, DescribeArguments, ExpandArguments, ExpandQueryArguments), strict=True)
)


def function(name: str) -> dict[str, Any]:
    return next(schema["function"] for schema in tool_schemas() if schema["function"]["name"] == name)


def test_the_schemas_cost_less_than_1300_tokens(engine: Engine) -> None:
    assert engine.count_tokens(json.dumps(tool_schemas())) < 1_300


def test_the_schemas_are_those_of_the_tools() -> None:
    assert tuple(schema["function"]["name"] for schema in tool_schemas()) == TOOL_NAMES


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_a_schema_offers_only_what_is_checked(name: str) -> None:
    parameters = function(name)["parameters"]
    assert set(parameters["properties"]) <= set(MODELS[name].model_fields)
    assert parameters["required"] == [
        key for key, field in MODELS[name].model_fields.items() if field.is_required()
    ]


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_defaults_and_choices_of_a_schema_are_the_real_ones(name: str) -> None:
    for key, schema in function(name)["parameters"]["properties"].items():
        field = MODELS[name].model_fields[key]
        if "default" in schema:
            assert schema["default"] == field.default
        if "enum" in schema:
            assert schema["enum"][0] == field.default
        for value in schema.get("enum", ()):
            MODELS[name].model_validate(
                {**dict.fromkeys(function(name)["parameters"]["required"], "msg_1"), key: value}
            )


def test_texts_for_models_name_only_tools_that_exist() -> None:
    texts = json.dumps(tool_schemas()) + DELEGATE_RULES
    assert set(re.findall(r"lcm_\w+", texts)) <= set(TOOL_NAMES)


def test_camel_case_arguments_are_understood(engine: Engine, session: Session) -> None:
    engine.ingest(session, [{"role": "user", "content": "a lamp"}])
    answer = engine.call_tool(
        session, "lcm_grep", {"pattern": "lamp", "allConversations": True, "conversationId": None}
    )
    assert len(answer["hits"]) == 1


def test_an_unknown_tool_is_named(engine: Engine, session: Session) -> None:
    assert "lcm_grep, lcm_describe" in engine.call_tool(session, "lcm_nothing", {})["error"]


@pytest.mark.parametrize("arguments", [None, [], "text"])
def test_arguments_that_are_no_object_are_refused(engine: Engine, session: Session, arguments: Any) -> None:
    assert "must be an object" in engine.call_tool(session, "lcm_grep", arguments)["error"]


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_every_answer_is_json(engine: Engine, session: Session, name: str) -> None:
    engine.ingest(session, [{"role": "user", "content": "a lamp \ud83d \x00"}])
    for arguments in ({"pattern": "lamp"}, {"id": "msg_1"}, {"query": "lamp"}, {"prompt": "lamp?"}, {}):
        json.dumps(engine.call_tool(session, name, arguments))
