"""The server that other tests stop, crash and ask for passwords: does it do so?"""

from __future__ import annotations

import psycopg
import pytest
from postgres_server import PostgresServer

HBA = "local all all trust\nhost all lcm 127.0.0.1/32 scram-sha-256\n"


@pytest.mark.long
def test_what_was_committed_survives_a_restart_and_a_crash_of_a_durable_server() -> None:
    with PostgresServer(durable=True, settings={"shared_buffers": "16MB"}) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE told AS SELECT 1 AS number")
            connection.commit()
            assert connection.execute("SHOW shared_buffers").fetchone() == ("16MB",)
            server.restart()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        with psycopg.connect(server.url) as connection:
            connection.execute("INSERT INTO told VALUES (2)")
            connection.commit()
            server.crash()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.url)
        server.start()
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT count(*) FROM told").fetchone() == (2,)
    assert not server.folder.exists()


def test_a_password_is_asked_for_over_tcp() -> None:
    with PostgresServer(tcp=True, hba=HBA) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE lcm LOGIN PASSWORD 'horse'")
        with psycopg.connect(server.tcp_url("lcm", "horse")) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("lcm",)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.tcp_url("lcm", "donkey"))
