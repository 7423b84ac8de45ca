"""Whose name stands beside a change that was made by hand."""

from __future__ import annotations

import getpass
import os

import pytest

from lcm_plugin.maintenance.account import account_name


def test_the_account_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    assert account_name() == "ann"


@pytest.mark.parametrize("error", [KeyError("uid not found"), OSError("No username set"), ImportError("pwd")])
def test_an_account_without_a_name_is_its_number(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def no_name() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", no_name)
    assert account_name() == f"user {os.getuid()}"
