"""An evaluation's result as text: a table, and what a reader needs to measure it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Heading, figure. A column whose figures are all missing is left out.
_COLUMNS = (
    ("hit@1 %", "hit_1"),
    ("hit@10 %", "hit_10"),
    ("all evidence@10 %", "all_evidence_10"),
    ("evidence in view %", "evidence_in_view"),
    ("or by one call %", "in_view_or_one_call"),
    ("answer words in view %", "answer_words_in_view"),
    ("context tokens", "context_tokens"),
    ("over the window %", "over_window"),
    ("agent's prompt tokens", "agent_tokens"),
    ("agent's calls", "agent_calls"),
    ("bill, % of full", "bill"),
    ("cached %", "cache_share"),
    ("judged %", "judged"),
    ("± over seeds", "judged_deviation"),
    ("model's prompt tokens", "model_prompt_tokens"),
    ("model's calls", "model_calls"),
    ("dollars", "dollars"),
)
_MEANING = (
    "hit@k: a passage of the evidence is among the first k messages that `lcm_grep` finds for the question as it stands; "
    "all evidence: every one is. In view: the evidence stands word for word, or so many of the gold answer's words stand, "
    "in the context of the call that answers. Bill: all requests of the talks and their summaries at list-price ratios "
    "(input 1, cache write 1.25, cache read 0.1, output 5), in per cent of sending the whole talk each time."
)


def _table(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows: Sequence[Mapping[str, Any]] = found["rows"]
    shown = [(head, key) for head, key in _COLUMNS if any(row.get(key) is not None for row in rows)]
    cells = [
        [row["system"], f"{row['window']:,}", *(_cell(row.get(key)) for _, key in shown)] for row in rows
    ]
    return ["system", "window", *(head for head, _ in shown)], cells


def _cell(value: float | int | None) -> str:
    return "–" if value is None else f"{value:,}"


def as_markdown(found: Mapping[str, Any]) -> str:
    """A Markdown table with its command, version and data below."""
    head, cells = _table(found)
    lines = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *cells]]
    return "\n".join([*lines, "", _MEANING, "", *(f"- {one}" for one in _provenance(found))])


def as_table(found: Mapping[str, Any]) -> str:
    """The same for a terminal: a block for each row, since no terminal is so wide."""
    head, cells = _table(found)
    wide = max(map(len, head))
    blocks = [
        "\n".join(
            [
                f"{row[0]}, {row[1]} tokens",
                *(f"  {name:<{wide}}  {cell:>10}" for name, cell in zip(head[2:], row[2:], strict=True)),
            ]
        )
        for row in cells
    ]
    return "\n\n".join([*blocks, _MEANING, "\n".join(_provenance(found))])


def _provenance(found: Mapping[str, Any]) -> list[str]:
    questions = max((row["questions"] for row in found["rows"]), default=0)
    return [
        f"command: `{found['command']}`",
        f"version: lcm_plugin {found['version']}, Python {found['python']}",
        f"data: {found['data']}, SHA-256 {found['data_sha256']}, {questions} questions",
    ]
