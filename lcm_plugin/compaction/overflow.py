"""A provider refused a call as too long: what its error says about the limit.

A host reports it with ``Turn.metadata["overflow"]``: true, the error's text, or the exception itself. Text and
exceptions count only when they speak of the context's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from lcm_plugin.types import Sent

LEAST_LIMIT = 256
"""No model's window is smaller: a smaller number in an error is something else."""
_MOST_CAUSES = 4
_WORTH_IT = 0.99

_NUMBER = r"(?P<{}>\d[\d,_]*)"
FORMS: tuple[tuple[str, str], ...] = (
    ("vLLM", r"maximum context length is {limit} tokens.{0,40}?requested {answer} output tokens and your "
             r"prompt contains (?:at least )?{prompt} input tokens"),
    ("SGLang", r"maximum context length of {limit} tokens.{0,40}?total of [\d,]+ tokens: {prompt} tokens from the "
               r"input messages and {answer} tokens"),
    ("OpenAI, Azure, DeepSeek, Mistral on Azure", r"maximum context length is {limit} tokens.{0,40}?requested "
     r"{total} tokens \([\d,]+ in (?:the messages|your prompt)[^)]*?{answer} (?:in|for)\s+the completion"),
    ("OpenRouter", r"maximum context length is {limit} tokens.{0,40}?requested about {total} tokens \([^)]*?"
                   r"{answer} in the output"),
    ("OpenAI, Azure, DeepSeek, OpenRouter", r"maximum context length is {limit} tokens.{0,60}?(?:resulted in|"
     r"requested(?: about)?) {prompt} tokens"),
    ("OpenAI, Groq, Bedrock's Llama", r"maximum context length (?:is|of) {limit}"),
    ("Anthropic", r"prompt is too long: {prompt} tokens > {limit}"),
    ("Anthropic, with an output limit", r"exceed context limit: {prompt} \+ {answer} > {limit}"),
    ("Fireworks", r"prompt is too long: {prompt}, model maximum context length: {limit}"),
    ("Gemini", r"input token count (?:\({prompt}\) |of {prompt2} )?exceeds the maximum number of tokens allowed "
               r"\(?{limit}"),
    ("xAI", r"maximum prompt length is {limit} but the request contains {prompt}"),
    ("Mistral", r"prompt contains {prompt} tokens.{0,60}?too large for model with {limit} maximum context"),
    ("Cohere", r"too many tokens:.{0,100}?(?:cannot|must not) exceed {limit}(?:\D{1,12}received {prompt})?"),
    ("Bedrock", r"max(?:imum)? input tokens: {limit}, request input token count: {prompt}"),
    ("Together, TGI", r"inputs`? tokens \+ `?max_new_tokens`? must be <= {limit}\. given: {prompt} `?inputs`? "
                      r"tokens and {answer}"),
    ("TGI", r"inputs`? must have less than {limit} tokens\. given: {prompt}"),
    ("Together, SGLang", r"input \({prompt} tokens\) is longer than the model'?s context length \({limit}"),
    ("llama.cpp", r"request \({prompt} tokens\) exceeds the available context size \({limit}"),
    ("llama.cpp's fields", r"n_prompt_tokens\W+{prompt}\D{1,40}?n_ctx\W+{limit}"),
    ("llama-cpp-python", r"requested tokens \({prompt}\) exceed context window of {limit}"),
    ("LM Studio", r"keep the first {prompt} tokens when context the overflows.{0,80}?context length of only "
                  r"{limit}"),
    ("LM Studio's fields", r"n_keep: {prompt}\s*>=\s*n_ctx: {limit}"),
    ("Ollama", r"input length \(?{prompt}(?: tokens)?\)? exceeds (?:the )?(?:maximum )?context length \(?(?:of )?"
               r"{limit}"),
    ("vLLM, older", r"prompt \((?:total )?length {prompt}\) is (?:too long to fit into the model|longer than the "
     r"maximum model length)\D{1,30}{limit}"),
    ("vLLM, older", r"prompt length of {prompt} is longer than the maximum model length of {limit}"),
    ("vLLM, older", r"input prompt \({prompt} tokens\) is too long and exceeds limit of {limit}"),
    ("Moonshot", r"exceeded model token limit: {limit} \(requested: {prompt}"),
    ("GitHub Copilot", r"prompt token count of {prompt} exceeds the limit of {limit}"),
    ("Qwen", r"input length should be \[\d+, {limit}\]"),
    ("OpenRouter's Poolside", r"exceeds the maximum allowed input length of {limit}"),
    ("DS4", r"prompt has {prompt} tokens?, but the configured context size is {limit}"),
    ("OpenAI and Groq, above the rate of a minute", r"request too large for .{0,160}?limit:? {limit}, requested"),
)  # fmt: skip
"""Which provider names its limit in which words. The first form that fits counts."""

