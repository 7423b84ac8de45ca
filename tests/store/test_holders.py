"""A holder that died is known as dead on its own machine, and nowhere else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lcm_plugin.store.leases import is_dead, new_holder

_NAME = "from lcm_plugin.store.leases import new_holder; print(new_holder())"


@pytest.fixture(scope="module")
def dead() -> str:
    done = subprocess.run([sys.executable, "-c", _NAME], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_process_that_ended_is_dead_and_this_one_is_not(dead: str) -> None:
    assert is_dead(dead)
    assert not is_dead(new_holder())
    assert new_holder() != new_holder()


def test_a_process_elsewhere_is_taken_for_alive(dead: str) -> None:
    assert not is_dead("elsewhere" + dead)


@pytest.mark.parametrize("name", ["", "worker:ab12", "host:12:ab", None, "a|b|c", "||"])
def test_a_name_that_says_nothing_is_taken_for_alive(name: str | None) -> None:
    assert not is_dead(name)
