"""How connections are made: the URL's own parameters, and ours where it says nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.string import TextLoader

from lcm_plugin.errors import StoreUnavailable
from lcm_plugin.store.postgres.commit_status import INCARNATION
from lcm_plugin.store.postgres.error_mapping import read_only
from lcm_plugin.store.postgres.watchdog import PatientConnection

OLDEST_SERVER = 140_000
_STATEMENT_TIMEOUT_MS = 60_000
_BEYOND_LOCKS_S = 2.0
# A peer that answers nothing is given up after about 15 s, on either side.
_LIVENESS = {
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "5",
    "keepalives_count": "2",
    "tcp_user_timeout": "15000",
}
# Rows are looked up by key, on disks that read any page as fast as the next, and no statement runs long enough to
# be worth compiling.
_PLANNING = "-c random_page_cost=1.1 -c jit=off"
_SERVER_LIVENESS = "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=2"


@dataclass(frozen=True, slots=True)
class Dialling:
    """What every connection to one database and schema has in common."""

    conninfo: str
    patience: float

    def plain(self, *, statement_timeout_ms: int | None = None) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection of its own, for a moment or for one task."""
        options: dict[str, Any] = {}
        if statement_timeout_ms is not None:
            ours = conninfo_to_dict(self.conninfo)["options"]
            options["options"] = f"{ours} -c statement_timeout={statement_timeout_ms}"
        return psycopg.connect(self.conninfo, autocommit=True, **options)

    def prepare(self, connection: PatientConnection) -> None:
        """Makes a pool's new connection patient, and learns what tells how a commit went."""
        session = "pg_backend_pid()"
        row = connection.execute(INCARNATION + b", " + session.encode()).fetchone()
        assert row is not None
        connection.incarnation, connection.direct = row[0], row[1] == connection.info.backend_pid
        connection.dial, connection.patience = self.plain, self.patience
        # Statements of both databases read JSON as text.
        for name in ("json", "jsonb"):
            connection.adapters.register_loader(name, TextLoader)


def dialling(url: str, schema: str, *, durability: str, busy_timeout_ms: int) -> Dialling:
    """The parameters for a URL; what it names itself comes last and so counts."""
    given: dict[str, Any] = conninfo_to_dict(url)
    options = (
        f"-c search_path={schema},public -c lock_timeout={max(1, busy_timeout_ms)} "
        f"-c statement_timeout={_STATEMENT_TIMEOUT_MS} "
        f"-c synchronous_commit={'on' if durability == 'full' else 'local'} {_PLANNING} {_SERVER_LIVENESS}"
    )
    ours = {
        "application_name": "lcm",
        "connect_timeout": str(max(2, math.ceil(busy_timeout_ms / 1000))),
        **_LIVENESS,
    }
    joined = f"{options} {given.get('options') or ''}".strip()
    conninfo = make_conninfo(**{**ours, **given, "options": joined})
    return Dialling(conninfo, busy_timeout_ms / 1000 + _BEYOND_LOCKS_S)


def require_usable(connection: psycopg.Connection[tuple[Any, ...]], location: str, *, writing: bool) -> None:
    """Raises `StoreUnavailable` for a server that is too old, or that only reads when it is to be written."""
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        raise StoreUnavailable(
            f"{location} is PostgreSQL {version // 10_000}; 14 or newer is needed: upgrade the server"
        )
    if not writing:
        return
    told: Callable[[str], str | None] = connection.info.parameter_status
    if told("in_hot_standby") == "on":
        raise read_only(location, "a standby that follows another server")
    if told("default_transaction_read_only") == "on":
        raise read_only(location, "default_transaction_read_only is on")