_TOO_LONG = (
    r"context[ _-]?(?:length|window|size|limit)[^.\n]{0,60}?(?:exceed|too (?:long|large)|overflow|not enough)"
    r"|(?:exceed|overflow|larger|longer|greater|more)[^.\n]{0,60}?context[ _-]?(?:length|window|size|limit)"
    r"|maximum context|context length is only|model maximum context"
    r"|(?:prompt|input|request|message|conversation)s? (?:is |are |was )?too (?:long|large)"
    r"|too many (?:input |total |prompt )?tokens|tokens? (?:limit|count) (?:was |is )?exceed|exceeded model token limit"
    r"|exceeds? the (?:maximum|max|limit)[^.\n]{0,40}?tokens?|input tokens? exceed"
    r"|input length and .?max_tokens.? exceed|reduce the length|request_too_large|request entity too large"
)
_SOMETHING_ELSE = (
    r"rate.?limit(?! reached for .{0,80}request too large)|tokens per min|throttl|please wait"
    r"|maximum tokens you requested"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the error says, in the provider's tokens: the most a prompt may have, and how many the prompt had."""

    limit: int | None = None
    prompt: int | None = None


def refusal_of(reported: object) -> Refusal | None:
    """What a report of an overflow says; None when it is none. True is one that says nothing more."""
    if reported is True:
        return Refusal()
    if not isinstance(reported, (str, BaseException)):
        return None
    text = reported if isinstance(reported, str) else " ".join(_texts(reported))
    for form in _compiled_forms():
        if found := form.search(text):
            return _named(found)
    too_long = re.search(_TOO_LONG, text, re.IGNORECASE)
    return Refusal() if too_long and not re.search(_SOMETHING_ELSE, text, re.IGNORECASE) else None


def is_shorter(now: Sent | None, refused: Sent | None) -> bool:
    """Whether a context is enough shorter than the refused one to be worth another call."""
    return now is not None and refused is not None and now.tokens < _WORTH_IT * refused.tokens


@cache
def _compiled_forms() -> list[re.Pattern[str]]:
    return [
        re.compile(
            re.sub(r"\{([a-z]+2?)\}", lambda name: _NUMBER.format(name[1]), form), re.IGNORECASE | re.DOTALL
        )
        for _, form in FORMS
    ]


def _named(found: re.Match[str]) -> Refusal:
    numbers = {name: int(re.sub(r"\D", "", value)) for name, value in found.groupdict().items() if value}
    answer, limit = numbers.get("answer", 0), numbers["limit"]
    prompt = numbers.get("prompt") or numbers.get("prompt2")
    if prompt is None and numbers.get("total", 0) > answer:
        prompt = numbers["total"] - answer
    most = limit - answer if answer < limit else limit
    return Refusal(most if most >= LEAST_LIMIT else None, prompt)


def _texts(error: BaseException | None) -> Iterator[str]:
    """The texts of an exception, of the provider's own answer that it carries, and of what caused it."""
    for _ in range(_MOST_CAUSES):
        if error is None:
            return
        yield f"{type(error).__name__}: {error}"
        body = getattr(error, "body", None)
        if isinstance(body, (str, Mapping)):
            yield str(body)
        error = error.__cause__ or _original(error)


def _original(error: Any) -> BaseException | None:
    original = getattr(error, "original_exception", None)
    return original if isinstance(original, BaseException) else None
