"""Rules that change settings for some models, windows or sessions."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

Share = Annotated[float, Field(gt=0, le=1)]


class ThresholdMatch(BaseModel):
    """When an override applies: every field given must match, and at least one must be given."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, defer_build=True
    )

    model: str | None = None
    model_context_window_min: int | None = Field(default=None, ge=1)
    model_context_window_max: int | None = Field(default=None, ge=1)
    session_pattern: str | None = None

    @model_validator(mode="after")
    def _has_a_rule(self) -> ThresholdMatch:
        low, high = self.model_context_window_min, self.model_context_window_max
        if (self.model, low, high, self.session_pattern) == (None, None, None, None):
            raise ValueError("an override needs at least one field in 'match'")
        if low is not None and high is not None and low > high:
            raise ValueError("modelContextWindowMin must not exceed modelContextWindowMax")
        return self


class ThresholdOverride(BaseModel):
    """Another threshold for some models, windows or sessions."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, defer_build=True
    )

    match: ThresholdMatch
    context_threshold: Share
    fresh_tail_count: int | None = Field(default=None, ge=1)
    leaf_chunk_tokens: int | None = Field(default=None, ge=1)
    name: str = ""
