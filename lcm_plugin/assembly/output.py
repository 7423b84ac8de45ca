"""Writing paired entries out as messages, each id once, a trailing reply left out."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_plugin.assembly.entries import Answer, Caller, Direct, Entry, Orphans, Paired, Placed
from lcm_plugin.assembly.ids import UniqueIds
from lcm_plugin.assembly.render import Rendered
from lcm_plugin.messages.markup import notice_block
from lcm_plugin.messages.shape import answers_like, only_results, rename_calls, words_beside_results

NO_RESULT = "[lcm: no result of this call was recorded]"


class Output:
    """Writes the entries out behind the messages that are placed ``before`` them, a trailing reply left out.

    ``unique`` are the ids used before; it is changed.
    """

    def __init__(
        self, entries: Sequence[Entry], breaks: Sequence[int], before: Sequence[Placed], unique: UniqueIds
    ) -> None:
        self._entries = entries
        self._breaks = breaks
        self._unique = unique
        self._messages = list(before)
        self._open: list[str] = []
        self._settled = -1
        self._said: set[int] = set()

    def paired(self) -> Paired:
        """All of it."""
        for position, entry in enumerate(self._entries):
            if isinstance(entry, Direct):
                self._exchange_directly(entry)
            elif isinstance(entry, Caller):
                if entry.shown:
                    self._exchange(entry, self._neighbour(position))
            elif isinstance(entry, Orphans):
                if entry.shown and entry.answers:
                    self._messages.append(_notice(entry))
            elif entry.ordinal not in self._said:
                self._plain(entry)
        while self._messages and self._messages[-1].reply:
            self._messages.pop()
        settled = len(self._messages) if self._settled < 0 else min(self._settled, len(self._messages))
        return Paired(self._messages, tuple(self._breaks), tuple(self._open), settled)

    def _neighbour(self, position: int) -> Rendered | None:
        after = self._entries[position + 1] if position + 1 < len(self._entries) else None
        return after if isinstance(after, Rendered) and after.with_words else None

    def _plain(self, item: Rendered) -> None:
        if item.with_words:
            words = words_beside_results(item.message)
            assert words is not None
            self._messages.append(Placed(words, None))
        else:
            self._messages.append(Placed(item.message, item.tokens, item.kind == "reply"))

    def _exchange_directly(self, direct: Direct) -> None:
        item = direct.item
        if self._unique.are_new(item.calls):
            for one in (item, *direct.results):
                self._messages.append(Placed(one.message, one.tokens))
            return
        answers = {result.answers[0]: Answer(result, 0) for result in direct.results}
        self._exchange(Caller(item, [answers[call] for call in item.calls], True, True), None)

    def _exchange(self, caller: Caller, neighbour: Rendered | None) -> None:
        item, start = caller.item, len(self._messages)
        names = [self._unique.name(call, f"call_{item.ordinal}_{n}") for n, call in enumerate(item.calls)]
        renamed = list(names) != list(item.calls)
        message = rename_calls(item.message, names) if renamed else item.message
        self._messages.append(Placed(message, None if renamed or item.tokens < 0 else item.tokens))
        results = _by_message(caller.slots)
        missing = [index for index, answer in enumerate(caller.slots) if answer is None]
        whole = neighbour if len(results) == 1 and not missing else None
        for result, slots in results:
            self._messages.append(_result(result, slots, names, whole))
            if whole is result:
                self._said.add(result.ordinal)
        made = answers_like(item.message, [(index, names[index]) for index in missing], NO_RESULT)
        self._messages += [Placed(message, None) for message in made]
        made_up = any(answer.is_synthetic for answer in caller.slots if answer)
        if (missing and results) or made_up:
            self._open.append(f"{item.ref}:{missing}:{made_up}")
            if not caller.closed:
                self._settled = start


def _by_message(slots: Sequence[Answer | None]) -> list[tuple[Rendered, list[tuple[int, int]]]]:
    """The results in the order in which they came, each with pairs of slot and place in the message."""
    found: dict[int, tuple[Rendered, list[tuple[int, int]]]] = {}
    for slot, answer in enumerate(slots):
        if answer is not None:
            found.setdefault(answer.item.ordinal, (answer.item, []))[1].append((slot, answer.index))
    return [found[ordinal] for ordinal in sorted(found)]


def _result(
    result: Rendered, slots: list[tuple[int, int]], names: Sequence[str], whole: Rendered | None
) -> Placed:
    complete = len(slots) == len(result.answers) and (not result.with_words or whole is result)
    if complete and all(names[slot] == result.answers[index] for slot, index in slots):
        return Placed(result.message, result.tokens)
    slots = sorted(slots, key=lambda pair: pair[1])
    part = only_results(result.message, [index for _, index in slots], [names[slot] for slot, _ in slots])
    if whole is result and result.with_words:
        words = words_beside_results(result.message)
        part = {**part, "content": [*part["content"], *(words or {}).get("content", ())]}
    return Placed(part, None)


def _notice(orphans: Orphans) -> Placed:
    refs = " ".join(dict.fromkeys(answer.item.ref for answer in orphans.answers))
    text = f"Tool results whose call is not in this conversation: {refs}. Read them with lcm_describe."
    return Placed({"role": "user", "content": notice_block(text)}, None)
