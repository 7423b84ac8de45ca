"""What moves to a file comes back character for character, and only what should move does."""

from __future__ import annotations

import base64
import json
import random
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.characters import encode
from lcm_plugin.files.find import (
    Payload,
    decode,
    find_payloads,
    replace_slices,
)
from lcm_plugin.files.references import reference, reference_id
from lcm_plugin.files.store import FileFolder
from lcm_plugin.messages.blocks import calls_of
from lcm_plugin.messages.parts import lift, lift_deeper, make_parts, rebuild, skeleton_of
from lcm_plugin.messages.paths import get_at, put_at
from lcm_plugin.store.records import FileRecord, MessageHead, Part, StoredMessage
from lcm_plugin.types import Message

FILE_ID = "file_0123456789abcdef"
NOISE = random.Random(7).randbytes(6_000)
BLOB = base64.b64encode(NOISE).decode()


def count(text: str) -> int:
    return len(text) // 4


def found(
    message: Message, threshold: int = 1_000, call: Message | None = None, **given: Any
) -> list[Payload]:
    made = calls_of({"role": "assistant", "tool_calls": [call]}) if call else [None]
    return find_payloads(message, count, threshold, call=made[0], **given)


def image(url: str) -> Message:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


def restored(message: Message, payloads: list[Payload], tmp_path: Path) -> tuple[Any, Any]:
    """The message with every payload replaced by a reference, and put together again from files."""
    folder = FileFolder(tmp_path / "files")
    shown, back = json.loads(json.dumps(message)), json.loads(json.dumps(message))
    for path, group in groupby(payloads, key=lambda payload: payload.path):
        members = list(group)
        text = get_at(message, path)
        put_at(shown, path, replace_slices(text, [(item.start, item.end, "<ref>") for item in members]))
        slices = [
            (item.start, item.end, decode(folder.get(folder.put(item.content.whole())), item.encoding))
            for item in members
        ]
        put_at(back, path, replace_slices(text, slices))
    return shown, back


def test_a_text_above_the_threshold_moves_as_a_whole() -> None:
    text = "é\ud83d \x00 word " * 1_000
    (payload,) = found({"role": "user", "content": text})
    assert (payload.path, payload.start, payload.end) == ("content", 0, len(text))
    assert payload.encoding == "utf-8"
    assert decode(payload.content.whole(), payload.encoding) == text


def test_a_text_at_the_threshold_stays() -> None:
    assert found({"role": "user", "content": "abcd" * 1_000}) == []
    assert len(found({"role": "user", "content": "abcd" * 1_001})) == 1


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"role": "tool", "tool_call_id": "c", "content": "word " * 2_000}, "content"),
        ({"role": "assistant", "content": [{"type": "text", "text": "word " * 2_000}]}, "content.0.text"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "w", "arguments": "word " * 2_000}}]},
            "tool_calls.0.function.arguments",
        ),
        ({"role": "user", "content": "x", "notes": {"a.b": ["word " * 2_000]}}, "notes.a\\.b.0"),
        ({"role": "assistant", "reasoning_content": "word " * 2_000}, "reasoning_content"),
    ],
)
def test_large_text_is_found_wherever_it_stands(message: Message, path: str) -> None:
    (payload,) = found(message)
    assert payload.path == path
    assert get_at(message, payload.path) == decode(payload.content.whole(), payload.encoding)


@pytest.mark.parametrize("role", ["user", "assistant", "tool", "system"])
def test_an_image_moves_for_every_role_and_any_size(role: str) -> None:
    tiny = base64.b64encode(b"\x89PNG").decode()
    message: Message = {
        "role": role,
        "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{tiny}"}}],
    }
    (payload,) = found(message)
    assert (payload.content.whole(), payload.mime) == (b"\x89PNG", "image/png")
    assert get_at(message, payload.path)[: payload.start] == "data:image/png;base64,"


@pytest.mark.parametrize(
    ("block", "mime", "name"),
    [
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": BLOB}},
            "image/jpeg",
            "",
        ),
        ({"type": "input_audio", "input_audio": {"data": BLOB, "format": "wav"}}, "audio/wav", ""),
        (
            {
                "type": "file",
                "file": {"file_data": f"data:application/pdf;base64,{BLOB}", "filename": "a.pdf"},
            },
            "application/pdf",
            "a.pdf",
        ),
        ({"inline_data": {"mime_type": "image/png", "data": BLOB}}, "image/png", ""),
        ({"type": "image", "data": BLOB, "mimeType": "image/webp"}, "image/webp", ""),
        ({"type": "input_image", "image_url": f"data:image/gif;base64,{BLOB}"}, "image/gif", ""),
    ],
)
def test_the_blocks_of_every_provider_give_their_bytes(block: Message, mime: str, name: str) -> None:
    (payload,) = found({"role": "user", "content": [block]})
    assert (payload.content.whole(), payload.mime, payload.name) == (NOISE, mime, name)


def test_a_link_to_an_image_is_no_payload() -> None:
    assert found(image("https://example.org/a.png")) == []


