"""``/lcm show`` and ``/lcm grep``: the recall tools, for a person."""

from __future__ import annotations

from typing import Any

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.texts import DONE, FAILED, NOOP
from lcm_plugin.text import fenced, inline, plural
from lcm_plugin.types import CommandResult, Session

_MOST_HITS = 10


def show(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """One stored thing by its id, page by page."""
    if not words:
        return CommandResult(
            "Which one? `/lcm show msg_12`, `sum_…` or `file_…`.", {"outcome": FAILED}, ok=False
        )
    arguments: dict[str, Any] = {"id": words[0]}
    if len(words) > 1:
        if not (words[1].isascii() and words[1].isdigit()):
            return CommandResult(
                "The offset is a number, as the page before says it.", {"outcome": FAILED}, ok=False
            )
        arguments["offset"] = int(words[1])
    found = engine.call_tool(session, "lcm_describe", arguments)
    if "error" in found:
        return CommandResult(f"{found['error']}.", {"outcome": FAILED, **found}, ok=False)
    texts = [_thing(item) for item in found.get("items", [found])]
    if "next_offset" in found:
        texts.append(f"Go on with `/lcm show {words[0]} {found['next_offset']}`.")
    return CommandResult("\n".join(texts), {"outcome": DONE, **found})


def grep(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Hits of a search in this session's history, best first."""
    if not words:
        return CommandResult("Search for what? `/lcm grep valve pressure`.", {"outcome": FAILED}, ok=False)
    # In a chat with several people no word of another chat is shown.
    own = {"all_conversations": False}
    arguments = {"pattern": " ".join(words), "limit": _MOST_HITS, "context": 0} | own
    found = engine.call_tool(session, "lcm_grep", arguments)
    if "error" in found:
        return CommandResult(f"{found['error']}.", {"outcome": FAILED, **found}, ok=False)
    hits = found["hits"]
    if not hits:
        return CommandResult("Nothing found in this session's history.", {"outcome": NOOP, **found})
    total = found.get("total", len(hits))
    more = "" if found.get("total_is_exact", True) else " or more"
    head = f"{plural(total, 'place')}{more}" + (f", the best {len(hits)}:" if total > len(hits) else ":")
    lines = [f"- `{hit['id']}` {_who(hit)}, {_minute(hit['time'])}: {_snippet(hit)}" for hit in hits]
    return CommandResult("\n".join([head, *lines]), {"outcome": DONE, **found})


def _snippet(hit: dict[str, Any]) -> str:
    """The snippet with the words that were found still in bold."""
    return inline(hit["snippet"]).replace(r"\*\*", "**")


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _thing(item: dict[str, Any]) -> str:
    facts = [f"**{item['id']}**", _who(item)]
    if "time" in item:
        facts.append(_minute(item["time"]))
    if "from" in item:
        facts.append(f"{_minute(item['from'])} to {_minute(item['to'])}")
    if "covers_messages" in item:
        facts.append(
            f"covers {plural(item['covers_messages'], 'message')}, made of {item.get('sources', 'more than fits here')}"
        )
    if "tokens" in item:
        facts.append(plural(item["tokens"], "token"))
    if "summary_id" in item:
        facts.append(f"in {item['summary_id']}")
    bodies = [item["content"]] if "content" in item else [part["text"] for part in item.get("parts", ())]
    notes = [str(item[key]) for key in ("exploration", "content_note") if item.get(key)]
    return "\n".join([", ".join(facts), *map(inline, notes), *(fenced(body) for body in bodies if body)])


def _who(item: dict[str, Any]) -> str:
    if item["kind"] == "message":
        return str(item.get("sender") or item.get("role") or "message")
    if item["kind"] == "file":
        return f"file {inline(str(item.get('name') or 'without a name'))}"
    return f"summary at depth {item['depth']}"
