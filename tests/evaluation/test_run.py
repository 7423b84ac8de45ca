"""A run measures this plugin beside agents without it, and says where each figure comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evaluation import layouts
from fakes.model_server import Calls, ModelRequest, ModelServer, Outcome, Reply
from fakes.shell import run_here, run_program

from lcm_plugin.errors import InputError
from lcm_plugin.evaluation.loaders.locomo import load
from lcm_plugin.evaluation.records import Question, Talk
from lcm_plugin.evaluation.report import as_markdown, as_table
from lcm_plugin.evaluation.run import Plan, document, run
from lcm_plugin.evaluation.systems import Baseline
from lcm_plugin.messages.tokens import TokenCounter

README = Path(__file__).resolve().parents[2] / "README.md"
SMALL = {"freshTailCount": "8", "leafTriggerTokens": "500"}


def figures(plan: Plan, resume: Path | None = None) -> dict[str, dict[str, Any]]:
    return {row["system"]: row for row in document(run(plan, resume), plan)["rows"]}


@pytest.mark.long
def test_what_was_summarised_away_is_found_and_quoted_where_the_newest_messages_lack_it(
    tmp_path: Path,
) -> None:
    rows = figures(Plan("locomo", layouts.locomo(tmp_path), windows=(4_000,), settings=SMALL))
    lcm, newest, whole = rows["lcm"], rows["truncate"], rows["full"]
    assert (lcm["evidence_in_view"], newest["evidence_in_view"], whole["evidence_in_view"]) == (100, 50, 100)
    assert lcm["hit_10"] == 100
    assert lcm["context_tokens"] <= 4_000
    assert newest["context_tokens"] <= 4_000
    assert (whole["over_window"], lcm["over_window"]) == (100, 0)
    assert lcm["bill"] < whole["bill"] == 100
    assert {row["questions"] for row in rows.values()} == {2}


def test_the_bill_of_a_baseline_is_the_one_counted_by_hand() -> None:
    counter = TokenCounter()
    talk = [{"role": role, "content": f"{n} " * 50} for n, role in enumerate(["user", "assistant"] * 6)]
    size = counter.message(talk[0])
    system = Baseline("truncate", 4 * size, counter)
    bill = system.play(Talk("made", talk, ()))
    # Requests of 1, 3, 4, 4, 4 and 4 messages; from the third on the first message goes, and with it the cache.
    assert bill.requests == 6
    assert bill.hits == pytest.approx(size, rel=0.05)
    assert bill.hits + bill.misses == pytest.approx(20 * size, rel=0.05)


def test_no_baseline_parts_a_call_from_its_result() -> None:
    counter = TokenCounter()
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    talk: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "x " * 100, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "y " * 60},
        {"role": "assistant", "content": "z " * 60},
        {"role": "user", "content": "on"},
        {"role": "assistant", "content": "w " * 10},
    ]
    for name in ("truncate", "head-tail"):
        for window in range(60, 400, 7):
            system = Baseline(name, window, counter)
            system.take(Talk("made", talk, ()))
            with system.ask(Question("q", "?")) as asked:
                made = {one["id"] for row in asked.messages for one in row.get("tool_calls", ())}
                answered = {row["tool_call_id"] for row in asked.messages if row["role"] == "tool"}
                assert made == answered, (name, window)


def test_a_broken_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path, resume = layouts.locomo(tmp_path), tmp_path / "progress.jsonl"
    plan = Plan("locomo", path, systems=("truncate", "full"), windows=(4_000,))
    whole = figures(plan, resume)
    lines = resume.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    # The last entry was cut off, and the one before says something that no measurement would.
    entry = json.loads(lines[1])
    entry["tally"]["context_tokens"] += 1_000
    resume.write_text("\n".join([lines[0], json.dumps(entry), lines[2][:40]]) + "\n", encoding="utf-8")
    again = figures(plan, resume)
    assert again["truncate"]["context_tokens"] == whole["truncate"]["context_tokens"] + 500
    assert again["full"] == whole["full"]


def test_a_resume_file_of_another_run_is_refused(tmp_path: Path) -> None:
    path, resume = layouts.locomo(tmp_path), tmp_path / "progress.jsonl"
    run(Plan("locomo", path, systems=("full",), windows=(4_000,)), resume)
    with pytest.raises(InputError, match="another run"):
        run(Plan("locomo", path, systems=("full",), windows=(8_000,)), resume)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (Plan("locomo", Path("x"), systems=("magic",)), "magic"),
        (Plan("locomo", None), "path"),
        (Plan("generated", Path("x")), "no path"),
        (Plan("locomo", Path("/nowhere/at/all")), "nowhere"),
        (Plan("generated", None, judge="x"), "--model"),
    ],
)
def test_what_cannot_be_run_is_refused_at_once(plan: Plan, said: str) -> None:
    with pytest.raises(InputError, match=said):
        run(plan)


def test_a_result_names_its_command_version_and_data(tmp_path: Path) -> None:
    plan = Plan("locomo", layouts.locomo(tmp_path), systems=("full",), windows=(4_000,), settings=SMALL)
    found = document(run(plan), plan)
    for text in (as_markdown(found), as_table(found)):
        assert found["data_sha256"] in text
        assert found["version"] in text
        assert "lcm eval locomo locomo.json --systems full --windows 4000 --set freshTailCount=8" in text
    assert str(tmp_path) not in as_markdown(found)
    head, rule, row = as_markdown(found).splitlines()[:3]
    assert head.count("|") == rule.count("|") == row.count("|")
    assert all(
        one[key] == found[key] for one in found["rows"] for key in ("version", "data_sha256", "command")
    )


def answers(request: ModelRequest) -> Outcome | str:
    """An agent that looks things up once, and a judge that knows the gold answer."""
    text = str(request.messages[-1]["content"])
    if text.startswith("You grade"):
        gold, said = text.partition("Gold answer: ")[2].split("\nAnswer: ")
        return Reply("CORRECT" if gold.split()[-1] in said else "WRONG")
    if request.messages[-1]["role"] == "tool":
        return Reply("It was Ann's sister." if "albatross" in text else "It was not said.")
    if request.body.get("tools"):
        return Calls(("lcm_grep", {"pattern": "albatross"}))
    return Reply("The harbour sells marzipan.")


@pytest.mark.long
def test_a_model_answers_with_the_tools_and_another_judges(tmp_path: Path, server: ModelServer) -> None:
    server.add_rule(answers)
    plan = Plan(
        "locomo",
        layouts.locomo(tmp_path, 90),
        systems=("lcm", "truncate"),
        windows=(3_000,),
        model="openai/gpt-4o-mini",
        judge="openai/gpt-4o",
        base_url=server.url,
        settings=SMALL,
    )
    rows = figures(plan)
    # With its tools it finds the sister and looks for the wrong thing about marzipan; without, the other way round.
    assert [rows[name]["judged"] for name in ("lcm", "truncate")] == [50, 50]
    assert [rows[name]["model_calls"] for name in ("lcm", "truncate")] == [1, 0]
    assert [rows[name]["judged_deviation"] for name in ("lcm", "truncate")] == [0, 0]
    assert all(row["seeds"] == 3 and row["dollars"] > 0 for row in rows.values())
    assert rows["lcm"]["model_prompt_tokens"] > 2 * rows["lcm"]["context_tokens"] * 0.9
    assert {request.body["seed"] for request in server.requests} == {1, 2, 3}
    assert not [one for one in server.requests if one.body.get("tools") and one.problems]


def counts(request: ModelRequest) -> Outcome | str:
    """An agent that maps, sums and answers, and the model that counts the lines of one item."""
    if "one item of many" in str(request.messages[0]["content"]):
        return json.dumps({"n": str(request.messages[1]["content"]).count("Instance:")})
    results = [json.loads(str(one["content"])) for one in request.messages if one["role"] == "tool"]
    if not results:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        return Calls(("lcm_map", {"prompt": "How many instances?", "schema": schema, "roles": ["user"]}))
    if len(results) == 1:
        asked = {"handles": [results[0]["handle"]], "sql": "SELECT sum(n) FROM answers"}
        return Calls(("lcm_reduce", asked))
    return Reply(f"Answer: {results[1]['rows'][0][0]}")


@pytest.mark.long
def test_with_a_key_one_command_scores_an_agent_with_maps_on_oolong(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = layouts.oolong(tmp_path)
    [row, _] = map(json.loads, path.read_text("utf-8").splitlines())
    path.write_text(json.dumps(row | {"question": "How many instances?", "answer": "[89]"}), "utf-8")
    server.add_rule(counts)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    model = "openai/gpt-4o-mini"
    words = (
        "eval",
        "oolong",
        path,
        "--systems",
        "lcm",
        "--windows",
        "8000",
        "--model",
        model,
        "--seeds",
        "1",
    )
    done = run_program(*words, "--set", "maps=true", "--set", f"mapModel={model}", "--json")
    assert done.returncode == 0, done.stderr
    [figures] = json.loads(done.stdout)["rows"]
    assert (figures["judged"], figures["model_calls"], figures["questions"]) == (100, 2, 1)
    assert server.invalid == []


def test_scores_that_differ_between_seeds_have_a_deviation(tmp_path: Path, server: ModelServer) -> None:
    server.add_rule(
        lambda request: Reply("WRONG" if request.body["seed"] == 3 else "CORRECT, marzipan and sister")
    )
    plan = Plan(
        "locomo",
        layouts.locomo(tmp_path, 10),
        systems=("full",),
        windows=(4_000,),
        model="openai/m",
        base_url=server.url,
    )
    row = figures(plan)["full"]
    assert row["judged"] == pytest.approx(66.7)
    assert row["judged_deviation"] == pytest.approx(47.14)
    assert row["dollars"] is None  # nobody knows what this model costs


@pytest.mark.long
def test_the_command_measures_generated_data_without_a_key_as_the_readme_says() -> None:
    command = "lcm eval generated --systems lcm,truncate --windows 8000 --talks 1 --seed 1"
    done = run_here(*command.split()[1:], "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = {row["system"]: row for row in found["rows"]}
    assert found["command"] == command
    in_view = [f"{rows[name]['evidence_in_view']} %" for name in ("lcm", "truncate")]
    [said] = [line for line in README.read_text(encoding="utf-8").splitlines() if command in line]
    assert [cell.strip(" *") for cell in said.split("|")[2:4]] == in_view
    assert said.endswith(f"| `{found['data_sha256'][:8]}` |")
    assert rows["lcm"]["hit_10"] == 100
    assert rows["lcm"]["bill"] < 80


def test_the_command_reads_a_file_and_prints_markdown(tmp_path: Path) -> None:
    path = layouts.tau(tmp_path)
    done = run_here("eval", "tau", path, "--windows", "2000", "--systems", "lcm,full", "--markdown")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("| system | window |")
    assert "| lcm | 2,000 | 100.0 |" in done.stdout


def test_the_command_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    assert run_here("eval", "locomo", tmp_path / "none.json").returncode == 2
    assert run_here("eval", "locomo", layouts.tau(tmp_path)).returncode == 2
    assert run_here("eval", "generated", "--windows", "many").returncode == 2


def test_a_talk_is_cut_to_what_was_asked_for(tmp_path: Path) -> None:
    [talk] = load(layouts.locomo(tmp_path))
    short = talk.shortened(10, None)
    assert (len(short.messages), len(short.questions)) == (10, 1)
    assert len(talk.shortened(None, 1).questions) == 1
