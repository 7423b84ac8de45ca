"""Whatever happened in a talk, the context is what a new session with the same list would show, and all is stored once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from messages import assistant, call, result, user

from lcm_plugin import LcmConfig
from lcm_plugin.memory import Memory
from lcm_plugin.types import Message

SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 2,
    "leaf_chunk_tokens": 200,
    "leaf_target_tokens": 60,
    "leaf_min_fanout": 2,
    "autocompact_disabled": True,
}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["turn", "tools", "back", "edit", "reword", "retry", "branch", "clear", "take back", "compact"]
        ),
        st.integers(0, 50),
    ),
    min_size=3,
    max_size=12,
)


def memory_in(folder: str, name: str) -> Memory:
    return Memory(Path(folder) / name, window=100_000, config=LcmConfig(**SETTINGS))


def shown(memory: Memory) -> list[Message]:
    return [message for message in memory.context() if message["role"] != "system"]


class Talk:
    """A program's own list, every list that it left, and all that was ever said."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.listing, self.left = memory, [], []
        self.said: list[Message] = []
        self.compacted = False

    listing: list[Message]
    left: list[list[Message]]

    def say(self, message: Message) -> Message:
        self.said.append(message)
        return message

    def asked(self, text: str) -> Message:
        return self.say(user(f"{text}, question {len(self.said)} of this talk"))

    def answered(self) -> Message:
        return self.say(assistant(f"answer {len(self.said)}, said once and for all"))

    def go_on_from(self, listing: list[Message], *fresh: Message) -> None:
        self.left.append(self.listing)
        self.listing = [*listing, *fresh]
        self.memory.replace(*self.listing)

    def step(self, kind: str, number: int) -> None:
        requests = [n for n, message in enumerate(self.listing) if message["role"] == "user"]
        at = requests[number % len(requests)] if requests else 0
        if kind == "compact":
            self.compacted |= self.memory.engine.compact(
                self.memory.session, force=True, budget=1_000
            ).compacted
        elif kind == "take back" and requests:
            taken = self.memory.take_back(len(self.listing) - at)
            assert taken == self.listing[at:]
            self.listing = self.listing[:at]
        elif kind == "tools":
            name = f"call_of_this_talk_{len(self.said)}"
            fresh = [self.asked("look"), self.say(call(name)), self.say(result(name, f"seen by {name}"))]
            self.memory.add(*fresh)
            self.listing = [*self.listing, *fresh]
        elif kind in ("back", "edit") and requests:
            self.go_on_from(self.listing[:at], self.asked(kind))
        elif kind == "reword" and self.listing[1:]:
            at = number % (len(self.listing) - 1)
            other = {**self.listing[at], "content": f"said otherwise as number {len(self.said)} of this talk"}
            self.go_on_from([*self.listing[:at], self.say(other), *self.listing[at + 1 :]])
        elif kind == "retry" and requests and self.listing[at + 1 :]:
            self.go_on_from(self.listing[: at + 1], self.answered())
        elif kind == "branch" and self.left:
            self.go_on_from(self.left.pop(number % len(self.left)), self.asked("back here"))
        elif kind == "clear" and self.listing:
            self.go_on_from([], self.asked("a fresh start"))
        else:
            self.memory.add(self.asked("go on"), self.answered())
            self.listing = [*self.listing, *self.said[-2:]]


@settings(max_examples=20, phases=[Phase.explicit, Phase.generate])
@given(steps=STEPS)
@example(steps=[("turn", 0), ("edit", 0), ("edit", 0), ("turn", 0), ("retry", 1), ("retry", 0)])
@example(steps=[("turn", 0), ("turn", 0), ("reword", 0), ("reword", 1), ("reword", 0), ("branch", 1)])
@example(steps=[("turn", 0), ("tools", 0), ("reword", 3), ("take back", 0), ("branch", 2)])
@example(steps=[("tools", 0), ("back", 0), ("edit", 0), ("turn", 0), ("retry", 1), ("retry", 0)])
def test_any_history_shows_what_its_final_list_says(steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder, memory_in(folder, "talk.db") as memory:
        talk = Talk(memory)
        for kind, number in steps:
            talk.step(kind, number)
        assert Counter(map(str, memory.messages())) == Counter(map(str, talk.said))
        memory.add(talk.asked("and now"))
        final = [*talk.listing, talk.said[-1]]
        context = shown(memory)
        assert context[-1] == final[-1]
        assert memory.engine.check(memory.session).findings == ()
        if talk.compacted:
            gone = [message for message in talk.said if message not in final]
            assert not any(message in context for message in gone)
            return
        with memory_in(folder, "fresh.db") as fresh:
            fresh.replace(*final)
            assert context == shown(fresh) == final
