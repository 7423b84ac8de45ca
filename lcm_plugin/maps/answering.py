"""One item: asks the model, has an invalid reply corrected, and says what came of it and what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from lcm_plugin.errors import ModelError, ModelRateLimited, ModelTimeout, ModelUnavailable
from lcm_plugin.maps.contract import Contract
from lcm_plugin.maps.options import MapOptions
from lcm_plugin.maps.prompts import correction, opening
from lcm_plugin.store.maps.records import ItemState, MapItem, MapRecord, Settlement
from lcm_plugin.summarize.completers import Completions, Paused
from lcm_plugin.types import CompletionRequest, CompletionResult, Message

REPLIES = 3
ATTEMPTS = 3
# Asks a delegate, which may read history, with these messages; the reply's text.
Delegated = Callable[["Meter", list[Message], MapOptions], str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt. ``wait`` asks for a pause (seconds) before the next call of anybody."""

    settled: Settlement
    wait: float = 0.0


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
        """The answer, after its tokens were added: the provider's count, else ours."""
        asked = replace(request, purpose="map", model=self._model, temperature=0.0)
        result = self._completions.complete(asked, deadline)
        usage = result.usage
        self.tokens_in += (usage and usage.prompt_tokens) or sum(
            self._count(str(message.get("content") or "")) for message in request.messages
        )
        self.tokens_out += (usage and usage.completion_tokens) or self._count(result.text)
        self.answered_by = result.model or self.answered_by
        return result


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

    def answer(self, item: MapItem) -> Outcome:
        """An attempt at an item. It never raises a model's error."""
        meter = Meter(self._completions, self._record.model, self._count)
        try:
            answer, problem = self._ask(item, meter)
        except ModelRateLimited as error:
            return Outcome(self._put_off(meter, item, error), error.retry_after or 1.0)
        except Paused as error:
            return Outcome(self._put_off(meter, item, error), 1.0)
        except (ModelTimeout, ModelUnavailable) as error:
            return Outcome(self._tried(meter, item, error))
        except ModelError as error:
            return Outcome(self._settled(meter, item, "failed", error=str(error)))
        if answer is None:
            return Outcome(self._settled(meter, item, "failed", error=f"no valid reply: {problem}"))
        return Outcome(self._settled(meter, item, "done", answer=answer))

    def _ask(self, item: MapItem, meter: Meter) -> tuple[str | None, str]:
        options = self._options
        messages = opening(
            self._record.prompt, self._contract.text, item.content, agentic=self._delegated is not None
        )
        deadline = time.monotonic() + options.seconds * REPLIES
        problem = ""
        for _ in range(REPLIES):
            if self._delegated is not None:
                text = self._delegated(meter, messages, options)
            else:
                request = CompletionRequest(tuple(messages), options.max_tokens, timeout=options.seconds)
                text = meter.complete(request, deadline).text
            answer, problem = self._contract.read(text)
            if answer is not None:
                return answer, ""
            messages += [{"role": "assistant", "content": text or "(empty)"}, correction(problem)]
        return None, problem

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
