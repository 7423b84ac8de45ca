"""Rules that had several homes have one: a second one fails here, with the place where it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lcm_plugin

ROOT = Path(lcm_plugin.__file__).parent

OWNERS = {
    "whether a session key is one of a scheduled job": (r":cron:(?!\*)", {"store/session_keys.py"}),
    "whether a session key is one of a single run": (
        r'"subagent", *"run"|%:subagent',
        {"store/session_keys.py"},
    ),
    "where the fresh tail begins": (r"def \w*fresh_tail|room -= user\.tokens", {"compaction/tail.py"}),
    "the default budget": (r"or DEFAULT_BUDGET\b", {"config/model.py", "compaction/windows.py"}),
    "the cap of the settings on a budget": (r"min\(.*max_assembly_token_budget", {"config/model.py"}),
    "how long a model call may be": (r"\.ceiling\(", {"compaction/windows.py", "compaction/service.py"}),
    "the cap of a summary": (r"\.summary_max_overage_factor", {"config/model.py"}),
    "what a summary costs in a context": (r"def summary_tokens\(summary", {"messages/markup.py"}),
    "the name of a session without a key": (r"\bkey or (?:self|session|\w+)\.id\b", {"types.py"}),
    "taking a lease": (r"\.claim_(?:debt|integrity)\(", {"compaction/leases.py", "maintenance/jobs.py"}),
    "taking a lease from a dead holder": (r"\.take_away\(", {"store/leases.py"}),
    "the name of the account": (r"\bgetuser\(", {"maintenance/account.py"}),
    "a bounded cache": (r"\.popitem\(", set()),
}


def code(path: Path) -> str:
    """A module without comments and docstrings, in which anything may be described."""
    text = re.sub(r'"""(?:[^"\\]|\\.|"(?!""))*"""', '""', path.read_text(encoding="utf-8"))
    return re.sub(r"(?m)(?:^|  )#.*$", "", text)


def homes(pattern: str) -> set[str]:
    """The modules whose code a pattern is found in."""
    return {
        path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if re.search(pattern, code(path))
    }


@pytest.mark.parametrize("rule", OWNERS)
def test_a_rule_has_one_owner(rule: str) -> None:
    pattern, owners = OWNERS[rule]
    assert homes(pattern) == owners
