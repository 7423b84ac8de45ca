"""What the tests of the command line look at: a replayed incident."""

from __future__ import annotations

import json

import pytest
from fakes.shell import run_here
from replayed import INCIDENT, Replayed


@pytest.fixture(scope="session")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """The incident after its replay, for tests that change nothing."""
    database = tmp_path_factory.mktemp("incident") / "a.db"
    done = run_here("replay", INCIDENT, "--budget", "16000", "--database", database, "--json")
    assert done.returncode == 0, done.stderr
    return Replayed(database, json.loads(done.stdout))
