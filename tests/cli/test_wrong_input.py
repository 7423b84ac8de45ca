"""Wrong input gets one line that names what is wrong and what would be right, on standard error, and an exit code."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fakes.shell import program, run_here
from messages import assistant, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.interchange.importers import importing

# Root reads everything; without these capabilities it is held to a file's mode as others are.
_AS_OTHERS = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)
# Of other programs that look into files that a test made unreadable.
_MODES = {"shut.db": 0o000, "shut": 0o000, "read only": 0o555, "read only/lcm.db": 0o444, "shut.json": 0o000}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "lcm.db"
    with Engine.open(LcmConfig(database=str(path))) as engine:
        engine.ingest(Session("agent:main:main"), [user("hello"), assistant("hi")])
    return path


NOBODY = "lcm: no conversation 'nobody': no number, session key or id, title or project of this database"
# What a person may get wrong: the command, its exit code, and what it says: where, and what would be right.
WRONG = {
    # the database
    "status -d .": (5, "lcm: . is a folder; name a file in it, as lcm.db"),
    "replay talk.jsonl -d .": (2, "lcm: . is a folder; name a file in it, as lcm.db"),
    "import talk.jsonl --apply -d .": (5, "lcm: . is a folder; name a file in it, as lcm.db"),
    "status -d nowhere.db": (5, "lcm: there is no database at nowhere.db"),
    "status -d damaged.db": (
        5,
        "lcm: damaged.db is damaged or not a database: file is not a database; 'lcm rescue damaged.db NEW.db' reads "
        "what can be read",
    ),
    "status -d foreign.db": (5, "foreign.db is a SQLite database of another program"),
    "status -d mysql://me:secret@host/lcm": (
        4,
        "lcm: database = mysql://…: must be the path of a file, or a URL that begins with postgresql://",
    ),
    "status -d :memory:": (4, "lcm: database = :memory:: must be the path of a file: "),
    "import talk.jsonl --apply -d file:lcm.db?mode=memory": (
        4,
        "lcm: database = file:lcm.db?mode=memory: must be the path of a file: ",
    ),
    "status -d postgresql://me:secret@127.0.0.1:1/lcm": (
        5,
        "lcm: postgresql://me@127.0.0.1:1/lcm cannot be reached: ",
    ),
    "migrate-store lcm.db lcm.db": (2, "lcm: FROM and TO are the same database"),
    # files
    "restore nowhere.db -d new.db": (3, "lcm: there is no copy at nowhere.db"),
    "restore talk.jsonl -d new.db": (5, "lcm: talk.jsonl is damaged or not a database"),
    "rescue nowhere.db new.db": (3, "lcm: there is no database at nowhere.db"),
    "rescue damaged.db lcm.db": (2, "lcm: lcm.db exists already; a rescue makes a new file"),
    "backup . -d lcm.db": (5, "lcm: . is a folder; name a file in it, as lcm.db"),
    "import nowhere": (2, "lcm: nowhere: there is no such file"),
    "import talk.jsonl --format klingon -d lcm.db": (
        2,
        "lcm: unknown format 'klingon': one of auto, openai, ",
    ),
    "export 1 --format docx -d lcm.db": (2, "'docx' is not one of 'jsonl', 'markdown', 'html'"),
    # ids
    "show msg_99 -d lcm.db": (3, "lcm: no message msg_99"),
    "show msg_x -d lcm.db": (2, "lcm: msg_x is no message; it is written like msg_42"),
    "show sum_99 -d lcm.db": (3, "lcm: no summary sum_99"),
    "show nobody -d lcm.db": (
        3,
        "lcm: no conversation 'nobody': no number, session key or id, title or project of this database",
    ),
    "tree nobody -d lcm.db": (
        3,
        "lcm: no conversation 'nobody': no number, session key or id, title or project of this database",
    ),
    "talk 1 --around x -d lcm.db": (2, "lcm: x is no message; it is written like msg_42"),
    "talk 1 --around msg_99 -d lcm.db": (3, "lcm: there is no msg_99 in conversation 1"),
    "expand sum_zz -d lcm.db": (
        2,
        "lcm: 'sum_zz' holds no id; ids look like sum_0123456789abcdef, file_0123456789abcdef or msg_42",
    ),
    "unpin 1 pin_zz -d lcm.db": (3, "lcm: there is no pin 'pin_zz' that can be removed here"),
    "edit sum_0 text -d lcm.db": (3, "lcm: there is no summary sum_0 here"),
    # times
    "messages 1 --since yesterdayish -d lcm.db": (
        2,
        "lcm: 'yesterdayish' is no time: give a date (2026-03-17), a time (2026-03-17T21:40), or an age (90m, 2h, 3d)",
    ),
    "conversations --until 2026-13-45 -d lcm.db": (
        2,
        "lcm: '2026-13-45' is no time: give a date (2026-03-17), ",
    ),
    "grep hello --since soon -d lcm.db": (
        2,
        "lcm: since = 'soon': must be an ISO 8601 time such as 2026-05-03T14:00:00Z, ",
    ),
    "prune --older-than soon -d lcm.db": (
        2,
        "lcm: 'soon' is no age: write a whole number and m, h, d, w or y (minutes to years), as in 90d",
    ),
    # words that are chosen from a list
    "messages 1 --role robot -d lcm.db": (
        2,
        "lcm: --role robot: must be one of assistant, developer, function, model, system, tool, user",
    ),
    "grep hello --role robot -d lcm.db": (
        2,
        "lcm: lcm_grep: roles.0 = 'robot': must be one of assistant, developer, function, model, system, tool, user",
    ),
    "grep hello --scope everything -d lcm.db": (
        2,
        "lcm: lcm_grep: scope = 'everything': must be 'messages', 'summaries', 'both' or 'files'",
    ),
    "install foo": (2, "'foo' is not one of 'claude-code'"),
    "statsu": (2, "No such command 'statsu'. Did you mean 'status'?"),
    "status --frob": (2, "No such option: --frob"),
    "show": (2, "Missing argument 'ID'"),
    # patterns, cursors, numbers
    "grep ( -E -d lcm.db": (2, "lcm: pattern is not a valid RE2 regular expression: missing ): ("),
    "grep hello --cursor abc -d lcm.db": (2, "lcm: cursor is not one that lcm_grep returned"),
    "replay talk.jsonl --budget abc": (2, "'abc' must be a whole number"),
    "compact 1 --budget 3 -d lcm.db": (4, "lcm: --budget: a budget of 3 tokens is below the least, 1,000"),
    "worker --metrics-port 99999": (2, "'99999' must be at most 65535"),
    "summaries 1 --depth -1 -d lcm.db": (2, "'-1' must be at least 0"),
    "doctor --seconds soon": (2, "'soon' must be a number"),
    # settings
    "config get leafChunkToken": (
        4,
        "lcm: no setting 'leafChunkToken'; did you mean 'leafChunkTokens'?; `lcm config list` names them all",
    ),
    "config set leafChunkTokens many": (
        4,
        "lcm: leafChunkTokens = 'many': must be a whole number, at least 1, or auto",
    ),
    "config set leafChunkTokens -5": (
        4,
        "lcm: leafChunkTokens = -5: must be a whole number, at least 1, or auto",
    ),
}


@pytest.mark.parametrize("command", WRONG)
def test_what_is_wrong_is_named_with_what_would_be_right(
    command: str, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(database.parent)
    Path("talk.jsonl").write_text(json.dumps(user("hello")) + "\n", encoding="utf-8")
    Path("damaged.db").write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 8)
    if "foreign.db" in command:
        with closing(sqlite3.connect("foreign.db")) as foreign:
            foreign.execute("CREATE TABLE theirs (text)")
    done = run_here(*command.split())
    code, said = WRONG[command]
    assert (done.returncode, done.stdout) == (code, "")
    told = " ".join(done.stderr.replace("│", " ").split())
    if said.startswith("lcm: "):
        assert told.startswith(said)
        assert len(done.stderr.splitlines()) == 1
    else:
        assert said in told
    assert "secret" not in done.stderr
    assert not re.search("Value error|Input should|Errno|Traceback|internal error", done.stderr)
    assert not Path("new.db").exists()


def test_a_search_for_nothing_is_told_once(database: Path) -> None:
    done = run_here("grep", "", "-d", database)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("the pattern holds nothing that can be searched for") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{bad", "broken JSON on line 1"),
        ('{"leafChunkTokens": "many"}', "leafChunkTokens = 'many': must be a whole number"),
        ("[]", "expected one JSON object with settings"),
        (b"\xff\xfe{}", "is not text in UTF-8"),
        (None, "cannot be read: Is a directory"),
    ],
)
def test_a_settings_file_that_cannot_be_used_is_named(
    text: str | bytes | None, said: str, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database.parent / "config.json"
    if text is None:
        path.mkdir()
    else:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.setenv("LCM_CONFIG", str(path))
    done = run_here("status", "-d", database)
    assert (done.returncode, done.stdout) == (4, "")
    assert said in done.stderr
    assert "Errno" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def shut(database: Path) -> Iterator[Path]:
    """A folder with what only the owner's permissions keep from being used."""
    folder = database.parent
    for name in ("shut", "read only"):
        (folder / name).mkdir()
        shutil.copy(database, folder / name / "lcm.db")
    shutil.copy(database, folder / "shut.db")
    (folder / "shut.json").write_text("{}", encoding="utf-8")
    for name, mode in sorted(_MODES.items(), reverse=True):
        (folder / name).chmod(mode)
    yield folder
    for name in _MODES:
        (folder / name).chmod(0o700)


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root reads everything")
@pytest.mark.parametrize(
    ("words", "settings", "code", "said"),
    [
        ("status -d shut.db", "", 5, "shut.db cannot be used: permission denied"),
        ("status -d shut/lcm.db", "", 5, "shut/lcm.db cannot be opened: Permission denied"),
        ("import talk.jsonl --apply -d 'read only/lcm.db'", "", 5, "no permission to write read only/lcm.db"),
        (
            "export 1 -d lcm.db -o 'read only/x.html'",
            "",
            2,
            "cannot write read only/x.html: Permission denied",
        ),
        ("status -d lcm.db", "shut.json", 4, "shut.json cannot be read: Permission denied"),
    ],
)
def test_what_may_not_be_read_or_written_is_named(
    words: str, settings: str, code: int, said: str, shut: Path
) -> None:
    (shut / "talk.jsonl").write_text(json.dumps(user("hello")) + "\n", encoding="utf-8")
    arguments = [one or two for one, two in re.findall(r"'([^']*)'|(\S+)", words)]
    environment = {**os.environ, **({"LCM_CONFIG": settings} if settings else {})}
    command = [*(_AS_OTHERS if os.geteuid() == 0 else ()), *program(*arguments)]
    done = subprocess.run(command, cwd=shut, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr
    assert "internal error" not in done.stderr
    assert "Errno" not in done.stderr


@pytest.mark.long
def test_ctrl_c_in_an_import_says_what_is_stored_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, database = tmp_path / "talk.jsonl", tmp_path / "lcm.db"
    said = [make(f"{n}: water the lilies at dusk") for n in range(1_500) for make in (user, assistant)]
    talk.write_text("".join(json.dumps(message) + "\n" for message in said), encoding="utf-8")
    whole: Callable[..., Any] = importing.load

    def interrupted(*arguments: Any, progress: Callable[[int], None], **options: Any) -> Any:
        def press(count: int) -> None:
            progress(count)
            if count == 2_000:
                raise KeyboardInterrupt

        return whole(*arguments, progress=press, **options)

    monkeypatch.setattr(importing, "load", interrupted)
    words = ("import", talk, "--apply", "--session", "agent:main:main", "-d", database)
    stopped = run_here(*words)
    monkeypatch.setattr(importing, "load", whole)
    assert stopped.returncode == 130
    told = re.search(
        r"interrupted: ([\d,]+) of 3,000 records were read; what is stored stays", stopped.stderr
    )
    assert told is not None, stopped.stderr
    assert told[1] == "2,000"
    assert run_here(*words).returncode == 0
    with Engine.open(LcmConfig(database=str(database))) as engine:
        assert engine.messages(Session("agent:main:main"))[1:] == said  # the first is the source's own record
