"""Whatever is stored, no command's output steers a terminal, reorders text, or becomes Markdown or HTML of its own."""

from __future__ import annotations

import ast
import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.cli.app import app
from lcm_plugin.commands import COMMANDS
from lcm_plugin.text import code, fenced, harmless, inline

ROOT = Path(__file__).resolve().parents[2]
# What rich writes of its own: colours, erasing, moving and showing the cursor, and links are not among it.
OWN = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AGK]")
STEERING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
HOSTILES = [
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[1;1H",
    "\x1b[31m",
    "\x1b]8;;http://evil.example\x1b\\link",
    "\x9b31m",
    "\x07\x08\x7f\r",
    "\u202etxt.exe\u202c",
    "\u2066\u2069\u2028",
    "\U000e0041",
    "\ud83d",
    ":smiley:",
    "[bold]:warning:[/bold]",
    "[/nothing]",
    "[link=http://evil.example]x[/link]",
    "<script>alert(1)</script>",
    "![x](http://evil.example/p.png)",
    "```\n# heading\n```",
    "| a | b |",
    "*bold* _it_ `code`",
]
HOSTILE = st.sampled_from(HOSTILES)
FEW = settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
"""Each example runs every command, so that a failing one is not made smaller."""
ALL_AT_ONCE = [" ".join(HOSTILES)]
TEXTS = st.lists(st.one_of(HOSTILE, st.text(max_size=8)), min_size=1, max_size=4).map(" ".join)


class Terminal(io.TextIOWrapper):
    """Standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def in_terminal(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """What a command writes to a terminal, both streams."""
    raw = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", "100")
        screen = Terminal(raw, encoding="utf-8", write_through=True)
        patch.setattr(sys, "stdout", screen)
        patch.setattr(sys, "stderr", screen)
        with pytest.raises(SystemExit):
            app(list(arguments))
        screen.flush()
        return raw.getvalue().decode("utf-8")


def filled(path: Path, texts: list[str]) -> Session:
    key = "agent:main:" + "".join(texts[0].split())[:60]
    session = Session(key.encode("utf-8", "replace").decode(), "run-1")
    config = LcmConfig(database=str(path), fresh_tail_count=2, leaf_chunk_tokens=200, leaf_target_tokens=64)
    with Engine.open(config) as engine:
        messages: list[dict[str, Any]] = []
        for number, text in enumerate(texts * 3):
            call = {"id": f"c{number}", "type": "function", "function": {"name": text, "arguments": text}}
            messages += [
                {"role": "user", "content": f"needle {text} {'word ' * 40}", "name": text},
                {"role": "assistant", "content": text, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{number}", "content": text},
                {"role": "assistant", "content": f"done {text}"},
            ]
        engine.ingest(session, messages)
        engine.compact(session, force=True, budget=2_000)
    return session


@pytest.mark.long
@FEW
@given(texts=st.lists(TEXTS, min_size=1, max_size=2))
@example(texts=ALL_AT_ONCE)
def test_no_command_of_the_shell_steers_the_terminal(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, texts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / "lcm.db"
    filled(path, texts)
    database = ("--database", str(path))
    for arguments in (
        ("status",),
        ("status", "1"),
        ("conversations",),
        ("messages", "1"),
        ("summaries", "1"),
        ("context", "1"),
        ("tree", "1"),
        ("show", "msg_1"),
        ("describe", "msg_2"),
        ("grep", "needle"),
        ("grep", texts[0]),
        ("doctor",),
        ("prune", "--kind", "old", "--older-than", "0h"),
        ("redact", "--exact", texts[0]),
        ("status", texts[0]),
        ("export", "1", "--format", "markdown"),
    ):
        written = OWN.sub("", in_terminal(monkeypatch, *arguments, *database)).replace("\r\n", "\n")
        assert STEERING.search(written) is None, (arguments, written)


@FEW
@given(texts=st.lists(TEXTS, min_size=1, max_size=2))
@example(texts=ALL_AT_ONCE)
def test_no_command_of_the_chat_steers_a_terminal(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = tmp_path_factory.mktemp("hostile") / "lcm.db"
    session = filled(path, texts)
    with Engine.open(LcmConfig(database=str(path))) as engine:
        words = [
            *COMMANDS,
            "show msg_1",
            "show msg_2",
            "grep needle",
            f"grep {texts[0]}",
            texts[0],
            "doctor apply",
        ]
        for word in words:
            answer = engine.command(session, f"/lcm {word}")
            assert STEERING.search(answer.text) is None, (word, answer.text)


@given(text=TEXTS)
def test_a_text_within_markdown_has_no_mark_up_of_its_own(text: str) -> None:
    shown = inline(text)
    assert "\n" not in shown
    assert not re.search(r"(?<!\\)(?:\\\\)*[<>*_`\[\]|~&]", shown)
    assert code(text).count("`") == 2
    fence = fenced(text).partition("\n")[0]
    assert not any(line.strip().startswith(fence) for line in text.splitlines())
    for one in (shown, code(text), fenced(text), harmless(text)):
        assert STEERING.search(one) is None
        one.encode()


def test_texts_in_other_scripts_and_emoji_stay_as_they_are() -> None:
    for text in ("שלום \u200fعالم", "ไทย\u200bภาษา", "👩\u200d👩\u200d👧", "naïve\tcafé\n漢字"):
        assert harmless(text) == text


def test_emoji_codes_and_markup_of_rich_are_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lcm.db"
    filled(path, ["a :smiley: [bold]b[/bold]"])
    written = in_terminal(monkeypatch, "messages", "1", "--database", str(path))
    assert ":smiley:" in written
    assert "[bold]b" in written


def test_only_the_module_of_output_prints() -> None:
    """So that nothing gets to a terminal past the filter."""
    allowed = {"output.py", "errors.py", "app.py", "reference.py"}
    printing = [
        f"{path.name}:{node.lineno}"
        for path in sorted((ROOT / "lcm_plugin" / "cli").rglob("*.py"))
        if path.name not in allowed
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printing == []
