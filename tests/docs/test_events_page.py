"""Every event and every metric is on the page that lists them, and nothing else is."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from prometheus_client import CollectorRegistry

from lcm_plugin import Engine
from lcm_plugin.events import LOG_FIELDS, MEANINGS
from lcm_plugin.metrics import watch

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
AREAS = "|".join(sorted({name.partition(".")[0] for name in MEANINGS}))
NO_EVENTS = {"map.js", "model.onnx", "file.filename", "tokens.input", "tokens.output"}
SENDERS = re.compile(r"emit|Event|_emit|_say|_tell(?:_host)?")
NAME = re.compile(rf"(?:{AREAS})\.[a-z_]+")


@cache
def modules() -> dict[Path, ast.Module]:
    """Every module of the package, parsed."""
    return {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "lcm_plugin").rglob("*.py"))
    }


def emitted() -> set[str]:
    """Every text in the source, but for the table itself, that is an event's name as a whole."""
    found: set[str] = set()
    for path, tree in modules().items():
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        if path.name == "events.py":
            tables = [node.value for node in tree.body if isinstance(node, ast.AnnAssign)]
            docs |= {id(key) for table in tables if isinstance(table, ast.Dict) for key in table.keys}
        found |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs
            and NAME.fullmatch(node.value)
            and node.value not in NO_EVENTS
            and not node.value.endswith(".html")
        }
    return found


def test_the_page_lists_the_events_that_there_are() -> None:
    section = PAGE.partition("## Events")[2].partition("```")[0]
    listed = set(re.findall(rf"`({NAME.pattern})`", section))
    assert listed == set(MEANINGS)


def test_every_event_of_the_table_is_emitted_and_no_other() -> None:
    assert emitted() == set(MEANINGS)


def test_no_area_of_events_is_missing_from_the_table() -> None:
    """What looks like an event and is handed to something that sends events, whatever it begins with."""
    calls = [
        node
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and SENDERS.fullmatch(getattr(node.func, "attr", getattr(node.func, "id", "")))
    ]
    words = {
        word.value for call in calls for argument in call.args for word in ast.walk(argument)
        if isinstance(word, ast.Constant) and isinstance(word.value, str)
    }  # fmt: skip
    sent = {word for word in words if re.fullmatch(r"[a-z]+\.[a-z_]+", word)}
    assert sent - set(MEANINGS) == set()
    assert len(sent) > 50


def test_the_page_lists_the_log_fields() -> None:
    section = PAGE.partition("## The log")[2].partition("```")[0]
    rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    assert {name.strip("`") for row in rows for name in row.split(", ")} == set(LOG_FIELDS)


def test_the_page_lists_the_metrics(engine: Engine) -> None:
    registry = CollectorRegistry()
    stop = watch(engine, registry)
    made = list(registry.collect())
    stop()
    names = {f"{one.name}_total" if one.type == "counter" else one.name for one in made}
    assert set(re.findall(r"^\| `(lcm_[a-z_]+)`", PAGE, re.MULTILINE)) == names
