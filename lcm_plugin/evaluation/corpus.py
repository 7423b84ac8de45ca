"""A seeded corpus of agent talk of any length, the same for every benchmark.

Its mix is that of recorded sessions: 5.9 messages a turn; a user message has 85 tokens on average, an
assistant message 224 and a tool result 705, with long tails; 1,338 bytes a message. Prose, logs, listings,
JSON and code take turns; one message in twelve is not English.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import copy
from itertools import islice
from random import Random
from typing import Any

Message = dict[str, Any]

_SYLLABLES = "ba co di fu ga he ji ko lu ma ne po ra si to vu wa xe yo zi qua bri stra plo mer dan fel nor"  # made-up names
_COMMON = (
    "the a of and to in is that for it with as was on be by this are from at have not or which we can but "
    "they will all when there more if no out so what up into than them only some time its our over then first "
    "new after most also made before must through back where much should well down now each how just those good "
    "build server check value error file list read write open close start stop run test deploy branch merge index "
    "connection configuration performance information request response database container application service "
    "environment description processing management available different important following development production "
    "certificate permission directory operation transaction instance reference structure condition previous "
    "table query cache token window message summary budget session result call tool answer question decision"
)
_FOREIGN = (
    "Die Sicherung lief durch, aber der Prüfwert stimmt nicht mit dem Protokoll überein.",
    "部署已经完成，但是第三台服务器的响应时间仍然高于预期，请检查连接池的配置。",
    "キャッシュの有効期限を三日に変更しました。再起動は必要ありません。",
    "La réplica tiene un retraso de cuatro minutos y el disco está al noventa por ciento.",
    "Сборка прошла успешно, но один тест зависает при втором запуске.",
    "Kolejka jest pusta, a mimo to licznik nadal rośnie 🧐",
)
_LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "WARN", "ERROR")
USER_TOKENS, ASSISTANT_TOKENS, TOOL_TOKENS = 85, 224, 705
MESSAGES_PER_TURN = 5.9


class Corpus:
    """Endless turns from a seed."""

    def __init__(self, seed: int | str = 1) -> None:
        self._rng = Random(seed)
        self._syllables = _SYLLABLES.split()
        self._common = _COMMON.split()
        words = {
            "".join(self._rng.choices(self._syllables, k=self._rng.randrange(2, 4))) for _ in range(2_000)
        }
        self._words = sorted(words)
        self._sentences = [self._sentence() for _ in range(3_000)]
        self._lines = [self._line() for _ in range(3_000)]
        self._made = 0

    def speaker(self, seed: int | str) -> Corpus:
        """Other turns made of the same words, sentences and lines, which take most of the time to make."""
        other = copy(self)
        other._rng, other._made = Random(seed), 0
        return other

    def turns(self) -> Iterator[list[Message]]:
        """Turn after turn: a request, calls with their results, an answer."""
        while True:
            yield self._turn()

    def messages(self, count: int) -> Iterator[Message]:
        """The first ``count`` messages."""
        return islice((message for turn in self.turns() for message in turn), count)

    def sentences(self) -> list[str]:
        """The sentences that its prose is made of."""
        return list(self._sentences)

    def _turn(self) -> list[Message]:
        rng = self._rng
        turn: list[Message] = [{"role": "user", "content": self._prose(USER_TOKENS * 0.95)}]
        rounds = self._rounds()
        for _ in range(rounds):
            self._made += 1
            call_id = f"call_{self._made:08x}{rng.getrandbits(32):08x}"
            arguments = {"path": self._path(), "query": self._words_of(rng.randrange(2, 9))}
            function = {
                "name": rng.choice(("read", "search", "shell", "query")),
                "arguments": json.dumps(arguments),
            }
            thought = self._prose(ASSISTANT_TOKENS * 0.72)
            turn.append(
                {
                    "role": "assistant",
                    "content": thought,
                    "tool_calls": [{"id": call_id, "type": "function", "function": function}],
                }
            )
            turn.append({"role": "tool", "tool_call_id": call_id, "content": self._output(TOOL_TOKENS)})
        turn.append({"role": "assistant", "content": self._prose(ASSISTANT_TOKENS * 1.15)})
        return turn

    def _rounds(self) -> int:
        """Tool calls of a turn; 1.95 on average, which makes 5.9 messages."""
        return min(12, int(self._rng.expovariate(1 / 2.44)))

    def _length(self, mean: float) -> int:
        """A length with the given mean and a long tail (log-normal, sigma 0.8)."""
        return max(8, int(self._rng.lognormvariate(0, 0.8) * mean / 1.377))

    def _prose(self, tokens: float) -> str:
        length = self._length(tokens)
        parts = [f"{self._rng.getrandbits(40):010x}:"]
        size = 8.0
        while size < length:
            sentence = self._rng.choice(self._sentences)
            parts.append(sentence)
            size += len(sentence) / 4.6
        return " ".join(parts)

    def _output(self, tokens: float) -> str:
        length = self._length(tokens)
        if self._rng.random() < 0.2:
            rows = [
                {
                    "id": self._rng.getrandbits(32),
                    "name": self._rng.choice(self._words),
                    "path": self._path(),
                    "ok": True,
                }
                for _ in range(max(1, length // 34))
            ]
            return json.dumps(rows)
        parts = []
        size = 0.0
        while size < length:
            line = self._rng.choice(self._lines)
            parts.append(line)
            size += len(line) / 3.15
        return "\n".join(parts)

    def _sentence(self) -> str:
        if self._rng.random() < 1 / 24:
            return self._rng.choice(_FOREIGN)
        text = self._words_of(self._rng.randrange(6, 22))
        return text[0].upper() + text[1:] + "."

    def _line(self) -> str:
        rng = self._rng
        kind = rng.randrange(5)
        if kind == 0:
            moment = f"2026-02-{rng.randrange(1, 29):02d}T{rng.randrange(24):02d}:{rng.randrange(60):02d}:07Z"
            return f"{moment} {rng.choice(_LEVELS)} {self._words_of(6)}"
        if kind == 1:
            return f"{self._path()}:{rng.randrange(1, 900)}: {self._words_of(4)}"
        if kind == 2:
            return f"{self._path()}: {self._words_of(12)}"
        if kind == 3:
            call = f"{rng.choice(self._common)}({rng.choice(self._words)}, {rng.randrange(1000)})"
            return f"    {rng.choice(self._common)} = {call}"
        return f"-rw-r--r-- 1 app app {rng.randrange(100, 99_999)} {rng.choice(self._words)}.log"

    def _words_of(self, count: int) -> str:
        rng = self._rng
        return " ".join(
            rng.choice(self._common if rng.random() < 0.94 else self._words) for _ in range(count)
        )

    def _path(self) -> str:
        return "/srv/" + "/".join(self._rng.choices(self._common, k=3)) + ".py"
