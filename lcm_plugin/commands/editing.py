"""``/lcm edit``: a person's text for a summary, and the way back."""

from __future__ import annotations

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.texts import DONE, FAILED
from lcm_plugin.maintenance.summaries.texts import ChangedText
from lcm_plugin.text import plural
from lcm_plugin.types import CommandResult, Session

_BY = "user"


def edit(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Changes one summary's text; ``words`` is the id and the text as they were written."""
    summary_id, _, text = (words[0] if words else "").strip().partition(" ")
    if not text.strip():
        return CommandResult(
            "Edit what? `/lcm edit sum_… The new text`, or `/lcm edit sum_… back` for the text before.",
            {"outcome": FAILED},
            ok=False,
        )
    with engine.store.read() as reader:
        conversation = engine.sessions.conversation(reader, session)
    among = [] if conversation is None else [conversation.conversation_id]
    if text.strip().lower() == "back":
        changed = engine.summary_texts.go_back(summary_id, _BY, among=among)
    else:
        changed = engine.summary_texts.edit(summary_id, text, _BY, among=among)
    data = {"outcome": DONE, "summary": changed.summary.summary_id, "tokens": changed.summary.tokens}
    return CommandResult(
        "Done: " + "; ".join(change_lines(changed)) + ".", data | {"derived": list(changed.derived)}
    )


def change_lines(changed: ChangedText) -> list[str]:
    """What came of a change, for people."""
    summary = changed.summary
    lines = [
        f"{summary.summary_id} has its new text, {plural(summary.tokens, 'token')}; contexts hold it from the next one on, "
        "and the text before is kept"
    ]
    if changed.derived:
        lines.append(
            f"{', '.join(changed.derived)} was made from the text before: edit it too, or have it written again"
        )
    return lines
