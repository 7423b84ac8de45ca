"""The classes of findings: meaning in plain words, severity, and repair."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_plugin.types import Finding, Severity

_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
_AGAIN = "write the summary again from its sources, and those made from it"


@dataclass(frozen=True, slots=True)
class Rule:
    """A class of findings. ``repair`` describes the action of `doctor apply`; empty when it cannot be mended.

    A ``destructive`` repair deletes something or ends a lane, and needs a word of its own.
    """

    severity: Severity
    meaning: str
    repair: str = ""
    destructive: bool = False


RULES: dict[str, Rule] = {
    # the database
    "structure": Rule(_ERROR, "the database itself is damaged; see `lcm rescue`"),
    "schema_differs": Rule(_ERROR, "an index or view of the schema is missing or differs", "make it again"),
    "index_differs": Rule(
        _WARNING, "the full-text index differs from the tables", "build the index again from the tables"
    ),
    "log_missing": Rule(
        _ERROR,
        "the database's write-ahead log was deleted while a process uses it; end every host, then check again",
    ),
    "host_other_engine": Rule(
        _WARNING, "the host builds its contexts with another engine; run `lcm doctor --host` where it runs"
    ),
    "hook_failing": Rule(
        _WARNING,
        "a hook of the host fails at every call, so that nothing may be stored; `/lcm status` says more",
    ),
    # the context
    "context_dangling": Rule(_ERROR, "the context points to a row that does not exist", "remove the pointer"),
    "context_foreign": Rule(_ERROR, "the context points into another conversation", "remove the pointer"),
    "context_order": Rule(
        _ERROR,
        "context items overlap or stand out of order",
        "move the item to its own place, if that is free",
    ),
    "context_tokens": Rule(
        _WARNING, "a context item has another token count than its message", "copy the message's count"
    ),
    "counters": Rule(
        _ERROR, "a conversation's running totals differ from its context", "count the context again"
    ),
    "context_nearly_full": Rule(
        _INFO, "the newest context of a session was nearly full of what cannot be compacted"
    ),
    # messages
    "message_count": Rule(
        _ERROR, "a conversation's message count differs from its messages", "count the messages again"
    ),
    "message_uncovered": Rule(
        _ERROR,
        "a message is in no context, under no summary and not pruned by /new",
        "put the message back into the context",
    ),
    "message_covered_twice": Rule(
        _ERROR, "a message is covered more than once", "take the raw pointer out of the context"
    ),
    "message_unreadable": Rule(
        _ERROR, "a message's stored form is not JSON", "leave the message out of every context; the row stays"
    ),
    "message_quarantined": Rule(_INFO, "an unreadable message is left out of every context"),
    "message_withdrawn": Rule(
        _ERROR, "a message that was taken back still stands in the context", "take it out of the context"
    ),
    "message_incomplete": Rule(_ERROR, "parts of a message are gone"),
    "message_order": Rule(_ERROR, "a message's id or group does not fit its place"),
    "messages_repeated": Rule(_WARNING, "a stretch of messages is stored twice"),
    # files
    "part_without_file": Rule(_ERROR, "a message refers to a file without a record"),
    "file_missing": Rule(_ERROR, "the bytes of an externalised payload are gone"),
    "file_changed": Rule(_ERROR, "the bytes of an externalised payload are not those that were stored"),
    "file_rights": Rule(
        _WARNING, "others on this machine may read a file", "let only its owner read it (0600)"
    ),
    "file_orphan": Rule(_INFO, "a payload file belongs to no record", "delete the file", destructive=True),
    "file_leftover": Rule(
        _INFO, "a killed process left a temporary payload file", "delete the temporary file"
    ),
    "blob_orphan": Rule(
        _INFO, "payload bytes in the database belong to no record", "delete the bytes", destructive=True
    ),
    # summaries: lineage and sums
    "summary_without_source": Rule(_ERROR, "a summary has no source"),
    "summary_missing_source": Rule(_ERROR, "a summary links to a source that does not exist"),
    "summary_link_lost": Rule(
        _ERROR,
        "a summary has fewer sources than it was made from",
        "link it again with the uncovered messages of its stretch, where their number fits",
    ),
    "summary_foreign": Rule(_ERROR, "a summary has a source in another conversation"),
    "summary_depth": Rule(
        _ERROR,
        "a condensed summary's depth is not one more than that of all its sources",
        "work out the depth again from the sources, where they agree",
    ),
    "summary_cycle": Rule(_ERROR, "a summary is made from itself"),
    "summary_orphan": Rule(
        _WARNING,
        "a summary is neither in a context nor the source of another",
        "put the summary back into the context, if nothing covers its stretch",
    ),
    "summary_sums": Rule(_WARNING, "a summary's counts differ from its sources", "count the sources again"),
    "summary_span": Rule(
        _WARNING, "a summary's stretch or times differ from its sources", "read the sources' stretch again"
    ),
    # summaries: what they say
    "summary_fallback": Rule(
        _WARNING,
        "a summary was extracted where a model was to write it",
        "ask the model again",
    ),
    "summary_marker": Rule(
        _WARNING, "an imported summary carries its old tool's mark of a failed model", _AGAIN
    ),
    "summary_oversize": Rule(_WARNING, "a summary is not smaller than its source", _AGAIN),
    "summary_over_cap": Rule(_WARNING, "a summary is larger than the settings allow", _AGAIN),
    "summary_capped": Rule(_INFO, "a summary was over its cap and was cut at a sentence"),
    "summary_cut": Rule(_WARNING, "a summary ends in the middle of a sentence", _AGAIN),
    "summary_empty": Rule(_WARNING, "a summary says nothing", _AGAIN),
    "summary_echo": Rule(_WARNING, "a summary repeats its source word for word", _AGAIN),
    "summary_prompt_leak": Rule(_WARNING, "a summary repeats the prompt it was asked with", _AGAIN),
    "summary_answer": Rule(
        _WARNING, "a summary is a refusal, an error, reasoning or chat instead of an account", _AGAIN
    ),
    "summary_unsupported": Rule(_WARNING, "a summary names what occurs nowhere in its sources", _AGAIN),
    # the standing layer
    "pin_without_message": Rule(_INFO, "a pin holds the words of a message that is not stored any more"),
    # work that is owed
    "debt_stale": Rule(_WARNING, "a compaction lease has no living holder", "give the lease back"),
    "debt_stuck": Rule(
        _WARNING, "compaction that is owed does not get done", "let it be tried again at once"
    ),
    "lane_stale": Rule(_INFO, "a lane is active but long unused", "archive the lane", destructive=True),
    "interrupted": Rule(_INFO, "the check stopped before it was through"),
}


def finding_of(code: str, conversation_id: int | None, ids: tuple[str, ...], detail: str = "") -> Finding:
    """A finding of a class of `RULES`, in the words of its rule. ``detail`` is the evidence in a few words."""
    rule = RULES[code]
    about = f"{', '.join(ids)} {detail}".strip()
    message = f"{rule.meaning}: {about}" if about else rule.meaning
    return Finding(code, rule.severity, message, ids, conversation_id, rule.repair)
