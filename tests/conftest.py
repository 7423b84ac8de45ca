"""What many tests need: an engine on a fresh database, a session, a clock that stands still."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis
import pytest
from clock import Clock
from databases import FreshDatabase, RawDatabase, open_raw
from effort import FULL, examples
from fakes.model_server import ModelServer
from postgres_server import EmptySchemas, running_server

from lcm_plugin import Engine, LcmConfig, Session

# The settings file of whoever runs the tests must not change them.
os.environ["LCM_CONFIG"] = str(Path(__file__).with_name("no-settings.json"))
# What waits for a server's database lies in the user's data folder: one of the tests' own.
_DATA_HOME = TemporaryDirectory(prefix="lcm-data-")
os.environ["XDG_DATA_HOME"] = _DATA_HOME.name

# A build that failed must fail again: there the examples are the same every time. Elsewhere they vary.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("here", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("ci" if FULL else "here")


@pytest.fixture(autouse=True)
def no_invalid_context(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Every assembly checks itself; where a hook hides that it failed, its log line still tells."""
    yield
    told = [record for when in ("setup", "call") for record in caplog.get_records(when)]
    broken = [text for record in told if "breaks a provider's rule" in (text := record.getMessage())]
    assert not broken, broken


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def session() -> Session:
    return Session("agent:main:main", "run-1")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A model server on this machine, and a key that it takes."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-fake")
    with ModelServer() as running:
        yield running


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked ``both_stores`` run on SQLite and on PostgreSQL, those marked ``both_stores_under_ci`` there."""
    marked = metafunc.definition.get_closest_marker
    both = marked("both_stores") or (FULL and marked("both_stores_under_ci"))
    if "store_kind" in metafunc.fixturenames and both and not marked("sqlite_only"):
        metafunc.parametrize("store_kind", ["sqlite", "postgres"], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``long`` run under CI only."""
    for item in items:
        if not FULL and item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip("a long one: runs where CI is set"))


@pytest.fixture
def store_kind(request: pytest.FixtureRequest) -> str:
    """The store that a test runs on."""
    return getattr(request, "param", "sqlite")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running PostgreSQL server."""
    with running_server() as url:
        yield url


@pytest.fixture(scope="session")
def empty_schemas(postgres_server: str) -> Iterator[EmptySchemas]:
    """Schemas that are emptied for each test."""
    schemas = EmptySchemas(postgres_server)
    yield schemas
    schemas.close()


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite database without rows: to copy it takes a quarter of the time that making one takes."""
    path = tmp_path_factory.mktemp("empty") / "lcm.db"
    Engine.open(LcmConfig(database=str(path))).close()
    return path


@pytest.fixture
def database_named(store_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Names databases; the same name is the same database."""
    urls: dict[str, str] = {}

    def named(name: str) -> str:
        if store_kind == "sqlite":
            return str(tmp_path / f"{name}.db")
        if name not in urls:
            urls[name] = request.getfixturevalue("empty_schemas").empty(name)
        return urls[name]

    return named


@pytest.fixture
def fresh_database(store_kind: str, request: pytest.FixtureRequest) -> FreshDatabase:
    """Empty databases one after the other, for the examples of a property; several names are several at once."""

    @contextmanager
    def fresh(name: str = "lcm", kind: str = store_kind) -> Iterator[str]:
        if kind == "postgres":
            yield request.getfixturevalue("empty_schemas").empty(f"fresh_{name}")
        else:
            with TemporaryDirectory(prefix="lcm-") as folder:
                yield str(shutil.copy(request.getfixturevalue("empty_sqlite"), Path(folder) / f"{name}.db"))

    return fresh


@pytest.fixture
def open_engine(
    database_named: Callable[[str], str], empty_sqlite: Path, clock: Clock
) -> Iterator[Callable[..., Engine]]:
    """Opens engines; several calls with the same ``name`` share a database."""
    engines: list[Engine] = []

    def open_one(name: str = "lcm", completer: Any = None, **settings: Any) -> Engine:
        database = database_named(name)
        if "://" not in database and Path(database).parent.is_dir() and not Path(database).exists():
            shutil.copy(empty_sqlite, database)
        engine = Engine.open(LcmConfig(database=database, **settings), completer, clock=clock)
        engines.append(engine)
        return engine

    yield open_one
    for engine in engines:
        engine.close()


@pytest.fixture
def raw_database(database_named: Callable[[str], str]) -> Iterator[Callable[..., RawDatabase]]:
    """Opens connections to read or damage a database with; the name is that of `open_engine`."""
    opened: list[RawDatabase] = []

    def open_one(name: str = "lcm") -> RawDatabase:
        opened.append(open_raw(database_named(name)))
        return opened[-1]

    yield open_one
    for database in opened:
        database.close()


@pytest.fixture
def engine(open_engine: Callable[..., Engine]) -> Engine:
    return open_engine()
