"""Questions that readers come with: each has one section that answers it, reached from the README by links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# The section that answers, and what the answer cannot do without.
ANSWERS = {
    "How do I try it without an agent?": ("README.md#try-it", "make demo"),
    "Which door is mine?": ("README.md#use-it", "a loop of your own"),
    "How do I add it to a loop that calls a model's API?": ("docs/start/developer.md", "memory.context()"),
    "How do I bring in what I said to Claude Code for two years?": ("docs/start/histories.md", "lcm import"),
    "How do I copy a database while it is in use?": ("docs/start/operator.md", "lcm backup"),
    "What does an extra add to my disk?": ("docs/installing.md#extras", "MB"),
    "Why does it depend on this package?": ("docs/installing.md#dependencies", "google-re2"),
    "What is a leaf, what is a condensed summary?": ("docs/concepts.md#words", "condensed"),
    "What happens in a turn?": ("docs/concepts.md#what-happens-in-a-turn", "summar"),
    "How do I run a worker under systemd?": (
        "docs/running.md#the-worker-as-a-service",
        "systemctl --user enable",
    ),
    "When do I have to act?": ("docs/running.md#alarms", "lcm doctor"),
    "How do I upgrade, and how do I go back?": ("docs/running.md#upgrades-and-back", "lcm restore"),
    "The agent forgets: why?": ("docs/running.md#when-something-seems-wrong", "forgets"),
    "How do I move from SQLite to PostgreSQL?": ("docs/postgres.md#moving-a-database", "lcm migrate-store"),
    "Can a pooler stand before the server?": (
        "docs/postgres.md#poolers-roles-and-the-environment",
        "PgBouncer",
    ),
    "The database is damaged: what now?": (
        "docs/operations.md#when-the-file-itself-is-damaged",
        "lcm rescue",
    ),
    "What is lost when the disk is full or the process is killed?": (
        "docs/operations.md#what-is-tested-against",
        "kill",
    ),
    "A secret was said: how does it go?": ("docs/retention.md#redaction", "lcm redact"),
    "How do I remove what is older than 90 days?": ("docs/retention.md#pruning", "--older-than"),
    "Which model writes the summaries, and with which key?": (
        "docs/summaries.md#which-model",
        "summaryModel",
    ),
    "What does it do without any model?": ("docs/summaries.md#extraction", "picks sentences"),
    "When is a conversation compacted?": ("docs/compaction.md#when-it-is-due", "threshold"),
    "Which policy costs least?": ("docs/compaction.md#which-policy", "economy"),
    "How do I take a compaction back?": ("docs/compaction.md#taking-a-compaction-back", "undo"),
    "What does /new keep?": ("docs/sessions.md#new-and-its-undo", "newSessionRetainDepth"),
    "Which arguments does lcm_grep take?": ("docs/tools.md#lcm_grep", "since"),
    "May one agent read another's sessions?": ("docs/tools.md#scope-and-trust", "recallScope"),
    "Where is a setting, and what is its default?": ("docs/configuration.md", "leafChunkTokens"),
    "What is stored where, and how do I forget it?": (
        "docs/security.md#what-is-stored-where-and-how-to-forget-it",
        "lcm prune",
    ),
    "How does my agent get the skill?": ("docs/installing.md#the-skill", "skills/lcm"),
    "Which metrics are there?": ("docs/observability.md#metrics", "lcm_search_latency_ms"),
    "Which tables can I read in SQL?": ("docs/storage.md#reading-it-yourself", "summary_tree"),
    "Are tokens counted exactly?": ("docs/tokens.md#the-encoding", "o200k"),
    "What was the model given in that turn, and why was this not in it?": (
        "docs/web.md#pages",
        "lcm context SESSION",
    ),
    "How do I see a talk in the browser?": ("docs/web.md", "lcm web --open"),
    "Why is nothing quoted?": ("docs/recall.md#by-itself", "activeRecall"),
    "How do I count over ten thousand messages?": ("docs/maps.md#from-the-shell", "lcm map"),
    "My host compacts itself: what is left for this?": ("docs/capture-only.md", "captureOnly"),
    "What do the hooks of a coding agent cost?": ("docs/hosts/coding-agents.md#what-it-costs", "300 ms"),
    "How do I use it from another language?": ("docs/hosts/stdio.md#methods", "before_turn"),
    "How do I measure it on my own data?": ("docs/evaluation.md", "lcm eval"),
    "What keeps old tool results out of the bill?": (
        "docs/compaction.md#clearing-before-summaries",
        "clearResultsOf",
    ),
    "How do I keep a sentence in every context?": ("docs/assembly.md#pins", "/lcm pin"),
    "Is my log still read if its tool changed its format?": ("docs/import.md#formats", "Claude Code"),
    "Who reads plugin.json?": ("docs/hosting.md#tools-and-commands", "OpenClaw"),
    "How do I add a host, a tool, a setting?": ("docs/contributing.md#adding-", "setting"),
}


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def section(link: str) -> str:
    """The text of a page, or of one of its sections with those below it."""
    path, _, anchor = link.partition("#")
    text = (ROOT / path).read_text(encoding="utf-8")
    if not anchor:
        return text
    without_code = re.sub(
        r"^```.*?^```", lambda block: "." * len(block[0]), text, flags=re.MULTILINE | re.DOTALL
    )
    heads = list(re.finditer(r"^(#+) (.+)$", without_code, re.MULTILINE))
    (found,) = [match for match in heads if slug(match[2]).rstrip("-") == anchor.rstrip("-")]
    ends = (one.start() for one in heads if one.start() > found.start() and len(one[1]) <= len(found[1]))
    return text[found.end() : next(ends, len(text))]


@pytest.mark.parametrize("question", ANSWERS)
def test_a_question_is_answered_where_it_is_looked_for(question: str) -> None:
    link, words = ANSWERS[question]
    assert words in section(link)


def test_every_page_that_answers_is_two_links_from_the_readme_at_most() -> None:
    def linked(page: Path) -> set[Path]:
        links = re.findall(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        return {(page.parent / link).resolve() for link in links if "://" not in link}

    near = linked(ROOT / "README.md")
    reached = {ROOT / "README.md", *near, *(page for one in near for page in linked(one))}
    assert {ROOT / link.partition("#")[0] for link, _ in ANSWERS.values()} <= reached
