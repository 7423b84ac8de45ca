"""Settings: where they come from, which one holds, and what a wrong one is told."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lcm_plugin.config import LcmConfig, setting_names, shown_keys
from lcm_plugin.config.explain import allowed, masked
from lcm_plugin.config.sources import variables_of
from lcm_plugin.errors import ConfigError

RULES = [{"match": {"model": "small"}, "contextThreshold": 0.5}]

# For each setting: two values as JSON gives them, and the first as the environment does.
VALUES: dict[str, tuple[Any, Any, str]] = {
    "enabled": (False, True, "off"),
    "database": ("/tmp/a.db", "/tmp/b.db", "/tmp/a.db"),
    "largeFilesDir": ("db", "/tmp/files", "db"),
    "durability": ("full", "normal", "full"),
    "contextPolicy": ("economy", "faithful", "economy"),
    "contextThreshold": (0.5, 0.6, "0.5"),
    "contextThresholdOverrides": (RULES, [], json.dumps(RULES)),
    "hardThreshold": (0.9, 0.99, "0.9"),
    "incrementalMaxDepth": (-1, 0, "-1"),
    "newSessionRetainDepth": (-1, 0, "-1"),
    "skipStatelessSessions": (False, True, "0"),
    "pruneHeartbeatOk": (True, False, "yes"),
    "autocompactDisabled": (True, False, "on"),
    "captureOnly": (True, False, "on"),
    "promptAwareEviction": (True, False, "1"),
    "activeRecall": ("off", "on", "off"),
    "recallScope": ("session", "all", "session"),
    "semanticSearch": (True, False, "on"),
    "semanticModel": ("multilingual-e5", "minilm", "multilingual-e5"),
    "pinTool": (True, False, "on"),
    "maps": (True, False, "on"),
    "mapParallel": (4, 16, "4"),
    "semanticModelDir": ("/opt/model", "/opt/other", "/opt/model"),
    "summaryMaxOverageFactor": (1.5, 2.5, "1.5"),
    "timezone": ("Europe/Berlin", "Asia/Tokyo", "Europe/Berlin"),
    "customInstructions": ('Write, in short: "x"', "other", 'Write, in short: "x"'),
    "summaryBaseUrl": ("http://localhost:1/v1", "http://localhost:2/v1", "http://localhost:1/v1"),
    "redactPatterns": ([r"\d{3,5}", "[A-Z]{9}"], [], "\\d{3,5}\n[A-Z]{9}"),
    "hostNotePatterns": ([r"\[note[^\]]*\]"], [], r"\[note[^\]]*\]"),
    "controlMessagePatterns": (["poll", "tick, tock"], [], '["poll", "tick, tock"]'),
}
for _key in (
    "ignoreSessionPatterns",
    "statelessSessionPatterns",
    "captureOnlySessionPatterns",
    "fallbackModels",
    "largeFileExemptPatterns",
    "keepLatestOf",
    "clearResultsOf",
    "stripInjectedContextTags",
):
    VALUES[_key] = (["a:*", "b"], ["c"], "a:*, b")
for _key in (
    "mapModel",
    "mapProvider",
    "summaryModel",
    "summaryProvider",
    "largeFileSummaryModel",
    "largeFileSummaryProvider",
    "expansionModel",
    "expansionProvider",
):
    VALUES[_key] = ("one", "two", "one")
for _name, _field in LcmConfig.model_fields.items():
    if "whole number" in allowed(_field):
        VALUES.setdefault(shown_keys()[_name], (1_234, 2_345, "1234"))

NAMES = {key: name for name, key in shown_keys().items()}


def value_of(config: LcmConfig, key: str) -> Any:
    value = getattr(config, NAMES[key])
    return (
        [item.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True) for item in value]
        if key.endswith("Overrides")
        else value
    )


def test_every_setting_has_values_to_test_with() -> None:
    assert set(VALUES) == set(NAMES)


@pytest.mark.parametrize("key", VALUES)
def test_a_setting_comes_from_json(key: str) -> None:
    config = LcmConfig.from_plugin({key: VALUES[key][0]})
    assert value_of(config, key) == VALUES[key][0]
    assert config.source_of(NAMES[key]) == "plugin config"


@pytest.mark.parametrize("key", VALUES)
def test_a_setting_comes_from_the_environment(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variables_of(NAMES[key])[0], VALUES[key][2])
    config = LcmConfig()
    assert value_of(config, key) == VALUES[key][0]
    assert config.source_of(NAMES[key]) == "environment"


@pytest.mark.parametrize("key", VALUES)
def test_argument_beats_environment_beats_plugin_config_beats_default(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, text = VALUES[key]
    name = NAMES[key]
    assert LcmConfig().source_of(name) == "default"
    monkeypatch.setenv(variables_of(name)[0], text)
    from_environment = LcmConfig.from_plugin({key: second})
    assert (value_of(from_environment, key), from_environment.source_of(name)) == (first, "environment")
    from_argument = LcmConfig.from_plugin({key: first}, **{name: second})
    assert (value_of(from_argument, key), from_argument.source_of(name)) == (second, "argument")
    in_camel_case = LcmConfig(**{key: second})
    assert (value_of(in_camel_case, key), in_camel_case.source_of(name)) == (second, "argument")


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"contextThreshold": 0}, "contextThreshold = 0: must be a number, above 0 and at most 1"),
        ({"contextThreshold": 1.2}, "contextThreshold = 1.2: must be a number, above 0 and at most 1"),
        ({"contextThreshold": float("nan")}, "contextThreshold = nan: must be a number"),
        ({"hardThreshold": 0.5}, "hardThreshold = 0.5 must not be below contextThreshold = 0.75"),
        ({"freshTailCount": 0}, "freshTailCount = 0: must be a whole number, at least 1"),
        ({"freshTailCount": "12abc"}, "freshTailCount = '12abc': must be a whole number, at least 1"),
        ({"freshTailCount": 1.5}, "freshTailCount = 1.5: must be a whole number"),
        ({"freshTailCount": True}, "freshTailCount = True: must be a whole number"),
        ({"freshTailCount": None}, "freshTailCount = None: must be a whole number"),
        ({"freshTailMaxTokens": 0}, "at least 1, or auto"),
        (
            {"maxAssemblyTokenBudget": 0},
            "maxAssemblyTokenBudget = 0: must be a whole number, at least 1,000, or none",
        ),
        ({"incrementalMaxDepth": -2}, "at least -1"),
        ({"newSessionRetainDepth": -2}, "at least -1"),
        ({"condensedMinFanout": 1}, "at least 2"),
        ({"largeFileTokenThreshold": 999}, "at least 1,000"),
        ({"summaryMaxOverageFactor": 0.9}, "summaryMaxOverageFactor = 0.9: must be a number, at least 1"),
        ({"summaryMaxOverageFactor": float("inf")}, "must be a number, at least 1"),
        ({"summaryTimeoutMs": 10**12}, "at most 2,147,483,647"),
        ({"enabled": "maybe"}, "enabled = 'maybe': must be true or false"),
        ({"enabled": 2}, "enabled = 2: must be true or false"),
        ({"durability": "fast"}, "durability = 'fast': must be normal or full"),
        ({"recallScope": "bogus"}, "recallScope = 'bogus': must be session or agent or all"),
        ({"timezone": "Mars/Base"}, "timezone = 'Mars/Base': must be an IANA time zone"),
        ({"timezone": ""}, "must be an IANA time zone"),
        ({"timezone": "../etc/passwd"}, "must be an IANA time zone"),
        ({"database": 7}, "database = 7: must be text"),
        ({"ignoreSessionPatterns": 5}, "ignoreSessionPatterns = 5: must be a list of texts"),
        ({"ignoreSessionPatterns": ["ok", 5]}, "ignoreSessionPatterns.1 = 5"),
        (
            {"redactPatterns": ["("]},
            "redactPatterns = ['(']: '(' is not an RE2 regular expression: missing )",
        ),
        ({"redactPatterns": ["(?=x)"]}, "is not an RE2 regular expression"),
        (
            {"contextThresholdOverrides": [{"match": {}, "contextThreshold": 0.5}]},
            "at least one field in 'match'",
        ),
        (
            {"contextThresholdOverrides": [{"match": {"model": "x"}}]},
            "contextThresholdOverrides.0.contextThreshold is missing",
        ),
        (
            {"contextThresholdOverrides": [{"match": {"model": "x"}, "contextThreshold": 5}]},
            "contextThreshold = 5",
        ),
        (
            {"contextThresholdOverrides": [{"match": {"modle": "x"}, "contextThreshold": 0.5}]},
            "match.modle = 'x': is unknown here",
        ),
        (
            {
                "contextThresholdOverrides": [
                    {
                        "match": {"modelContextWindowMin": 9, "modelContextWindowMax": 3},
                        "contextThreshold": 0.5,
                    }
                ]
            },
            "modelContextWindowMin must not exceed modelContextWindowMax",
        ),
        ({"contextThresholdOverrides": "[[1"}, "must be a list of rules as JSON"),
    ],
)
def test_a_bad_value_names_key_value_and_what_is_allowed(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LcmConfig.from_plugin(values)
    assert complaint in str(caught.value)
    with pytest.raises(ConfigError):
        LcmConfig(**values)


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_LEAF_CHUNK_TOKENS", "many")
    with pytest.raises(
        ConfigError, match=r"leafChunkTokens = 'many' \(from LCM_LEAF_CHUNK_TOKENS\): must be a whole number"
    ):
        LcmConfig()


def test_several_bad_values_are_all_named() -> None:
    with pytest.raises(ConfigError, match=r"freshTailCount.*leafMinFanout|leafMinFanout.*freshTailCount"):
        LcmConfig(freshTailCount=0, leafMinFanout=0)


def test_unknown_keys_warn_and_name_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(
        UserWarning, match="unknown lcm setting 'freshTailCoumt' is ignored; did you mean 'freshTailCount'"
    ):
        assert LcmConfig.from_plugin({"freshTailCoumt": 3}).fresh_tail_count == 64
    with pytest.warns(UserWarning, match="unknown lcm setting 'zzz' is ignored$"):
        LcmConfig(zzz=1)
    monkeypatch.setenv("LCM_FRESH_TAIL_COUMT", "3")
    with pytest.warns(
        UserWarning, match="LCM_FRESH_TAIL_COUMT is no lcm setting; did you mean 'LCM_FRESH_TAIL_COUNT'"
    ):
        LcmConfig()


@pytest.mark.parametrize("variable", ["LCM_CONFIG", "LCM_SUMMARY_API_KEY", "LCM_TRACEBACK"])
def test_our_other_variables_do_not_warn(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LcmConfig()


def test_variables_without_our_prefix_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("DATABASE", "/x.db"),
        ("TIMEZONE", "Mars"),
        ("freshTailCount", "3"),
        ("ENABLED", "false"),
    ):
        monkeypatch.setenv(name, value)
    config = LcmConfig()
    assert (config.database, config.timezone, config.fresh_tail_count, config.enabled) == (
        "",
        "UTC",
        64,
        True,
    )


def test_an_empty_variable_empties_texts_and_lists_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FRESH_TAIL_COUNT", "ENABLED", "IGNORE_SESSION_PATTERNS", "SUMMARY_MODEL"):
        monkeypatch.setenv(f"LCM_{name}", "")
    config = LcmConfig.from_plugin(
        {"freshTailCount": 7, "enabled": False, "ignoreSessionPatterns": ["x"], "summaryModel": "m"}
    )
    assert (config.fresh_tail_count, config.enabled) == (7, False)
    assert (config.ignore_session_patterns, config.summary_model) == ([], "")


def test_none_unsets_what_may_be_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_MAX_ACTIVE_MESSAGES", "none")
    assert LcmConfig.from_plugin({"maxActiveMessages": 10}).max_active_messages is None
    assert LcmConfig.from_plugin({"freshTailMaxTokens": None}).fresh_tail_max_tokens is None


@pytest.mark.parametrize("key", ["database", "databasePath", "dbPath"])
def test_the_database_has_three_keys(key: str) -> None:
    config = LcmConfig.from_plugin({key: "/tmp/x.db"})
    assert (config.database, config.source_of("database")) == ("/tmp/x.db", "plugin config")


@pytest.mark.parametrize("variable", ["LCM_DATABASE", "LCM_DATABASE_PATH", "LCM_DATABASE_URL"])
def test_the_database_has_three_variables(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "postgresql://me@db/lcm")
    assert LcmConfig.from_plugin({"dbPath": "/tmp/x.db"}).database_target == "postgresql://me@db/lcm"
    assert LcmConfig(databasePath="/tmp/y.db").database == "/tmp/y.db"


def test_a_key_in_two_spellings_warns() -> None:
    with pytest.warns(UserWarning, match="given twice"):
        assert LcmConfig(databasePath="/a", dbPath="/b").database == "/a"


def test_without_a_database_it_lies_in_the_users_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("LCM_DATABASE_PATH", "")
    assert LcmConfig().database_target == str(tmp_path / "lcm" / "lcm.db")


@pytest.mark.parametrize(("chunk", "tokens"), [(20_000, 6_000), (40_000, 12_000), (1_000, 6_000)])
def test_the_bootstrap_amount_follows_the_chunk(chunk: int, tokens: int) -> None:
    assert LcmConfig(leaf_chunk_tokens=chunk).bootstrap_tokens == tokens
    assert LcmConfig(leaf_chunk_tokens=chunk, bootstrap_max_tokens=50).bootstrap_tokens == 50


def test_documented_values_all_load() -> None:
    """M1, and the defaults of the specification."""
    config = LcmConfig()
    assert (config.context_threshold, config.hard_threshold, config.fresh_tail_count) == (0.75, 0.95, 64)
    assert (config.leaf_min_fanout, config.condensed_min_fanout, config.condensed_min_fanout_hard) == (
        8,
        4,
        2,
    )
    assert (config.incremental_max_depth, config.new_session_retain_depth) == (1, 2)
    assert (config.context_policy, config.verbatim_tokens) == ("balanced", None)
    assert (config.leaf_chunk_tokens, config.leaf_target_tokens, config.condensed_target_tokens) == (
        None,
        None,
        None,
    )
    assert (config.summary_max_overage_factor, config.max_expand_tokens) == (3, 4_000)
    assert (config.summary_timeout_ms, config.delegation_timeout_ms) == (60_000, 120_000)
    assert (config.summary_max_calls_per_window, config.summary_call_window_ms) == (24, 600_000)
    assert config.summary_spend_backoff_ms == 1_800_000
    assert (config.large_file_token_threshold, config.recall_scope, config.durability) == (
        25_000,
        "agent",
        "normal",
    )


def test_a_config_cannot_be_changed_afterwards() -> None:
    config = LcmConfig()
    with pytest.raises(ValueError, match="frozen"):
        config.fresh_tail_count = 3


def test_every_spelling_names_one_setting() -> None:
    names = setting_names()
    assert names["freshTailCount"] == names["fresh_tail_count"] == "fresh_tail_count"
    assert set(names.values()) == set(LcmConfig.model_fields)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("postgresql://me:secret@host:5/db?sslmode=require", "postgresql://me:***@host:5/db?sslmode=require"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://me:p%40ss@host/db?password=hunter2", "postgresql://me:***@host/db?password=***"),
        ("https://h/v1?api_key=sk-1&x=2", "https://h/v1?api_key=***&x=2"),
        ("host=h password=hunter2 dbname=d", "host=h password=*** dbname=d"),
        ("/home/me/lcm.db", "/home/me/lcm.db"),
        ("http://[broken:pw@x", "***"),
        (7, 7),
    ],
)
def test_passwords_are_masked(value: Any, shown: Any) -> None:
    assert masked(value) == shown


@hypothesis_settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(list(NAMES)),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.text(max_size=8),
            st.lists(st.text(max_size=3), max_size=2),
        ),
        max_size=3,
    )
)
def test_any_value_loads_or_is_refused_by_its_key(values: dict[str, Any]) -> None:
    try:
        config = LcmConfig.from_plugin(values)
    except ConfigError as error:
        complaint = str(error)
    else:
        complaint = ""
        given_names = {NAMES[key] for key in values}
        assert {name for name in NAMES.values() if config.source_of(name) == "plugin config"} == given_names
    assert not complaint or any(key in complaint for key in [*values, "hardThreshold"])
