"""``lcm chat`` against a model server: the contract's worked example, driven as a person would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes.model_server import Calls, Failure, ModelServer
from fakes.shell import run_here

from lcm_plugin import LcmConfig, Session
from lcm_plugin.errors import ModelUnavailable
from lcm_plugin.hosts.chat.agent import ChatAgent
from lcm_plugin.hosts.chat.model import ChatModel

KEY = Session("agent:chat:main", "chat-1")

# litellm, not this package, uses what pydantic deprecated.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*on TypedDict class:UserWarning"),
]


def agent(server: ModelServer, tmp_path: Path, shown: list[str], **options: object) -> ChatAgent:
    settings = options.pop("settings", {})
    assert isinstance(settings, dict)
    return ChatAgent(
        ChatModel("openai/fake-model", server.url, int(options.pop("window", 32_000))),  # type: ignore[call-overload]
        KEY,
        LcmConfig(database=str(tmp_path / "chat.db"), **settings),
        show=shown.append,
        **options,  # type: ignore[arg-type]
    )


def test_an_answer_is_shown_as_it_comes_and_stored(server: ModelServer, tmp_path: Path) -> None:
    shown: list[str] = []
    chat = agent(server, tmp_path, shown)
    server.enqueue("the heron nests in March", "yes")
    assert chat.say("when does the heron nest?") == "the heron nests in March"
    assert "".join(shown) == "the heron nests in March"
    chat.say("sure?")
    assert [m["content"] for m in server.requests[-1].messages if m["role"] != "system"] == [
        "when does the heron nest?",
        "the heron nests in March",
        "sure?",
    ]
    assert server.invalid == []
    chat.close()


def test_a_recall_tool_call_is_answered_by_the_plugin(server: ModelServer, tmp_path: Path) -> None:
    chat = agent(server, tmp_path, [])
    server.enqueue("noted", Calls(("lcm_grep", {"pattern": "amber"})), "it is amber-lantern")
    chat.say("the password of the shed is amber-lantern")
    assert chat.say("what is the password?") == "it is amber-lantern"
    found = json.loads(str(server.requests[-1].messages[-1]["content"]))
    assert "amber" in json.dumps(found)
    assert server.invalid == []
    chat.close()


def test_own_tools_need_permission(server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("buy seeds")
    for allowed in (False, True):
        chat = agent(server, tmp_path, [], allow_tools=allowed)
        server.enqueue(
            Calls(
                ("shell", {"command": "echo from-the-shell"}),
                ("read_file", {"path": str(tmp_path / "note.txt")}),
            ),
            "done",
        )
        chat.say("look")
        results = [str(m["content"]) for m in server.requests[-1].messages if m["role"] == "tool"][-2:]
        assert ("from-the-shell" in results[0], "buy seeds" in results[1]) == (allowed, allowed)
        assert ("shell" in server.requests[-1].tools) is allowed
        chat.close()


@pytest.mark.long
def test_a_long_talk_stays_within_the_window_and_goes_on_after_a_restart(
    server: ModelServer, tmp_path: Path
) -> None:
    settings = {"fresh_tail_count": 6, "leaf_chunk_tokens": 1_000, "leaf_target_tokens": 120}
    server.add_rule(lambda request: "word " * 150)
    for run in range(2):
        chat = agent(server, tmp_path, [], window=8_000, settings=settings)
        for number in range(20):
            chat.say(f"run {run} question {number} " + "about the garden " * 20)
            assert chat._plugin.engine.wait_idle(60)
        chat.close()
    sent = [request for request in server.requests if request.prompt.startswith("run ")]
    assert len(sent) == 40
    assert server.invalid == []
    assert any("<summary" in json.dumps(list(request.messages)) for request in sent)


def test_commands_are_answered_without_the_model(server: ModelServer, tmp_path: Path) -> None:
    chat = agent(server, tmp_path, [])
    server.enqueue("hello")
    chat.say("hi")
    for text in ("/lcm", "/compact", "/new", "/reset"):
        result = chat.command(text)
        assert result is not None
        assert result.text
    assert chat.command("no command") is None
    assert chat.command("/unknown") is None
    assert len(server.requests) == 1
    chat.close()


def test_a_model_that_cannot_be_reached_is_named_and_the_question_is_kept(
    server: ModelServer, tmp_path: Path
) -> None:
    chat = agent(server, tmp_path, [])
    server.enqueue(Failure(400, "no such model"))
    with pytest.raises(ModelUnavailable, match="openai/fake-model"):
        chat.say("are you there?")
    server.enqueue("yes")
    chat.say("and now?")
    assert "are you there?" in json.dumps(list(server.requests[-1].messages))
    chat.close()


def test_without_a_model_it_says_how_to_set_one() -> None:
    done = run_here("chat")
    assert done.returncode == 2
    assert "LCM_CHAT_MODEL" in done.stderr


def test_the_command_line_talks(server: ModelServer, tmp_path: Path) -> None:
    server.enqueue("good morning")
    options = ("--model", "openai/fake-model", "--base-url", server.url, "--window", "32000")
    done = run_here("chat", *options, "--database", tmp_path / "chat.db", stdin="hello\n/lcm\n/quit\n")
    assert done.returncode == 0, done.stderr
    assert "good morning" in done.stdout
    assert "messages" in done.stdout


def test_an_interrupt_ends_the_answer_and_keeps_what_was_said(server: ModelServer, tmp_path: Path) -> None:
    chat = agent(server, tmp_path, [])

    def stop(piece: str) -> None:
        raise KeyboardInterrupt

    chat._show = stop
    server.enqueue("a very long answer", "yes")
    with pytest.raises(KeyboardInterrupt):
        chat.say("tell me everything")
    chat._show = lambda piece: None
    chat.say("only that")
    asked, partial, again = [m["content"] for m in server.requests[-1].messages if m["role"] != "system"]
    assert (asked, again) == ("tell me everything", "only that")
    assert str(partial).endswith("[stopped by the user]")
    assert server.invalid == []
    chat.close()


def test_tools_are_announced_before_they_run(server: ModelServer, tmp_path: Path) -> None:
    calls: list[tuple[str, str]] = []
    chat = agent(server, tmp_path, [], called=lambda name, arguments: calls.append((name, arguments)))
    server.enqueue(Calls(("lcm_grep", {"pattern": "amber"})), "none")
    chat.say("look for amber")
    assert [(name, json.loads(arguments)) for name, arguments in calls] == [
        ("lcm_grep", {"pattern": "amber"})
    ]
    chat.close()


def test_what_is_missing_is_said_before_the_first_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for model, told in (("openai/gpt-5-mini", "OPENAI_API_KEY"), ("nonsense", "nonsense")):
        done = run_here("chat", "--model", model, "--database", tmp_path / "c.db")
        assert done.returncode == 2
        assert told in done.stderr
        assert "Type a message" not in done.stdout
    assert not (tmp_path / "c.db").exists()


def test_an_unknown_command_is_named_and_a_path_is_not_one(server: ModelServer, tmp_path: Path) -> None:
    server.enqueue("a file of accounts")
    options = ["--model", "openai/fake-model", "--base-url", server.url, "--database", tmp_path / "c.db"]
    done = run_here("chat", *options, stdin="/frobnicate now\n/etc/passwd is what?\n/quit\n")
    assert done.returncode == 0, done.stderr
    assert "there is no command /frobnicate" in done.stderr
    assert [request.prompt for request in server.requests] == ["/etc/passwd is what?"]
    assert "a file of accounts" in done.stdout


def test_an_answer_is_rendered_paragraph_by_paragraph() -> None:
    from lcm_plugin.cli.commands.trials.chat import Paragraphs

    written: list[str] = []
    answer = Paragraphs(written.append)
    for piece in ("one", " two\n", "\nthree\n```\na\n", "\nb\n``", "`\n\nfo", "ur"):
        answer.add(piece)
    assert written == ["one two", "three\n```\na\n\nb\n```"]
    answer.end()
    answer.end()
    assert written[2:] == ["four"]
