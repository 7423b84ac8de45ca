"""A model answers the questions with its tools, and another one judges the answers against the data set's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.errors import ModelError
from lcm_plugin.evaluation.loaders.oolong import score as oolong_score
from lcm_plugin.evaluation.records import Question
from lcm_plugin.evaluation.systems import Asked
from lcm_plugin.evaluation.tally import Replies
from lcm_plugin.summarize.litellm_client import LitellmModel
from lcm_plugin.types import CompletionRequest, CompletionResult, Message

MOST_ROUNDS = 8
_ANSWER_TOKENS, _VERDICT_TOKENS = 800, 200
_SECONDS = 120.0
_TEMPERATURE = 0.7
SYSTEM = (
    "Answer the last question from the conversation, in one or two sentences. Look up what you do not see, if you have "
    "tools for it. When nothing was said about it, answer that it was not said."
)
_JUDGE = (
    "You grade an answer to a question about a long conversation. The gold answer is right. The answer is right when "
    "it says the same, in any words and with any detail added; for a date, when it means the same day or period; when "
    "the gold answer says that nothing is known, when it says so too. Reply with one word: CORRECT or WRONG.\n\n"
    "Question: {question}\nGold answer: {gold}\nAnswer: {answer}"
)
_POINT = "A right answer meets this point: {point}"


@dataclass(slots=True)
class Answerer:
    """Answers with ``model`` and judges with ``judge``; ``base_url`` is for a server of one's own."""

    model: str
    judge: str
    base_url: str = ""
    _prices: dict[str, tuple[float, float] | None] = field(default_factory=dict)

    def reply(self, question: Question, asked: Asked, seed: int) -> Replies:
        """One judged answer. Raises `ModelError` when a model cannot be reached."""
        replies = Replies(judged=1)
        text = self._answer(question, asked, seed, replies)
        replies.score = self._score(question, text, seed, replies)
        return replies

    def _answer(self, question: Question, asked: Asked, seed: int, replies: Replies) -> str:
        today = f"{SYSTEM} Today is {question.when}." if question.when else SYSTEM
        messages = asked.messages
        for _ in range(MOST_ROUNDS):
            request: list[Message] = [{"role": "system", "content": today}, *messages]
            result = self._complete(self.model, request, _ANSWER_TOKENS, seed, replies, asked.tools)
            if not result.tool_calls:
                return result.text
            calls = [dict(call) for call in result.tool_calls]
            replies.tool_calls += len(calls)
            said: Message = {"role": "assistant", "content": result.text or None, "tool_calls": calls}
            messages = asked.goes_on([said, *(_result(asked, call) for call in calls)])
        return ""

    def _score(self, question: Question, answer: str, seed: int, replies: Replies) -> float:
        if question.scoring == "oolong":
            return oolong_score(answer, question.answer)
        golds = [_POINT.format(point=point) for point in question.rubric] or [question.answer]
        right = [self._agrees(question, gold, answer, seed, replies) for gold in golds]
        return sum(right) / len(right)

    def _agrees(self, question: Question, gold: str, answer: str, seed: int, replies: Replies) -> bool:
        text = _JUDGE.format(question=question.text, gold=gold, answer=answer)
        request: list[Message] = [{"role": "user", "content": text}]
        verdict = self._complete(self.judge, request, _VERDICT_TOKENS, seed, replies).text.upper()
        return "CORRECT" in verdict and "INCORRECT" not in verdict and "WRONG" not in verdict

    def _complete(
        self,
        name: str,
        messages: Sequence[Message],
        most: int,
        seed: int,
        replies: Replies,
        tools: Sequence[dict[str, Any]] = (),
    ) -> CompletionResult:
        model = LitellmModel("", name, self.base_url)
        result = model.complete(
            CompletionRequest(
                messages,
                most,
                temperature=_TEMPERATURE,
                purpose="expansion",
                timeout=_SECONDS,
                tools=tools,
                seed=seed,
            )
        )
        usage = result.usage
        if usage is None:
            raise ModelError(f"{name} did not say how many tokens a call took, so that no cost can be given")
        if name == self.model:
            replies.prompt_tokens += usage.prompt_tokens
            replies.answer_tokens += usage.completion_tokens
        if name not in self._prices:
            self._prices[name] = model.price()
        price = self._prices[name]
        if price is None or replies.dollars is None:
            replies.dollars = None
        else:
            replies.dollars += (
                usage.prompt_tokens * price[0] + usage.completion_tokens * price[1]
            ) / 1_000_000
        return result


def _result(asked: Asked, call: dict[str, Any]) -> Message:
    """The answer to a model's tool call, errors included: the model reads them."""
    try:
        arguments = json.loads(call["function"]["arguments"] or "{}")
        answer = asked.call(call["function"]["name"], arguments)
    except (ValueError, TypeError) as error:
        answer = {"error": f"the arguments are no JSON object: {error}"}
    return {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(answer, ensure_ascii=False)}