def test_a_blob_inside_a_text_moves_and_the_words_around_it_stay(tmp_path: Path) -> None:
    text = f"see ![plot](data:image/png;base64,{BLOB}) and log {BLOB} end"
    message: Message = {"role": "user", "content": text}
    payloads = found(message)
    assert [item.content.whole() for item in payloads] == [NOISE] * 2
    shown, back = restored(message, payloads, tmp_path)
    assert shown["content"] == "see ![plot](data:image/png;base64,<ref>) and log <ref> end"
    assert back == message


@pytest.mark.parametrize(
    "text",
    ["x" * 8_000, "deadbeef" * 1_000, "A1b2" * 2_000, "GATTACA" * 1_000, "/usr/local/bin/tool" * 400],
)
def test_a_long_run_that_is_no_base64_stays_text(text: str) -> None:
    assert found({"role": "user", "content": text}, threshold=100_000) == []


@pytest.mark.parametrize("before", [0, 1, 511, 512, 513, 1_023])
def test_a_blob_is_found_wherever_it_stands_among_emoji(before: int) -> None:
    text = "😀" * before + f"data:image/png;base64,{BLOB}" + "🚢" * (before // 2)
    assert [item.content.whole() for item in found({"role": "user", "content": text})] == [NOISE]


def test_a_short_data_url_in_prose_stays() -> None:
    assert (
        found({"role": "user", "content": "why does data:image/gif;base64,R0lGODlhAQ== show nothing?"}) == []
    )


VARIANTS = {
    "standard": BLOB,
    "unpadded": base64.b64encode(NOISE[:-2]).decode().rstrip("="),
    "url safe": base64.urlsafe_b64encode(NOISE[:-1]).decode(),
    "url safe unpadded": base64.urlsafe_b64encode(NOISE[:-1]).decode().rstrip("="),
    "mime lines": base64.encodebytes(NOISE).decode(),
    "lines without a last break": base64.encodebytes(NOISE).decode().rstrip(),
    "dos lines": base64.encodebytes(NOISE).decode().replace("\n", "\r\n"),
}


@pytest.mark.parametrize("text", VARIANTS.values(), ids=VARIANTS.keys())
def test_every_usual_writing_of_base64_is_decoded_and_comes_back(text: str) -> None:
    message = image("data:image/png;base64," + text)
    (payload,) = found(message)
    assert NOISE.startswith(payload.content.whole()[: len(NOISE) - 2])
    assert decode(payload.content.whole(), payload.encoding) == text


@pytest.mark.parametrize(
    "text",
    [
        BLOB[:-1],
        BLOB + "=",
        BLOB[:100] + " " + BLOB[100:],
        BLOB[:100] + "\n" + BLOB[100:],
        BLOB[:80] + "-" + BLOB[81:],
        "QUJDRA" + "R" + "B=",
        "",
    ],
)
def test_a_blob_that_would_not_come_back_is_not_decoded(text: str, tmp_path: Path) -> None:
    message = image("data:image/png;base64," + text)
    _, back = restored(message, found(message), tmp_path)
    assert back == message
    for payload in found(message):
        assert (
            decode(payload.content.whole(), payload.encoding)
            == get_at(message, payload.path)[payload.start : payload.end]
        )


def test_a_blob_that_cannot_be_decoded_moves_as_text_when_it_is_large() -> None:
    text = "data:image/png;base64," + BLOB[:-1]
    (payload,) = found(image(text), threshold=1_000)
    assert (payload.encoding, payload.content.value) == ("utf-8", text)


_PIECE = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["é漢", "\ud83d", "\x00", "\n", "-", "=", "data:image/png;base64,", "[LCM File: file_x |"]
    ),
    st.binary(min_size=400, max_size=4_000).map(lambda data: base64.b64encode(data).decode()),
    st.binary(min_size=3_200, max_size=4_000).map(
        lambda data: "data:a/b;base64," + base64.b64encode(data).decode()
    ),
    st.binary(max_size=50).map(lambda data: base64.urlsafe_b64encode(data).decode()),
)


@settings(max_examples=examples(200), deadline=None)
@given(pieces=st.lists(_PIECE, max_size=6), threshold=st.sampled_from([50, 1_000, 100_000]))
def test_slices_never_overlap_and_restore_exactly(pieces: list[str], threshold: int) -> None:
    text = "".join(pieces)
    message: Message = {
        "role": "user",
        "content": text,
        "image_url": text,
        "deep": [{"data": text, "mime_type": "x/y"}],
    }
    for path, group in groupby(found(message, threshold), key=lambda payload: payload.path):
        value, end = get_at(message, path), 0
        for payload in group:
            assert end <= payload.start < payload.end <= len(value)
            assert decode(payload.content.whole(), payload.encoding) == value[payload.start : payload.end]
            end = payload.end


@settings(max_examples=examples(200), deadline=None)
@given(text=st.text(alphabet=st.characters()))
def test_any_text_survives_as_bytes(text: str) -> None:
    assert decode(encode(text), "utf-8") == text


CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "read_file", "arguments": '{"path": "/a/SKILL.md"}'},
}


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ({"role": "tool", "name": "lcm_describe", "tool_call_id": "c1", "content": "word " * 2_000}, None),
        (
            {"role": "tool", "tool_call_id": "c1", "content": f"data:image/png;base64,{BLOB}"},
            {"id": "c1", "function": {"name": "lcm_expand", "arguments": "{}"}},
        ),
    ],
)
def test_results_of_our_own_tools_never_move(message: Message, call: Message | None) -> None:
    assert found(message, call=call) == []


def test_a_user_cannot_keep_a_large_text_by_naming_our_tool() -> None:
    assert len(found({"role": "user", "name": "lcm_describe", "content": "word " * 2_000})) == 1


def test_instruction_files_stay_readable_and_other_files_move() -> None:
    message: Message = {"role": "tool", "tool_call_id": "c1", "content": "word " * 2_000}
    assert found(message, call=CALL) == []
    assert len(found(message, call=CALL, exempt=["*.txt"])) == 1
    other = {"id": "c1", "function": {"name": "read_file", "arguments": {"path": "/a/SKILLS.md"}}}
    assert len(found(message, call=other)) == 1


def note(file_id: str, name: str, mime: str, size: int, exploration: str, *, truncated: bool = False) -> str:
    return reference(
        FileRecord(
            file_id, 1, "", "", size, name=name, mime_type=mime, exploration=exploration, truncated=truncated
        )
    )


def test_a_reference_names_id_name_type_size_and_how_to_read_it() -> None:
    text = note(FILE_ID, "plot.png", "image/png", 6_000, "PNG image, 10 x 20 pixels.")
    assert text.splitlines()[0] == f"[LCM File: {FILE_ID} | plot.png | image/png | 6000 bytes]"
    assert "PNG image, 10 x 20 pixels." in text
    assert "lcm_describe" in text
    assert reference_id(text) == FILE_ID


def test_names_and_types_are_such_that_any_database_takes_them() -> None:
    (payload,) = found(
        {
            "role": "user",
            "content": [{"data": BLOB, "mime_type": "a/\ud83d\x00", "filename": "b\ud83d\x00" * 200}],
        }
    )
    assert len(payload.name) <= 200
    for text in (payload.mime, payload.name):
        assert "\x00" not in text.encode().decode()


def test_a_name_cannot_break_out_of_a_reference() -> None:
    text = note(FILE_ID, "a]\n| x [LCM File: b |" + "n" * 500, "a|b]c", 1, "", truncated=True)
    assert reference_id(text) == FILE_ID
    assert len(text.splitlines()) == 2
    assert "cut by the host" in text


@pytest.mark.parametrize(
    "text",
    [
        f'what does "[LCM File: {FILE_ID} | a | b | 1 bytes]" mean?',
        f"[LCM File: {FILE_ID} | a | b | 1 bytes]",
        "[LCM File: file_x | a | b | 1 bytes]\nRead it with lcm_describe, id file_x.",
        "see " + note(FILE_ID, "a", "b", 1, "c"),
        note(FILE_ID, "a", "b", 1, "c") + " ?",
        "",
    ],
)
def test_a_text_that_only_mentions_a_reference_is_none(text: str) -> None:
    assert reference_id(text) is None


def test_a_reference_that_comes_back_does_not_move_again() -> None:
    text = note(FILE_ID, "a", "text/plain", 9, "word " * 800)
    assert found({"role": "user", "content": text}, threshold=100) == []


@pytest.mark.parametrize(
    "content",
    [
        [
            {
                "type": "tool_use",
                "id": "x",
                "name": "w",
                "input": {"data": BLOB, "mime_type": "image/png", "k": 1},
            }
        ],
        [
            {
                "type": "mystery",
                "z": [{"data": BLOB, "mime_type": "image/png"}, {"url": f"data:a/b;base64,{BLOB}"}],
            }
        ],
        {"nested": {"text": "word " * 2_000}},
    ],
)
def test_a_payload_deep_inside_a_json_part_is_stored_once(content: Any) -> None:
    """The part that holds the JSON value keeps null in its place, and the message comes back whole."""
    message: Message = {"role": "assistant", "content": content}
    originals = {item.path: get_at(message, item.path) for item in found(message)}
    lifted = lift_deeper(message, lift(message), originals)
    parts = make_parts(lifted, dict.fromkeys(originals, (FILE_ID, "<ref>", "")))
    skeleton = skeleton_of(message, lifted)
    assert not any(
        BLOB[:100] in text or "word word" in text for text in [skeleton or "", *(part.text for part in parts)]
    )
    assert rebuild(_stored(skeleton, parts), lambda part: originals[part.path]) == message


def _stored(skeleton: str | None, parts: tuple[Part, ...]) -> StoredMessage:
    head = MessageHead(1, 1, 1, "assistant", 1, 1, 1, 1, None, None, None, (), (), False)
    return StoredMessage(head, skeleton, parts)
