"""Codex's threads: forks, rewinds and roll-backs, what the program writes, and history inside a compaction."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from imported_store import Imported, asides, words
from session_logs import LONG, CodexLog

from lcm_plugin import Session
from lcm_plugin.interchange.importers.importing import find_sources, look_over

KEY = "agent:codex:019a-t"
FORK = "agent:codex:019b-f"


def rollout(folder: Path, thread: str = "019a-t", start: int = 0) -> CodexLog:
    return CodexLog(folder / f"rollout-2026-11-02T00-00-{start:02d}-{thread}.jsonl", start)


@pytest.mark.parametrize(
    "program",
    [
        "<skill>\n<name>deploy</name>\n</skill>",
        "<user_shell_command>\n<command>\nls\n</command>\n</user_shell_command>",
        '<subagent_notification>{"status":"done"}</subagent_notification>',
        '<hook_prompt hook_run_id="h1">Retry</hook_prompt>',
        '<codex_internal_context source="goal">\nkeep going\n</codex_internal_context>',
        "Warning: The maximum number of unified exec processes you can keep open is 60.",
        "<environment_context>\n<cwd>/x</cwd>\n</environment_context>",
    ],
)
def test_a_roll_back_counts_the_turns_of_a_person(imported: Imported, tmp_path: Path, program: str) -> None:
    log = rollout(tmp_path)
    log.meta("019a-t")
    log.turn("turn one: look around", "Looked.")
    log.item("user", "turn two: deploy to prod")
    log.item("user", program)
    log.item("assistant", "Deploying.")
    log.roll_back()
    log.item("user", "dry run only")
    imported.bring(log.path)
    assert imported.context(KEY) == ["turn one: look around", "Looked.", "dry run only"]
    (branch,) = imported.archived(KEY)
    assert branch[0] == "turn two: deploy to prod"
    assert branch[-1] == "Deploying."


def test_what_a_message_was_made_of_says_who_wrote_it(imported: Imported, tmp_path: Path) -> None:
    log = rollout(tmp_path)
    log.meta("019a-t")
    named = "internal_chat_message_metadata_passthrough"
    log.item("user", "<skill> is a strange tag", **{named: {"content_item_kinds": ["user.text"]}})
    log.item("user", "read this first", **{named: {"content_item_kinds": ["agents_md.instructions"]}})
    log.item("assistant", "It is.")
    imported.bring(log.path)
    assert imported.context(KEY) == ["<skill> is a strange tag", "It is."]


def test_instructions_of_the_program_are_no_talk(imported: Imported, tmp_path: Path) -> None:
    log = rollout(tmp_path)
    log.meta("019a-t")
    log.item("developer", "<permissions instructions>ask</permissions instructions>")
    log.item("user", "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>x</INSTRUCTIONS>")
    log.item("user", "<environment_context>\n<cwd>/x</cwd>\n</environment_context>")
    log.turn("hello", "Hello.")
    report = imported.bring(log.path)
    assert words(imported.active(KEY)) == ["hello", "Hello."]
    assert report.total("messages") == 2
    sent = imported.engine.assemble(Session(KEY), 50_000).messages
    assert [message["content"] for message in sent] == ["hello"]


def test_history_inside_a_compaction_that_begins_a_rollout_is_messages(
    imported: Imported, tmp_path: Path
) -> None:
    log = rollout(tmp_path)
    log.meta("019a-t")
    kept = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        for text in ("first request", "second request")
    ]
    kept.append({"type": "compaction", "encrypted_content": "gAAA"})
    log.line("compacted", message="", replacement_history=kept)
    log.turn("third request", "Done.")
    imported.bring(log.path)
    assert imported.context(KEY) == ["first request", "second request", "third request", "Done."]


def test_a_rollout_that_holds_its_history_gains_nothing_from_a_compaction(
    imported: Imported, tmp_path: Path
) -> None:
    log = rollout(tmp_path)
    log.meta("019a-t")
    log.turn("first request", "Done.")
    kept = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        for text in ("first request", "A summary of the talk")
    ]
    log.line("compacted", message="", replacement_history=kept)
    log.turn("second request", "Done too.")
    imported.bring(log.path)
    assert imported.context(KEY) == ["first request", "Done.", "second request", "Done too."]


def test_a_summary_without_its_messages_is_shown(imported: Imported, tmp_path: Path) -> None:
    log = rollout(tmp_path)
    log.meta("019a-t")
    log.line("compacted", message="The harbour was mapped.")
    log.turn("go on", "Done.")
    imported.bring(log.path)
    assert imported.context(KEY) == ["The harbour was mapped.", "go on", "Done."]


def copied_fork(folder: Path) -> None:
    """A thread, and a fork that copied two of its three turns under new times."""
    log = rollout(folder)
    meta = log.meta("019a-t")
    log.turn("map the harbour", "Mapped.")
    log.turn("mark the cranes", "Marked.")
    lines = log.path.read_text().splitlines()
    log.turn("paint the cranes", "Painted.")
    fork = rollout(folder, "019b-f", 40)
    fork.meta("019b-f", forked_from_id="019a-t")
    fork.line("session_meta", **meta["payload"])
    for line in lines[1:]:
        record = json.loads(line)
        fork.line(record["type"], **record["payload"])
    fork.turn("mark the ships", "Ships marked.")


def test_a_fork_holds_what_is_new_and_the_thread_it_left_holds_the_rest(
    imported: Imported, tmp_path: Path
) -> None:
    copied_fork(tmp_path)
    first, fork = imported.bring_all(tmp_path)
    assert words(imported.active(KEY))[-2:] == ["paint the cranes", "Painted."]
    assert words(imported.active(FORK)) == ["mark the ships", "Ships marked."]
    assert fork.conversations[0].kind == "fork"
    assert fork.conversations[0].forked_from == (KEY,)
    (kind, head), *_ = asides(imported.active(FORK))
    assert (kind, head["record"]["forked_from_session_keys"]) == ("agent", [KEY])
    stored = [
        text
        for one in imported.engine.library.conversations()
        for text in words(imported.rows(one.conversation_id))
    ]
    assert stored.count("mark the cranes") == 1
    assert [report.total("new") for report in imported.bring_all(tmp_path)] == [0, 0]
    assert first.total("messages") == 6


def test_a_fork_whose_origin_is_gone_is_whole(imported: Imported, tmp_path: Path) -> None:
    copied_fork(tmp_path)
    rollout(tmp_path).path.unlink()
    imported.bring_all(tmp_path)
    assert words(imported.active(FORK)) == [
        "map the harbour", "Mapped.", "mark the cranes", "Marked.", "mark the ships", "Ships marked."
    ]  # fmt: skip


def test_a_fork_that_begins_with_the_same_words_keeps_them(imported: Imported, tmp_path: Path) -> None:
    log = rollout(tmp_path)
    log.meta("019a-t")
    log.turn("map the harbour", "Mapped.")
    log.turn("mark the cranes", "Marked.")
    fork = rollout(tmp_path, "019b-f", 40)
    fork.meta("019b-f", forked_from_id="019a-t")
    fork.meta("019a-t")
    fork.turn("map the harbour", "Mapped.")
    fork.turn("mark the cranes", "Marked with a red pen.")
    imported.bring_all(tmp_path)
    assert words(imported.active(FORK)) == ["mark the cranes", "Marked with a red pen."]


class Numbered(CodexLog):
    """A rollout of the newer kind: each line has an ordinal, and items come a second time as completed ones."""

    def __init__(self, folder: Path, name: str, thread: str = "", start: int = 0, **meta: object) -> None:
        super().__init__(folder / f"rollout-2026-11-02T00-00-{start:02d}-{name}.jsonl", start)
        base = meta.get("history_base")
        self.ordinal = base["end_ordinal_exclusive"] if isinstance(base, dict) else 0
        self.meta(thread or name, history_mode="paginated", **meta)

    def add(self, record):  # type: ignore[no-untyped-def]
        full = super().add({"ordinal": self.ordinal, **record})
        self.ordinal += 1
        return full

    def turn(self, words: str, answer: str) -> None:
        self.item("user", words)
        done = {"type": "UserMessage", "id": f"u{self.ordinal}", "content": [{"type": "text", "text": words}]}
        self.line("event_msg", type="item_completed", thread_id="t", turn_id="1", item=done)
        self.item("assistant", answer)
        done = {
            "type": "AgentMessage",
            "id": f"a{self.ordinal}",
            "content": [{"type": "Text", "text": answer}],
        }
        self.line("event_msg", type="item_completed", thread_id="t", turn_id="1", item=done)


def rewound(folder: Path) -> tuple[Numbered, Numbered]:
    """A thread of two turns, and the file in which it goes on after its first."""
    log = Numbered(folder, "019a-t")
    log.turn("map the harbour", "Mapped.")
    end = log.ordinal
    log.turn("sink the ships", "Sunk.")
    base = {"thread_id": "019a-t", "end_ordinal_exclusive": end, "end_byte_offset": 0}
    after = Numbered(folder, "019a-t_019c-r", "019a-t", 30, history_base=base)
    after.turn("paint the ships", "Painted.")
    return log, after


def test_a_rewound_thread_goes_on_in_its_newest_file(imported: Imported, tmp_path: Path) -> None:
    rewound(tmp_path)
    older, newer = imported.bring_all(tmp_path)
    assert imported.context(KEY) == ["map the harbour", "Mapped.", "paint the ships", "Painted."]
    assert imported.archived(KEY) == [["sink the ships", "Sunk."]]
    assert newer.total("messages") == 6
    assert older.conversations == []
    assert older.has_talk
    assert [report.total("new") for report in imported.bring_all(tmp_path)] == [0, 0]
    assert dict(newer.repeats) == {"event_msg/item_completed": 6}


def test_a_rewind_after_an_import_takes_the_turn_out_of_the_context(
    imported: Imported, tmp_path: Path
) -> None:
    _, after = rewound(tmp_path)
    later = after.path.rename(tmp_path / "later")
    imported.bring_all(tmp_path)
    assert imported.context(KEY)[-2:] == ["sink the ships", "Sunk."]
    later.rename(after.path)
    imported.bring_all(tmp_path)
    assert imported.context(KEY) == ["map the harbour", "Mapped.", "paint the ships", "Painted."]


def test_a_fork_of_the_newer_kind_links_to_its_thread(imported: Imported, tmp_path: Path) -> None:
    log = Numbered(tmp_path, "019a-t")
    log.turn("map the harbour", "Mapped.")
    base = {"thread_id": "019a-t", "end_ordinal_exclusive": log.ordinal, "end_byte_offset": 0}
    fork = Numbered(tmp_path, "019b-f", start=30, history_base=base, forked_from_id="019a-t")
    fork.turn("mark the ships", "Marked.")
    alone = imported.bring(fork.path)
    assert words(imported.active(FORK)) == ["map the harbour", "Mapped.", "mark the ships", "Marked."]
    assert alone.conversations[0].forked_from == (KEY,)


def test_a_fork_of_the_newer_kind_stores_what_its_thread_does_not_hold(
    imported: Imported, tmp_path: Path
) -> None:
    log = Numbered(tmp_path, "019a-t")
    log.turn("map the harbour", "Mapped.")
    base = {"thread_id": "019a-t", "end_ordinal_exclusive": log.ordinal, "end_byte_offset": 0}
    log.turn("sink the ships", "Sunk.")
    fork = Numbered(tmp_path, "019b-f", start=30, history_base=base, forked_from_id="019a-t")
    fork.turn("mark the ships", "Marked.")
    imported.bring_all(tmp_path)
    assert imported.context(KEY) == ["map the harbour", "Mapped.", "sink the ships", "Sunk."]
    assert words(imported.active(FORK)) == ["mark the ships", "Marked."]


@pytest.mark.long
def test_many_roll_backs_cost_linear_time(tmp_path: Path) -> None:
    def seconds(turns: int) -> float:
        log = rollout(tmp_path / str(turns))
        lines = [json.dumps({"type": "session_meta", "payload": {"id": "019a-t"}})]
        for number in range(turns):
            text = [{"type": "input_text", "text": f"turn {number}"}]
            item = {"type": "message", "role": "user", "content": text}
            lines.append(json.dumps({"type": "response_item", "payload": item}))
            event = {"type": "thread_rolled_back", "num_turns": 1}
            lines.append(json.dumps({"type": "event_msg", "payload": event}))
        log.path.write_text("\n".join(lines) + "\n")
        (source,), _ = find_sources([str(log.path)])
        begun = time.process_time()
        report = look_over(source)
        assert len(report.conversations) == turns + 1
        return time.process_time() - begun

    few, many = seconds(500), seconds(4_000)
    assert many < 24 * few + 0.5


def test_long_history_is_summarised_once(imported: Imported, tmp_path: Path) -> None:
    log = rollout(tmp_path)
    log.meta("019a-t")
    log.turn(LONG, LONG)
    log.line("compacted", message="Tide tables.", replacement_history=[])
    log.turn("go on", "Done.")
    imported.bring(log.path)
    summary_id, *rest = imported.context(KEY)
    assert summary_id.startswith("sum_")
    assert rest == ["go on", "Done."]
