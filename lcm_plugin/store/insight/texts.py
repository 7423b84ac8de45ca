"""Earlier texts of summaries: those whose place another text took, by a model or a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lcm_plugin.store.records import Summary
from lcm_plugin.store.transaction import Transaction

# Types that both databases know. ``made_ms`` is how long a summary's text took to make, NULL where that is not known.
TEXTS_SCHEMA = """
ALTER TABLE summaries ADD COLUMN made_ms bigint;
CREATE TABLE summary_texts (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    summary_id text NOT NULL,
    version integer NOT NULL,
    content text NOT NULL,
    tokens integer NOT NULL,
    level text NOT NULL,
    model text NOT NULL,
    prompt_version text NOT NULL,
    fallback boolean NOT NULL,
    fallback_cause text NOT NULL,
    capped boolean NOT NULL,
    made_ms bigint,
    replaced_at bigint NOT NULL,
    replaced_by text NOT NULL,
    PRIMARY KEY (conversation_id, summary_id, version)
);
"""
MAKING = (
    "content",
    "tokens",
    "level",
    "model",
    "prompt_version",
    "fallback",
    "fallback_cause",
    "capped",
    "made_ms",
)
"""A summary's text, and what is said of its making: what another text takes the place of."""
_COLUMNS = ("conversation_id", "summary_id", "version", *MAKING, "replaced_at", "replaced_by")
_BOOLEANS = ("fallback", "capped")


@dataclass(frozen=True, slots=True)
class EarlierText:
    """A text that a summary had, the first one with ``version`` 1, and who replaced it when.

    ``replaced_by`` is empty where a model did. The other fields are those of `Summary`.
    """

    conversation_id: int
    summary_id: str
    version: int
    content: str
    tokens: int
    level: str
    model: str
    prompt_version: str
    fallback: bool
    fallback_cause: str
    capped: bool
    made_ms: int | None
    replaced_at: int
    replaced_by: str


class EarlierTextTable(Transaction):
    """Reads and changes of earlier texts."""

    def earlier_texts(self, conversation_id: int, summary_id: str | None = None) -> list[EarlierText]:
        chosen = "" if summary_id is None else "AND summary_id = :summary "
        rows = self.all(
            f"SELECT {', '.join(_COLUMNS)} FROM summary_texts WHERE conversation_id = :here {chosen}"
            "ORDER BY summary_id, version",
            here=conversation_id,
            summary=summary_id,
        )
        return [_earlier(row) for row in rows]

    def replace_earlier_text(self, text: EarlierText) -> None:
        self.run(
            "UPDATE summary_texts SET content = :content, tokens = :tokens "
            "WHERE conversation_id = :here AND summary_id = :summary AND version = :version",
            content=text.content,
            tokens=text.tokens,
            here=text.conversation_id,
            summary=text.summary_id,
            version=text.version,
        )

    def keep_text(self, summary: Summary, by: str, now: int) -> None:
        """Keeps the text that a summary has, which ``by`` replaces now."""
        known = self.earlier_texts(summary.conversation_id, summary.summary_id)
        self.run(
            f"INSERT INTO summary_texts ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})",
            conversation_id=summary.conversation_id,
            summary_id=summary.summary_id,
            version=len(known) + 1,
            replaced_at=now,
            replaced_by=by,
            **{name: getattr(summary, name) for name in MAKING},
        )


def _earlier(row: Sequence[Any]) -> EarlierText:
    values = dict(zip(_COLUMNS, row, strict=True))
    return EarlierText(**values | {name: bool(values[name]) for name in _BOOLEANS})
