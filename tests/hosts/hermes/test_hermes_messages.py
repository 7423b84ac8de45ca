"""The host's shapes and back: folded summaries, the host's notes, its bookkeeping."""

from __future__ import annotations

import copy
import itertools
from typing import Any

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.hosts.hermes.messages import Merges, from_host, pins_beside, quoted_in, to_host
from lcm_plugin.messages.markup import (
    HISTORY_LABEL,
    notice_block,
    pin_block,
    plan_block,
    recalled_block,
    recalled_line,
)
from lcm_plugin.types import Pin


def summary(number: int, text: str = "They spoke of gardens.") -> dict[str, Any]:
    opening = f'<summary id="sum_{number:016x}" depth="0">'
    return user(f"{opening}\n{HISTORY_LABEL}\n{text}\n</summary>")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_summaries_are_folded_into_one_message_and_come_apart_again() -> None:
    context = [summary(1), summary(2), user("what now?"), assistant("this")]
    hosted = to_host(context)
    assert [message["role"] for message in hosted] == ["user", "assistant"]
    assert from_host(hosted) == context


def test_a_folded_summary_tells_the_host_not_to_overwrite_it() -> None:
    assert to_host([summary(1), user("q")])[0]["_compressed_summary"] is True
    assert "_compressed_summary" not in to_host([user("q")])[0]


def test_notices_of_ours_are_taken_off_as_well() -> None:
    context = [summary(1), user(notice_block("Two messages were shortened.")), user("q")]
    assert from_host(to_host(context)) == context


def test_a_plan_in_front_of_a_request_is_no_word_of_the_users() -> None:
    plan = plan_block("msg_7", "todo", 1_780_000_000_000, "1. water them", "UTC")
    context = [summary(1), user(plan), user("q")]
    assert from_host(to_host(context)) == context


def test_a_summary_that_a_user_only_quotes_is_what_the_user_said() -> None:
    quote = user(f"what does {summary(1)['content']} mean?")
    half = user('<summary id="sum_0000000000000001" depth="0">\nmine\n</summary>\n\nhello')
    assert from_host([quote, half]) == [quote, half]


def test_the_task_list_that_the_host_puts_in_is_left_out() -> None:
    note = (
        "[Your active task list was preserved across context compression]\n- [>] 1. water them (in_progress)"
    )
    assert from_host([user(note)]) == []
    assert from_host([user(f"go on\n\n{note}")]) == [user("go on")]
    assert from_host([{**user(note), "_todo_snapshot_synthetic": True}]) == []
    assert from_host([user(f"{note}\n\ngo on")]) == [user("go on")]
    assert from_host([user(f"first\n\n{note}\n\nsecond")]) == [user("first\n\nsecond")]
    quoted = f"> {note}\n\nwhy do I see this?"
    assert from_host([user(quoted)]) == [user(quoted)]


def test_nudges_that_only_drive_the_loop_are_left_out() -> None:
    nudges = [
        {**user("go on"), "_empty_recovery_synthetic": True},
        {**assistant(""), "_thinking_prefill": True},
    ]
    assert from_host([user("q"), *nudges]) == [user("q")]


def test_unknown_keys_stay_and_the_hosts_marks_go() -> None:
    message = {**assistant("a"), "reasoning": "r", "api_content": "a+", "_db_persisted": True}
    kept = {**assistant("a"), "reasoning": "r", "api_content": "a+"}
    assert from_host([message]) == [kept]
    assert to_host([message]) == [kept]


def test_the_hosts_copy_of_what_it_sent_goes_when_the_words_change() -> None:
    sent = {**user("q"), "api_content": "q\n\n[a note for the model]"}
    folded = to_host([summary(1), sent])[0]
    assert "api_content" not in folded
    stamped = {**folded, "api_content": folded["content"] + "\n\n[a note for the model]"}
    assert from_host([stamped]) == [summary(1), user("q")]
    assert from_host(to_host([sent])) == [sent]


def test_lists_of_parts_are_not_folded() -> None:
    picture = {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url"}]}
    assert to_host([summary(1), picture]) == [{**summary(1), "_compressed_summary": True}, picture]


def test_user_messages_that_the_host_merged_are_told_apart_for_as_long_as_they_stand() -> None:
    merges = Merges()
    from_host([user("first")], merges)
    both = [user("first"), user("second")]
    assert from_host([user("first\n\nsecond")], merges) == both
    assert from_host([user("first\n\nsecond"), assistant("a")], merges) == [*both, assistant("a")]


def test_a_third_merged_message_and_a_summary_before_them_change_nothing() -> None:
    merges = Merges()
    for said in ("first", "first\n\nsecond"):
        from_host(to_host([summary(1), user(said)]), merges)
    three = [summary(1), user("first"), user("second"), user("third")]
    assert from_host(to_host(three), merges) == three


def test_an_answered_message_that_is_said_again_with_more_is_one_message() -> None:
    merges = Merges()
    from_host([user("go on"), assistant("a")], merges)
    again = [user("go on"), assistant("a"), user("go on\n\nplease")]
    assert from_host(again, merges) == again


def test_values_that_are_not_json_are_converted_as_everywhere() -> None:
    assert from_host([{**user("q"), "extra": {1}}]) == [{**user("q"), "extra": [1]}]


_texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
_messages = st.one_of(st.builds(user, _texts), st.builds(assistant, _texts), st.integers(0, 99).map(summary))


@given(st.lists(_messages, max_size=12))
@settings(max_examples=examples(150), deadline=None)
def test_folding_loses_no_word_and_never_touches_its_input(context: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(context)
    hosted = to_host(context)
    assert context == before
    roles = [message["role"] for message in hosted]
    assert all(pair != ("user", "user") for pair in itertools.pairwise(roles))
    assert [word for m in hosted for word in m["content"].split()] == [
        word for m in context for word in m["content"].split()
    ]


def test_the_messages_quoted_beside_earlier_requests_are_known_from_what_the_host_sends() -> None:
    lines = [recalled_line(f"msg_{number}", 0, "UTC", "user", f"fact {number}") for number in (3, 7)]
    sent = {**user("q"), "api_content": f"q\n\n{recalled_block(lines)}"}
    imitated = {**user("x"), "api_content": "x\n\n<recalled>\nmsg_9 · fact\n</recalled>"}
    assert quoted_in([sent, assistant("a"), imitated, user(recalled_block(lines[:1]))]) == {"msg_3", "msg_7"}


def test_a_pin_goes_out_once_until_the_list_holds_it() -> None:
    first, second = (Pin(f"pin_{n}", 1, f"the door code is {n} <b>", 9, 0, "user") for n in range(2))
    talk = [user("q"), assistant("a")]
    assert pins_beside([], talk) == []
    assert pins_beside([first, second], talk) == [pin_block(first), pin_block(second)]
    sent = {**user("q"), "api_content": f"q\n\n{pin_block(first)}"}
    assert pins_beside([first, second], [sent, assistant("a")]) == [pin_block(second)]
    made_smaller = user(f"{pin_block(first)}\n\n{pin_block(second)}\n\nq")
    assert pins_beside([first, second], [made_smaller]) == []
