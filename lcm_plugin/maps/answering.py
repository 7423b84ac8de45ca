"""One item: asks the model, has an invalid reply corrected, and says what came of it and what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lcm_plugin.errors import (
    ModelError,
    ModelRateLimited,
    ModelTimeout,
    ModelUnavailable,
)
from lcm_plugin.maps.contract import Contract
from lcm_plugin.maps.options import MapOptions
from lcm_plugin.maps.prompts import as_data, correction, rules
from lcm_plugin.store.maps.records import ItemState, MapItem, MapRecord, Settlement
from lcm_plugin.summarize.completers import Completions, Paused, is_refusal
from lcm_plugin.types import CompletionRequest, CompletionResult, Message

REPLIES = 3
ATTEMPTS = 3
# Asks a delegate, which may read history, with these messages; the reply's text.
Delegated = Callable[["Meter", list[Message], MapOptions], str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt. ``wait`` asks for a pause (seconds) before the next call of anybody.

    ``refused`` is an item that the provider does not take, which says nothing of the others.
    """

    settled: Settlement
    wait: float = 0.0
    refused: bool = False


class Meter:
    """Model calls of one item, counted. It stands in for `Completions` where a delegate makes the calls."""

    def __init__(self, completions: Completions, model: str, count: Callable[[str], int]) -> None:
        self._completions = completions
        self._model = model or None
        self._count = count
        self.tokens_in = self.tokens_out = 0
        self.answered_by = ""

    def available(self, purpose: str) -> bool:
        """A map is worked only where a model is."""
        return True

    def complete(self, request: CompletionRequest, deadline: float | None = None) -> CompletionResult:
        """The answer, after its tokens were added."""
        result = self._completions.complete(self.made(request), deadline)
        self.add(request, result)
        return result

    def made(self, request: CompletionRequest) -> CompletionRequest:
        """A request as a map sends it."""
        return replace(request, purpose="map", model=self._model, temperature=0.0)

    def add(self, request: CompletionRequest, result: CompletionResult) -> None:
        """Adds an answer's tokens: the provider's count, else ours."""
        usage = result.usage
        self.tokens_in += (usage and usage.prompt_tokens) or sum(
            self._count(str(message.get("content") or "")) for message in request.messages
        )
        self.tokens_out += (usage and usage.completion_tokens) or self._count(result.text)
        self.answered_by = result.model or self.answered_by


class Answerer:
    """Answers items of one map. Thread-safe."""

    def __init__(
        self,
        record: MapRecord,
        options: MapOptions,
        contract: Contract,
        completions: Completions,
        count: Callable[[str], int],
        delegated: Delegated | None,
    ) -> None:
        self._record = record
        self._options = options
        self._contract = contract
        self._completions = completions
        self._count = count
        self._delegated = delegated
        self._rules = rules(record.prompt, contract.text, agentic=delegated is not None)
        self._rules_text = str(self._rules["content"])
        self._rules_tokens = count(self._rules_text)
        # Beside an item's own text, a call sends the rules and the item's wrapper.
        self.prompt_tokens = self._rules_tokens + count(str(as_data("")["content"]))

    @property
    def batch_size(self) -> int:
        """How many items are asked about in one call of the completer."""
        return 1 if self._delegated else self._completions.batch_size("map", self._record.model)

    def answer_many(self, items: Sequence[MapItem]) -> list[Outcome]:
        """An attempt at each item, in one batch where there are several; replies that are not valid are corrected singly."""
        if len(items) == 1:
            return [self.answer(items[0])]
        meter = self._meter()
        requests = [meter.made(self._request(self._opening(item))) for item in items]
        firsts: Sequence[CompletionResult | ModelError]
        try:
            firsts = self._completions.complete_many(requests)
        except ModelError as error:
            firsts = [error] * len(items)
        return [self.answer(item, first) for item, first in zip(items, firsts, strict=True)]

    def answer(self, item: MapItem, first: CompletionResult | ModelError | None = None) -> Outcome:
        """An attempt at an item, of which the ``first`` reply may be there already. It never raises a model's error."""
        meter = self._meter()
        try:
            answer, problem = self._ask(item, meter, first)
        except ModelRateLimited as error:
            return Outcome(self._put_off(meter, item, error), error.retry_after or 1.0)
        except Paused as error:
            return Outcome(self._put_off(meter, item, error), 1.0)
        except (ModelTimeout, ModelUnavailable) as error:
            return Outcome(self._tried(meter, item, error))
        except ModelError as error:
            settled = self._settled(meter, item, "failed", error=str(error))
            return Outcome(settled, refused=is_refusal(error))
        if answer is None:
            return Outcome(self._settled(meter, item, "failed", error=f"no valid reply: {problem}"))
        return Outcome(self._settled(meter, item, "done", answer=answer))

    def _meter(self) -> Meter:
        return Meter(self._completions, self._record.model, self._tokens)

    def _tokens(self, text: str) -> int:
        """The rules, which every call sends, are counted once."""
        return self._rules_tokens if text is self._rules_text else self._count(text)

    def _opening(self, item: MapItem) -> list[Message]:
        return [self._rules, as_data(item.content)]

    def _request(self, messages: Sequence[Message]) -> CompletionRequest:
        return CompletionRequest(tuple(messages), self._options.max_tokens, timeout=self._options.seconds)

    def _ask(
        self, item: MapItem, meter: Meter, first: CompletionResult | ModelError | None
    ) -> tuple[str | None, str]:
        options = self._options
        messages = self._opening(item)
        deadline = time.monotonic() + options.seconds * REPLIES
        problem = ""
        for _ in range(REPLIES):
            if first is not None:
                text, first = self._text_of(first, meter, messages), None
            elif self._delegated is not None:
                text = self._delegated(meter, messages, options)
            else:
                text = meter.complete(self._request(messages), deadline).text
            answer, problem = self._contract.read(text)
            if answer is not None:
                return answer, ""
            messages += [{"role": "assistant", "content": text or "(empty)"}, correction(problem)]
        return None, problem

    def _text_of(self, first: CompletionResult | ModelError, meter: Meter, messages: list[Message]) -> str:
        if isinstance(first, ModelError):
            raise first
        meter.add(self._request(messages), first)
        return first.text

    def _put_off(self, meter: Meter, item: MapItem, error: ModelError) -> Settlement:
        """The provider has no time for anybody just now: this is no attempt at the item."""
        return replace(self._settled(meter, item, "open", error=str(error)), counts=False)

    def _tried(self, meter: Meter, item: MapItem, error: ModelError) -> Settlement:
        last = item.attempts + 1 >= ATTEMPTS
        return self._settled(meter, item, "failed" if last else "open", error=str(error))

    def _settled(
        self, meter: Meter, item: MapItem, state: ItemState, answer: str | None = None, error: str = ""
    ) -> Settlement:
        spent = meter.tokens_in, meter.tokens_out
        cost = self._options.cost(*spent)
        return Settlement(item.place, state, answer, error[:500], *spent, cost, meter.answered_by)
