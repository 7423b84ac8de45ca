"""``lcm status``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from lcm_plugin.cli.open_engine import reading
from lcm_plugin.cli.options import AsJson, Database
from lcm_plugin.cli.output import moment, print_json, print_pairs, size


def add_to(app: typer.Typer) -> None:
    """Registers the command."""
    app.command(rich_help_panel="Look")(status)


def status(
    conversation: Annotated[
        str | None,
        typer.Argument(metavar="[CONVERSATION]", help="A number or session key; all if not given."),
    ] = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Show what the database holds, or one conversation of it.

    Examples: `lcm status` · `lcm status agent:main:main --json`
    """
    import lcm_plugin
    from lcm_plugin.commands.counting import counting, counting_text

    with reading(database) as engine:
        value: dict[str, Any] = {"version": lcm_plugin.__version__, "enabled": engine.config.enabled}
        value["tokens"] = counting_text(counting(engine))
        if conversation is None:
            value |= asdict(engine.library.status())
        else:
            chosen = engine.library.conversation(conversation)
            value |= asdict(chosen) | {
                "context_tokens": chosen.context_tokens,
                "summaries_by_depth": engine.library.summary_counts(chosen.conversation_id),
            }
    if as_json:
        print_json(value)
    else:
        print_pairs(_for_people(value))


def _for_people(value: dict[str, Any]) -> list[tuple[str, str]]:
    pairs = []
    for key, item in value.items():
        if key in ("details", "conversation_id") or item is None:
            continue
        name = key.replace("_", " ")
        if key.endswith("_at"):
            pairs.append((name.removesuffix(" at"), moment(item)))
        elif key == "size_bytes":
            pairs.append(("size", size(item)))
        elif key == "summaries_by_depth":
            depths = ", ".join(f"{count:,} at depth {depth}" for depth, count in sorted(item.items()))
            pairs.append(("summaries", depths or "none"))
        elif isinstance(item, bool):
            pairs.append((name, "yes" if item else "no"))
        else:
            pairs.append((name, f"{item:,}" if isinstance(item, int) else str(item)))
    return pairs
