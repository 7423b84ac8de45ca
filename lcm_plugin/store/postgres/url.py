"""Database URLs: libpq's, with a schema of our own, and as they may be shown."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lcm_plugin.errors import StoreUnavailable

_FORM = "it is written postgresql://user:password@host:port/database"


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "postgresql://(a URL that cannot be read)"
    host = parts.get("host") or "localhost"
    port = f":{parts['port']}" if parts.get("port") else ""
    user = f"{parts['user']}@" if parts.get("user") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}"


def split_schema(url: str) -> tuple[str, str]:
    """The URL without its ``schema`` parameter, and the schema (``lcm`` unless named).

    Raises `StoreUnavailable` for what is no URL, without quoting it: it may hold a password.
    """
    base, mark, query = url.rpartition("?")
    if not mark:
        base, query = url, ""
    pairs = [pair for pair in query.split("&") if pair]
    schema = next((pair.partition("=")[2] for pair in pairs if pair.startswith("schema=")), "lcm")
    rest = [pair for pair in pairs if not pair.startswith("schema=")]
    plain = f"{base}?{'&'.join(rest)}" if rest else base
    try:
        make_conninfo(plain)
    except psycopg.ProgrammingError as error:
        reason = str(error).split('"')[0].strip(" :") or "it is none"
        raise StoreUnavailable(f"the database URL cannot be read: {reason}; {_FORM}") from None
    _refuse_bare_password(conninfo_to_dict(plain))
    if not schema.replace("_", "").isalnum():
        raise StoreUnavailable(f"the schema name must be letters, digits and underscores, not {schema!r}")
    return plain, schema


def _refuse_bare_password(parts: dict[str, Any]) -> None:
    """A ``/`` or ``@`` in a password moves its end into the port, host or database, where errors would show it."""
    ports = str(parts.get("port") or "").split(",")
    odd = [port for port in ports if port and not port.isdecimal()]
    if odd or any("@" in str(parts.get(name) or "") for name in ("host", "dbname")):
        raise StoreUnavailable(
            f"the database URL cannot be read: {_FORM}, and a password's own @ : / ? # % are written "
            "%40 %3A %2F %3F %23 %25"
        )
