"""How connections are made: the URL's own parameters, and ours where it says nothing; with or without a pooler."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import Literal
from psycopg.types.string import TextLoader

from lcm_plugin.errors import StoreUnavailable
from lcm_plugin.store.postgres.commit_status import INCARNATION
from lcm_plugin.store.postgres.error_mapping import read_only
from lcm_plugin.store.postgres.watchdog import WatchedConnection

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
_SERVER_LIVENESS = {"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "2"}
_PLAN_SETTINGS = {
    # Rows are looked up by key, on disks that read any page as fast as the next, and no statement runs long enough to
    # be worth compiling.
    "random_page_cost": "1.1",
    "jit": "off",
}
_FORM_SETTINGS = {
    # What our statements rely on, whatever a role, a database or the environment (PGDATESTYLE …) says.
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "transform_null_equals": "off",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}
# What a server process only takes when it starts: through a pooler it cannot be set.
_AT_START_ONLY = frozenset(
    {
        "session_preload_libraries",
        "local_preload_libraries",
        "ignore_system_indexes",
        "post_auth_delay",
        "log_connections",
        "log_disconnections",
    }
)
_SESSION_ONLY = ("client_encoding", *_SERVER_LIVENESS)
_OPTION = re.compile(r"(?:-c\s*|--)([\w.]+)\s*=\s*((?:\\.|\S)*)")


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """What every connection to one database and schema has in common.

    ``settings`` are the server's settings by name. They are not part of the start-up packet, since a pooler such as
    PgBouncer refuses most of them there: a connection of our own gets them once, one that a pooler lends out for
    a transaction gets them at the beginning of each.
    """

    conninfo: str
    patience: float
    settings: Mapping[str, str]

    def plain(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection of its own, for a moment, with the server's own settings."""
        return psycopg.connect(self.conninfo, autocommit=True)

    def watched(self) -> WatchedConnection:
        """A connection of its own with our settings, as far as they can be had outside transactions."""
        connection = WatchedConnection.connect(self.conninfo, autocommit=True)
        try:
            self.prepare(connection)
            if connection.direct:
                connection.execute("SET statement_timeout = 0")
        except BaseException:
            connection.close()
            raise
        connection.patience = 0.0
        return connection

    def prepare(self, connection: WatchedConnection) -> None:
        """Makes a pool's new connection patient, learns how to ask for a commit's outcome, and gives it our settings."""
        session = "pg_backend_pid()"
        row = connection.execute(INCARNATION + b", " + session.encode()).fetchone()
        assert row is not None
        connection.incarnation, connection.direct = row[0], row[1] == connection.info.backend_pid
        if connection.direct:
            connection.execute(_setting(self.settings, for_transaction=False))
        else:
            # Whoever lends the connection may hand the next transaction to another server process.
            connection.prepare_threshold = None
            lent = {name: value for name, value in self.settings.items() if name not in _SESSION_ONLY}
            connection.begins_with = _setting(lent, for_transaction=True)
        connection.connect_anew, connection.patience = self.plain, self.patience
        # Statements of both databases read JSON as text.
        for name in ("json", "jsonb"):
            connection.adapters.register_loader(name, TextLoader)


def connect_options(url: str, schema: str, *, durability: str, busy_timeout_ms: int) -> ConnectOptions:
    """The parameters for a URL; what it names itself counts more than ours, except how texts are encoded."""
    given: dict[str, Any] = conninfo_to_dict(url)
    named = _given_settings(str(given.get("options") or ""))
    at_start = [f"-c {name}={_escaped(named.pop(name))}" for name in sorted(_AT_START_ONLY & named.keys())]
    settings = {
        "client_encoding": "UTF8",
        **_FORM_SETTINGS,
        "search_path": f"{schema}, public",
        "lock_timeout": str(max(1, busy_timeout_ms)),
        "statement_timeout": str(_STATEMENT_TIMEOUT_MS),
        "synchronous_commit": "on" if durability == "full" else "local",
        **_PLAN_SETTINGS,
        **_SERVER_LIVENESS,
        **named,
    }
    ours = {
        "application_name": "lcm",
        "connect_timeout": str(max(2, math.ceil(busy_timeout_ms / 1000))),
        **_LIVENESS,
    }
    # An empty "options" also keeps PGOPTIONS out, as "client_encoding" does PGCLIENTENCODING.
    conninfo = make_conninfo(**{**ours, **given, "options": " ".join(at_start), "client_encoding": "UTF8"})
    return ConnectOptions(conninfo, busy_timeout_ms / 1000 + _BEYOND_LOCKS_S, settings)


def _given_settings(options: str) -> dict[str, str]:
    """The ``-c name=value`` of a URL's ``options``; raises `StoreUnavailable` for anything else in them."""
    if rest := _OPTION.sub("", options).strip():
        raise StoreUnavailable(f"options in the database URL may be '-c name=value' only, not {rest!r}")
    return {name.lower(): re.sub(r"\\(.)", r"\1", value) for name, value in _OPTION.findall(options)}


def _escaped(value: str) -> str:
    return re.sub(r"([\\\s])", r"\\\1", value)


def _setting(settings: Mapping[str, str], *, for_transaction: bool) -> bytes:
    """One statement that sets all of them, for the session or until the transaction ends."""
    scope = "true" if for_transaction else "false"
    calls = (
        f"pg_catalog.set_config({Literal(name).as_string(None)}, {Literal(value).as_string(None)}, {scope})"
        for name, value in settings.items()
    )
    return f"SELECT {', '.join(calls)}".encode()


def require_usable(connection: psycopg.Connection[tuple[Any, ...]], location: str, *, writing: bool) -> None:
    """Raises `StoreUnavailable` for a server that is too old, or that only reads when it is to be written."""
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        raise StoreUnavailable(
            f"{location} is PostgreSQL {version // 10_000}; 14 or newer is needed: upgrade the server"
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding is not None and encoding != "UTF8":
        raise StoreUnavailable(
            f"{location} is encoded in {encoding}, which cannot hold every text: "
            "make one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )
    if not writing:
        return
    told: Callable[[str], str | None] = connection.info.parameter_status
    if told("in_hot_standby") == "on":
        raise read_only(location, "a standby that follows another server")
    if told("default_transaction_read_only") == "on":
        raise read_only(location, "default_transaction_read_only is on")


def require_primary(connection: psycopg.Connection[tuple[Any, ...]], location: str) -> None:
    """Raises `StoreUnavailable` for a standby; asks the server, which a pooler does not say it of by itself."""
    if connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
        raise read_only(location, "a standby that follows another server")
