"""What a search finds, how it is ordered, and what it says about the rest."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.store.search import Filter

pytestmark = pytest.mark.both_stores

Grep = Callable[..., dict[str, Any]]


def texts(answer: dict[str, Any]) -> list[str]:
    assert "error" not in answer, answer
    return [hit["snippet"].replace("**", "") for hit in answer["hits"]]


def store(engine: Engine, session: Session, *contents: str) -> None:
    engine.ingest(session, [user(content) for content in contents])


@pytest.mark.parametrize(
    ("pattern", "hit", "miss"),
    [
        ("my-proxy", "restart my-proxy now", "my new proxy"),
        ("10:30", "meet at 10:30", "10 of 30"),
        ("src/a/b.py", "edit src/a/b.py", "src a b py"),
        ("C++", "we use C++ here", "grade C, ++"),
        ("C#", "we use C# here", "a C major chord"),
        ("don't", "please don't stop", "the don of t"),
        ("foo_bar", "call foo_bar", "call fooXbar"),
        ("50%", "at 50% load", "50 of 100"),
        ("->", "a -> b", "a - b"),
        ("🚀", "lift off 🚀", "lift off"),
    ],
)
def test_words_with_signs_are_found_as_written(
    engine: Engine, session: Session, grep: Grep, pattern: str, hit: str, miss: str
) -> None:
    store(engine, session, hit, miss)
    assert texts(grep(pattern)) == [hit]


def test_a_colon_is_no_column(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, "TODO: fix the lamp", "nothing else")
    assert texts(grep("TODO: fix")) == ["TODO: fix the lamp"]


@pytest.mark.parametrize(
    "pattern",
    ["/", ".", "'", "%", "(", '"', "NEAR(", "*", "a AND", '""', " ", "\x00", "-", "^x:", "{", "a*b("],
)
def test_no_pattern_raises(engine: Engine, session: Session, grep: Grep, pattern: str) -> None:
    store(engine, session, "some text")
    assert "error" not in grep(pattern)


@pytest.mark.parametrize("pattern", ["静默", "静", "默模", "モード", "설정"])
def test_chinese_japanese_and_korean_are_found_inside_runs(
    engine: Engine, session: Session, grep: Grep, pattern: str
) -> None:
    store(engine, session, "请打开静默模式", "マナーモードの設定", "알림설정을 끄기", "plain")
    assert len(grep(pattern)["hits"]) == 1


def test_a_mixed_query_needs_all_parts(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, "机器人 发布 完成", "机器人 坏了", "发布 docker 镜像")
    assert texts(grep("机器人 发布")) == ["机器人 发布 完成"]
    assert texts(grep("发布 docker")) == ["发布 docker 镜像"]


def test_an_absent_part_falls_back_and_says_so(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, "机器人 坏了")
    answer = grep("机器人 天气")
    assert texts(answer) == ["机器人 坏了"]
    assert "some of them" in answer["notices"][0]


def test_any_word_is_enough_and_more_words_are_better(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, "a lamp", "nothing", "the red lamp on the table", "a table")
    assert texts(grep("red lamp table"))[0] == "the red lamp on the table"
    assert len(grep("red lamp table")["hits"]) >= 3


def test_a_phrase_is_exact(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, "the lamp is red", "a red lamp")
    assert texts(grep('"red lamp"')) == ["a red lamp"]


def test_a_phrase_that_is_nowhere_falls_back_to_its_words(
    engine: Engine, session: Session, grep: Grep
) -> None:
    store(engine, session, "the lamp is red", "blue")
    answer = grep('"red lamp"')
    assert texts(answer) == ["the lamp is red"]
    assert "its words were taken" in answer["notices"][0]


def test_a_piece_of_a_word_is_found_when_nothing_else_is(
    engine: Engine, session: Session, grep: Grep
) -> None:
    store(engine, session, "a ConnectionTimeoutError came", "nothing")
    answer = grep("timeouterr")
    assert texts(answer) == ["a ConnectionTimeoutError came"]
    assert "longer words that hold it" in answer["notices"][0]
    assert grep("qq zz")["hits"] == []


def test_a_regex_in_full_text_names_the_mode(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, "A alone", "B alone")
    assert "regex" in grep("A|B|C")["notices"][0]


def test_tool_inputs_and_outputs_are_found(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(
        session,
        [
            user("go"),
            call("c1", "look", '{"path": "heron.txt"}'),
            result("c1", "the heron stands"),
            assistant("ok"),
        ],
    )
    assert {hit["role"] for hit in grep("heron")["hits"]} == {"tool", "assistant"}
    assert [hit["role"] for hit in grep("heron stands", roles=["tool"])["hits"]] == ["tool"]
    assert [hit["role"] for hit in grep("heron.txt")["hits"]] == ["assistant"]
    assert len(grep("heron", tool_name="look", mode="regex")["hits"]) >= 1
    assert grep("heron", tool_name="other")["hits"] == []


def test_reasoning_is_not_searched(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(session, [user("hi"), assistant("fine", reasoning_content="secret heron")])
    assert grep("heron")["hits"] == []
    assert grep("heron", mode="regex")["hits"] == []


def test_roles_filter(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(session, [user("lamp one"), assistant("lamp two")])
    assert texts(grep("lamp", roles=["assistant"])) == ["lamp two"]
    assert texts(grep("which lamp and one and two", roles="user")) == ["lamp one"]


@pytest.mark.parametrize("mode", ["full_text", "regex"])
def test_the_limit_acts_after_sorting(engine: Engine, session: Session, grep: Grep, mode: str) -> None:
    store(engine, session, *(f"静 row {n}" for n in range(60)))
    pattern = "静" if mode == "full_text" else "静 row"
    answer = grep(pattern, mode=mode, sort="recency", limit=5)
    assert texts(answer) == [f"静 row {n}" for n in (59, 58, 57, 56, 55)]


@pytest.mark.parametrize("sort", ["relevance", "recency", "hybrid"])
@pytest.mark.parametrize("pattern", ["lamp", "lamp row", "my-lamp", "静"])
def test_pages_hold_every_hit_once(
    engine: Engine, session: Session, grep: Grep, sort: str, pattern: str
) -> None:
    store(engine, session, *(f"lamp my-lamp 静 row {n} {'x ' * (n % 7)}" for n in range(47)))
    seen: list[str] = []
    answer = grep(pattern, sort=sort, limit=10)
    assert answer["total"] in (47, "at least 47") or answer["total_is_exact"] is False
    while True:
        seen += [hit["id"] for hit in answer["hits"]]
        if "next_cursor" not in answer:
            break
        store(engine, session, f"a newer lamp my-lamp 静 row {len(seen)}")
        answer = grep(pattern, sort=sort, limit=10, cursor=answer["next_cursor"])
    assert len(seen) == len(set(seen)) == 47


def test_pages_of_a_regex_hold_every_hit_once(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, *(f"row {n}" for n in range(25)))
    first = grep(r"row \d", mode="regex", limit=10)
    second = grep(r"row \d", mode="regex", limit=10, cursor=first["next_cursor"])
    third = grep(r"row \d", mode="regex", limit=10, cursor=second["next_cursor"])
    assert [len(page["hits"]) for page in (first, second, third)] == [10, 10, 5]
    assert "next_cursor" not in third


def test_a_cursor_belongs_to_its_search(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, *(f"row {n}" for n in range(5)))
    cursor = grep("row", limit=2)["next_cursor"]
    assert "another search" in grep("lamp", limit=2, cursor=cursor)["error"]
    assert "not one that lcm_grep returned" in grep("row", cursor="garbage")["error"]


def test_totals_are_true(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, *(f"lamp {n}" for n in range(30)), "other")
    answer = grep("lamp", limit=3)
    assert (answer["total"], answer["total_is_exact"]) == (30, True)


def test_a_regex_says_at_least(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, *(f"lamp {n}" for n in range(30)))
    assert grep("lamp", mode="regex", limit=3)["total"] == "at least 3"


def test_times_are_instants(engine: Engine, session: Session, grep: Grep, clock: Any) -> None:
    engine.ingest(session, [user("old lamp", created_at="2026-01-01T23:59:59")])
    engine.ingest(session, [user("new lamp", created_at="2026-01-02T00:30:00+01:00")])
    engine.ingest(session, [user("last lamp", created_at="2026-01-02T00:00:00.500Z")])
    assert set(texts(grep("lamp", since="2026-01-02"))) == {"last lamp"}
    assert set(texts(grep("lamp", before="2026-01-01T23:59:59Z"))) == {"new lamp"}
    assert "must be earlier" in grep("lamp", since="2026-01-02", before="2026-01-01")["error"]
    engine.ingest(session, [user("just now, a lamp")])
    clock.forward(3_600_000)
    assert texts(grep("lamp", since="2h")) == ["just now, a lamp"]


def test_hybrid_prefers_the_newer_of_equals(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(session, [user("lamp a", created_at="2026-01-01T00:00:00Z")])
    engine.ingest(session, [user("lamp b", created_at="2026-05-01T00:00:00Z")])
    engine.ingest(session, [user("lamp c", created_at="2026-03-01T00:00:00Z")])
    assert texts(grep("lamp", sort="hybrid")) == ["lamp b", "lamp c", "lamp a"]


def test_a_hit_shows_the_turns_round_it(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(session, [user("first"), assistant("the zebra"), user("third")])
    hit = grep("zebra")["hits"][0]
    assert [one["text"] for one in hit["before"]] == ["first"]
    assert [one["text"] for one in hit["after"]] == ["third"]
    assert "before" not in grep("zebra", context=0)["hits"][0]


def test_a_question_finds_the_answer_beside_the_words(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(session, [user(f"filler number {n} about weather") for n in range(20)])
    engine.ingest(session, [assistant("Which instrument did your sister learn?"), user("The cello.")])
    engine.ingest(session, [user(f"more filler {n}") for n in range(20)])
    found = grep("What instrument did the sister learn?")["hits"]
    assert "The cello." in [hit["snippet"] for hit in found[:2]]


def test_a_named_speaker_answers(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(
        session,
        [
            user("I bought a red lamp", name="Ann"),
            assistant("I bought a red lamp", name="Bob"),
            user("We talked about nothing", name="Ann"),
        ],
    )
    assert grep("Which lamp has Bob bought?")["hits"][0]["sender"] == "Bob"
    assert grep("Which lamp has Ann bought?")["hits"][0]["sender"] == "Ann"


def test_a_question_in_the_first_person_is_answered_by_the_user(
    engine: Engine, session: Session, grep: Grep
) -> None:
    engine.ingest(
        session,
        [
            assistant("You could name the boat after a bird, a boat needs a name."),
            user("I named the boat Heron."),
            assistant("A boat named Heron, then. A fine name for a boat."),
        ],
    )
    assert grep("What did I name my boat?")["hits"][0]["role"] == "user"


def test_a_regex_considers_every_row(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, "needle 7", *(f"hay {n}" for n in range(2_000)))
    assert texts(grep(r"needle \d", mode="regex")) == ["needle 7"]
    assert texts(grep(r"^n\w+ \d$", mode="regex")) == ["needle 7"]


def test_a_regex_minds_the_case_unless_told(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, "Needle")
    assert grep("needle", mode="regex")["hits"] == []
    assert len(grep("(?i)needle", mode="regex")["hits"]) == 1


def test_a_runaway_regex_is_harmless(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, "a" * 24 + "!")
    started = time.process_time()
    for pattern in ("(a|a)*$", "(a+)+$", "(.*)*x"):
        assert "error" not in grep(pattern, mode="regex")
    assert time.process_time() - started < 30


def test_what_re2_lacks_is_named(engine: Engine, session: Session, grep: Grep) -> None:
    store(engine, session, "x")
    answer = grep("(?=x)", mode="regex")
    assert "look-around" in answer["error"]
    assert answer["error_code"] == "INVALID_ARGUMENTS"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"limit": 0}, "limit = 0"),
        ({"limit": 201}, "limit = 201"),
        ({"scope": "bogus"}, "scope = 'bogus'"),
        ({"since": "soon"}, "since = 'soon'"),
        ({"wrong": 1}, "unknown argument 'wrong'"),
    ],
)
def test_a_bad_argument_is_named(
    grep: Grep, engine: Engine, session: Session, arguments: dict[str, Any], named: str
) -> None:
    store(engine, session, "x")
    assert named in grep("x", **arguments)["error"]


def test_summaries_are_found_and_messages_say_which_summary_covers_them(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(leaf_chunk_tokens=400, fresh_tail_count=4, leaf_target_tokens=100)
    engine.ingest(
        session, [user(f"The heron of day {n} stood by the river and waited for fish.") for n in range(60)]
    )
    engine.compact(session, force=True)
    both = engine.call_tool(session, "lcm_grep", {"pattern": "heron", "scope": "both", "limit": 20})
    kinds = [hit["kind"] for hit in both["hits"]]
    assert kinds == sorted(kinds)
    assert set(kinds) == {"message", "summary"}
    assert any("summary_id" in hit for hit in both["hits"] if hit["kind"] == "message")
    only = engine.call_tool(session, "lcm_grep", {"pattern": "heron", "scope": "summaries"})
    assert {hit["kind"] for hit in only["hits"]} == {"summary"}
    assert engine.call_tool(session, "lcm_grep", {"pattern": "heron", "scope": "summaries", "mode": "regex"})[
        "hits"
    ]


def test_a_fresh_message_is_found_at_once(engine: Engine, session: Session, grep: Grep) -> None:
    for n in range(5):
        store(engine, session, f"lamp {n}")
        assert len(grep("lamp")["hits"]) == n + 1


def test_a_search_never_misses_what_cannot_be_indexed_now(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine()
    store(engine, session, "an indexed lamp")
    assert len(engine.call_tool(session, "lcm_grep", {"pattern": "lamp"})["hits"]) == 1
    store(engine, session, "a waiting lamp", "my-lamp")
    reader = Engine.open(engine.config, read_only=True)
    with reader:
        for pattern, mode, count in (
            ("lamp", "full_text", 3),
            ("my-lamp", "full_text", 1),
            ("lamp", "regex", 3),
        ):
            found = reader.call_tool(session, "lcm_grep", {"pattern": pattern, "mode": mode})
            assert len(found["hits"]) == count, pattern


def test_words_that_are_everywhere_do_not_hide_an_identifier(
    engine: Engine, session: Session, grep: Grep
) -> None:
    store(engine, session, *(f"the customer asked about flights {n}" for n in range(40)), "EHGLP3 is booked")
    assert texts(grep("what flights did the customer of EHGLP3 ask about"))[0] == "EHGLP3 is booked"


def test_the_running_question_and_earlier_searches_are_no_answers(
    engine: Engine, session: Session, grep: Callable[..., dict[str, Any]]
) -> None:
    question = "What is the door code of the archive?"
    asked = json.dumps({"pattern": question})
    engine.ingest(
        session,
        [
            user("The door code of the archive is 7261."),
            assistant("Noted."),
            user(question),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "lcm_grep", "arguments": asked}}
                ],
            },
        ],
    )
    found = grep(question)
    assert [hit["id"] for hit in found["hits"]] == ["msg_1", "msg_2"]
    assert "msg_3" in {hit["id"] for hit in grep(question, current_turn=True)["hits"]}
    engine.ingest(session, [result("c1", json.dumps(found)), assistant("It is 7261.")])
    assert grep("door code archive")["hits"][0]["id"] == "msg_1"
    assert "msg_5" in {hit["id"] for hit in grep("archive", tool_name="lcm_grep")["hits"]}


def test_what_was_taken_back_is_found_and_marked(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("The harbour code is 4711."), assistant("Noted, 4711.")], "sync")
    engine.ingest(session, [user("The harbour code is 4711."), assistant("Noted.")], "sync")
    found = engine.call_tool(session, "lcm_grep", {"pattern": "4711"})["hits"]
    marks = {hit["snippet"].replace("**", ""): hit.get("taken_back") for hit in found}
    assert marks == {"The harbour code is 4711.": None, "Noted, 4711.": True}
    taken_back = next(hit["id"] for hit in found if hit.get("taken_back"))
    assert engine.call_tool(session, "lcm_describe", {"id": taken_back})["taken_back"] is True


def test_a_day_that_the_question_names_comes_first(engine: Engine, session: Session, grep: Grep) -> None:
    day = 86_400_000
    engine.ingest(
        session,
        [
            user(f"The run of the pump took {n} minutes.", created_at=1_700_000_000_000 + n * day)
            for n in range(40)
        ],
    )
    # The 7th day after 14 November 2023.
    hits = grep("how did the run of the pump go on 21 November 2023?")["hits"]
    assert "7 minutes" in hits[0]["snippet"].replace("**", "")


def test_a_day_without_a_year_is_looked_for_in_all_years_at_once(
    engine: Engine, session: Session, grep: Grep, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [f"{year}-{month:02}-17" for year in (2022, 2023, 2024) for month in range(1, 11)]
    engine.ingest(session, [user(f"The pump ran on {at}.", created_at=f"{at}T12:00:00Z") for at in days])
    with engine.store.read() as reader:
        queries = type(reader)
    asked: list[Filter] = []
    find = queries.find_words

    def watched(reader: Any, kind: Any, words: Any, rows: Filter, **how: Any) -> Any:
        asked.append(rows)
        return find(reader, kind, words, rows, **how)

    monkeypatch.setattr(queries, "find_words", watched)
    found = texts(grep("how did the pump run on March 17?"))
    assert {text[-11:-1] for text in found[:3]} == {"2022-03-17", "2023-03-17", "2024-03-17"}
    assert len([rows for rows in asked if rows.spans]) == 1
    assert not texts(grep("how did the pump run on March 17?", since="2025-01-01"))


@pytest.mark.parametrize("text", ["a short talk of lamps", "the lamp " * 400, "灯的设置 " * 60])
def test_a_default_answer_fits(engine: Engine, session: Session, grep: Grep, text: str) -> None:
    engine.ingest(session, [user(f"{n}: {text} lamp 灯") for n in range(60)])
    for pattern in ("lamp", "what of the lamp?", "灯"):
        answer = grep(pattern)
        assert len(answer["hits"]) == 10
        assert engine.count_tokens(json.dumps(answer, ensure_ascii=False)) <= 1_500
        assert answer["next_cursor"]
    narrow = grep("lamp", token_cap=600)
    assert engine.count_tokens(json.dumps(narrow, ensure_ascii=False)) <= 600


def test_better_hits_show_more(engine: Engine, session: Session, grep: Grep) -> None:
    talk = "The heron slept by the pond while the willow moved and nobody came to look for it at all. " * 12
    engine.ingest(
        session, [user(f"{n}: {talk}") if n % 2 else assistant(f"{n}: so it is") for n in range(40)]
    )
    hits = grep("heron", scope="messages")["hits"]
    shown = [len(hit["snippet"]) for hit in hits]
    assert len(hits) == 10
    assert shown[0] >= 1.7 * shown[3] >= 2.3 * shown[8] > 0


def test_short_hits_are_shown_whole_before_the_messages_round_them(
    engine: Engine, session: Session, grep: Grep
) -> None:
    said = (
        "The heron that slept by the pond in the rain woke early and ate {n} fish; it likes fish, no more, not even the "
        "frogs beside the wall, nor what the children throw to it from the bridge in the afternoon, and it never goes "
        "farther than the gate of the garden, near the old willow."
    )
    engine.ingest(session, [user(said.format(n=n)) if n % 2 else assistant("Yes. " * 40) for n in range(40)])
    hits = grep("heron", scope="messages")["hits"]
    assert len(hits) == 10
    assert all(hit["snippet"].endswith("old willow.") for hit in hits)


def test_an_answer_shows_each_message_once(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(session, [user(f"lamp number {n}") if n % 2 else assistant(f"well {n}") for n in range(20)])
    answer = grep("lamp", limit=8)
    shown = [hit["id"] for hit in answer["hits"]]
    shown += [
        one["id"] for hit in answer["hits"] for side in ("before", "after") for one in hit.get(side, ())
    ]
    assert len(shown) == len(set(shown)) > 8


def test_neighbours_are_what_was_said_not_records(engine: Engine, session: Session, grep: Grep) -> None:
    engine.ingest(session, [user("before it"), user("the zanzibar lamp"), assistant("after it")])
    before = grep("zanzibar")["hits"][0]
    assert [one["text"] for one in before["before"] + before["after"]] == ["before it", "after it"]
    with engine.store.write() as writer:
        conversation = writer.find_conversation(session)
        assert conversation is not None
        writer.hide(conversation.conversation_id, [1], 1)
    assert "before" not in grep("zanzibar")["hits"][0]
