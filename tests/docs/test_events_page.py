"""Every event and every metric is on the page that lists them, and nothing else is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from lcm_plugin.events import LOG_FIELDS, MEANINGS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
AREAS = "|".join(sorted({name.partition(".")[0] for name in MEANINGS}))
NO_EVENTS = {"map.js", "model.onnx", "file.filename", "tokens.input", "tokens.output"}
NAME = re.compile(rf"(?:{AREAS})\.[a-z_]+")


def emitted() -> set[str]:
    """Every text in the source, but for the table itself, that is an event's name as a whole."""
    found: set[str] = set()
    for path in sorted((ROOT / "lcm_plugin").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
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


def test_the_page_lists_the_log_fields() -> None:
    section = PAGE.partition("## The log")[2].partition("```")[0]
    rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    assert {name.strip("`") for row in rows for name in row.split(", ")} == set(LOG_FIELDS)


def test_the_page_lists_the_metrics() -> None:
    source = (ROOT / "lcm_plugin" / "metrics.py").read_text(encoding="utf-8")
    made = re.findall(r'(Counter|Histogram)\(\s*"(lcm_[a-z_]+)"', source)
    names = {f"{name}_total" if kind == "Counter" else name for kind, name in made}
    assert set(re.findall(r"^\| `(lcm_[a-z_]+)`", PAGE, re.MULTILINE)) == names
