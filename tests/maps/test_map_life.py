"""What maps live through: kills, redaction, export, deletion, and the command line with a real client."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.model_server import Failure, ModelServer
from fakes.processes import Running
from fakes.shell import run_here, run_program
from messages import assistant, user
from waiting import eventually

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.maintenance.redaction.targets import MatchingTexts, NamedThings
from lcm_plugin.maps.source import MapSource
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.store.transfer import table_hashes
from lcm_plugin.types import CompletionRequest, Turn

Open = Callable[..., Engine]
CHILD = Path(__file__).with_name("map_child.py")
TEXT = {"type": "string"}


def seen(request: CompletionRequest) -> str:
    return json.dumps(str(request.messages[1]["content"]).split("\n")[1])


@pytest.mark.both_stores
def test_a_killed_worker_loses_no_answer_and_none_is_paid_twice(
    open_engine: Open, database_named: Callable[[str], str], session: Session, tmp_path: Path
) -> None:
    engine = open_engine(completer=seen)
    items = [(f"item {number}", f"word {number}") for number in range(120)]
    record = engine.maps.create(session, MapSource(items=items), "Say it.", TEXT)
    done_before = set[str]()
    for round_number in range(3):
        log = tmp_path / f"{round_number}.log"
        child = Running(CHILD, database_named("lcm"), record.map_id, log)
        eventually(lambda path=log: path.exists() and len(path.read_text().splitlines()) > 12)
        child.kill()
        child.wait()
        asked = Counter(log.read_text().splitlines())
        assert not done_before & set(asked)
        assert max(asked.values()) == 1

        def stored() -> set[str]:
            return {item.content for item in engine.maps.items(record.map_id) if item.answer}

        # What was answered and not stored yet when the kill came: at most the calls at a time. A server may still be
        # at the last commit.
        eventually(lambda asked=set(asked), known=done_before: len(asked - (stored() - known)) <= 3, 20.0)
        assert stored() - done_before <= set(asked)
        done_before = stored()
    assert engine.maps.run(record.map_id).done == 120


@pytest.mark.both_stores
def test_a_host_goes_on_with_a_map_behind_its_turns(open_engine: Open, session: Session) -> None:
    engine = open_engine(completer=seen, maps=True)
    items = [(f"item {number}", f"word {number}") for number in range(20)]
    record = engine.maps.create(session, MapSource(items=items), "Say it.", TEXT)
    plugin = LcmPlugin(engine=engine)
    plugin.before_turn(Turn(session, [user("hello")], mode="append", window=10_000))
    plugin.after_turn(Turn(session, [assistant("hi")], mode="append", window=10_000))
    eventually(lambda: engine.maps.get(record.map_id).state == "done")
    assert engine.maps.get(record.map_id).done == 20


@pytest.mark.both_stores
def test_redaction_takes_a_secret_out_of_maps(open_engine: Open, session: Session) -> None:
    engine = open_engine(completer=seen)
    engine.ingest(session, [user("the key is sk-Zq81xW77aaPQ"), user("hello"), user("bye")])
    record = engine.map(
        session, MapSource(ids=["msg_1-msg_3"], query=""), "Is sk-Zq81xW77aaPQ in it?", {"type": "string"}
    )
    target = MatchingTexts.of_pattern(r"sk-[A-Za-z0-9]{8,}")
    found = engine.redaction(engine.store).apply(target, "tester")
    assert found.map_texts == 2
    left = json.dumps([str(item) for item in engine.maps.items(record.map_id)])
    assert "sk-Zq81" not in left + engine.maps.get(record.map_id).prompt
    engine.redaction(engine.store).apply(NamedThings(["msg_2"]), "tester")
    assert "hello" not in json.dumps([str(item) for item in engine.maps.items(record.map_id)])
    assert engine.maps.reduce([record], "SELECT count(value) FROM answers", 10).rows == ((3,),)


@pytest.mark.both_stores
def test_a_map_ends_with_its_conversation(
    open_engine: Open, raw_database: Callable[..., Any], session: Session
) -> None:
    engine = open_engine(completer=seen)
    record = engine.map(session, MapSource(items=[("a", "b")]), "Say it.", TEXT)
    with engine.store.write() as writer:
        writer.delete_conversation(record.conversation_id)
    assert engine.maps.listed() == []
    assert raw_database().rows("SELECT count(*) FROM map_items") == [(0,)]


def test_a_map_is_exported_and_comes_in_again(open_engine: Open, session: Session, tmp_path: Path) -> None:
    engine = open_engine(completer=seen)
    engine.map(session, MapSource(items=[("a", "one"), ("b", "two")]), "Say it.", TEXT)
    copy = tmp_path / "copy.db"
    with engine.store.read() as reader:
        before = table_hashes(reader)
    done = run_here("migrate-store", engine.store.location, copy)
    assert done.returncode == 0, done.stderr
    with Engine.open(LcmConfig(database=str(copy))) as moved, moved.store.read() as reader:
        assert table_hashes(reader) == before
        assert [one.done for one in moved.maps.listed()] == [2]


@pytest.fixture
def labelling(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> ModelServer:
    monkeypatch.setenv("LCM_SUMMARY_BASE_URL", server.url)
    monkeypatch.setenv("LCM_SUMMARY_PROVIDER", "openai")
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "fake-model")
    monkeypatch.setenv("LCM_SUMMARY_API_KEY", "sk-fake")
    server.add_rule(
        lambda request: json.dumps({"angry": "!" in request.prompt}) if "<item>" in request.prompt else None
    )
    return server


def test_a_person_maps_a_file_counts_it_and_writes_the_answers(
    labelling: ModelServer, tmp_path: Path
) -> None:
    labelling.enqueue(Failure(429, retry_after=0))
    tickets = tmp_path / "tickets.csv"
    tickets.write_text("id,text\n1,Broken!\n2,Thanks\n3,Again!\n", "utf-8")
    schema = tmp_path / "angry.json"
    schema.write_text(
        '{"type": "object", "properties": {"angry": {"type": "boolean"}}, "required": ["angry"]}'
    )
    database, out = tmp_path / "lcm.db", tmp_path / "out.csv"
    asked = ("map", tickets, "--prompt", "Is the user angry?", "--schema", f"@{schema}", "-d", database)
    plan = run_program(*asked, "--dry-run", "--price", "1/2")
    assert plan.stdout.startswith("3 items, "), plan.stderr
    done = run_program(*asked, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["state"], record["done"], record["source"]) == ("done", 3, "tickets.csv")
    rows = list(csv.DictReader(out.read_text("utf-8").splitlines()))
    assert [(row["ref"], row["angry"]) for row in rows] == [
        ("tickets.csv row 1", "1"),
        ("tickets.csv row 2", "0"),
        ("tickets.csv row 3", "1"),
    ]
    counted = run_here(
        "reduce", record["map_id"], "--sql", "SELECT sum(angry) AS n FROM answers", "--json", "-d", database
    )
    assert json.loads(counted.stdout) == [{"n": 2}]
    assert record["map_id"] in run_here("maps", "-d", database).stdout
    assert labelling.invalid == []


@pytest.mark.long
def test_a_person_sees_the_price_stops_at_the_budget_and_goes_on(
    labelling: ModelServer, tmp_path: Path
) -> None:
    tickets, database, out = tmp_path / "tickets.txt", tmp_path / "lcm.db", tmp_path / "out.jsonl"
    tickets.write_text("".join(f"ticket {n}{'!' if n % 2 else '.'}\n" for n in range(8)), "utf-8")
    schema = '{"type": "object", "properties": {"angry": {"type": "boolean"}}, "required": ["angry"]}'
    asked = ("map", tickets, "--prompt", "Angry?", "--schema", schema, "--max-tokens", "20", "-d", database)
    price = ("--price", "1000/5000", "--json")
    plan = json.loads(run_here(*asked, *price, "--dry-run").stdout)
    assert (plan["items"], plan["most_tokens_out"]) == (8, 160)
    assert plan["usd"] == pytest.approx((plan["tokens_in"] * 1000 + 160 * 5000) / 1_000_000)
    assert not database.exists()
    assert labelling.requests == []
    stopped = run_program(*asked, *price, "--budget", str(plan["usd"] / 2), "--out", out)
    record = json.loads(stopped.stdout)
    assert (stopped.returncode, record["state"], record["reason"]) == (1, "stopped", "the budget is used up")
    assert 0 < record["done"] < 8
    assert record["cost"] <= plan["usd"] / 2 * 1_000_000
    assert [json.loads(line)["state"] for line in out.read_text().splitlines()].count("done") == record[
        "done"
    ]
    calls = len(labelling.requests)
    went_on = run_program("map", "--resume", record["map_id"], "--budget", "99", "--out", out, "-d", database)
    assert went_on.returncode == 0, went_on.stderr
    assert f"{record['map_id']}: done, 8 answered, 0 failed" in went_on.stdout
    assert len(labelling.requests) - calls == 8 - record["done"]
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["answer"] for row in rows] == [{"angry": bool(n % 2)} for n in range(8)]
    assert rows[0]["ref"] == "tickets.txt line 1"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--prompt", "x"), "--schema is needed"),
        (("--prompt", "x", "--schema", "{"), "--schema is not JSON"),
        (("--prompt", "x", "--schema", "{}"), "schema must be a JSON schema"),
        (("--prompt", "x", "--schema", '{"type": "string"}', "--price", "cheap"), "must be two numbers"),
        (("--prompt", "x", "--schema", '{"type": "string"}', "--split", "pages"), "must be one of lines"),
        (("--prompt", "x", "--schema", '{"type": "string"}', "--out", "x.txt"), "must end in .jsonl or .csv"),
        (("--prompt", "x", "--schema", '{"type": "string"}', "--query", "y", "FILE"), "give one of them"),
        (("--prompt", "@missing.txt", "--schema", '{"type": "string"}'), "missing.txt cannot be read"),
        (("--resume", "map_0123456789abcdef"), "there is no map"),
    ],
)
def test_wrong_input_of_a_person_is_named(tmp_path: Path, words: tuple[str, ...], text: str) -> None:
    database = tmp_path / "lcm.db"
    Engine.open(LcmConfig(database=str(database))).close()
    (tmp_path / "FILE").write_text("x")
    given = [str(tmp_path / word) if word == "FILE" else word for word in words]
    done = run_here("map", *given, "-d", database)
    assert done.returncode in (2, 3)
    assert text in done.stderr
