"""Model calls through litellm: any provider, with its own keys and no look-up of its own.

litellm takes seconds to import, so it is imported at the first call, which is never made on the caller's
thread (see `completers`). It reads each provider's key from that provider's own variable; with a base URL
of one's own that would send the provider's key to a stranger, so there only the key set for this
package (``LCM_SUMMARY_API_KEY``) is sent, or the provider's when its own variable names the same URL.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lcm_plugin.errors import ModelAuthError, ModelError, ModelRateLimited, ModelTimeout, ModelUnavailable
from lcm_plugin.summarize.answers import read_answer
from lcm_plugin.types import CompletionRequest, CompletionResult

API_KEY_VARIABLE = "LCM_SUMMARY_API_KEY"
REASONING_TOKENS = 2_048
_NO_KEY = "none"
_OFFLINE = {
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "true",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "true",
    "LITELLM_LOCAL_BLOG_POSTS": "true",
}
_streaming_only: set[str] = set()
_import_lock = threading.Lock()


class ContextTooLong(ModelError):
    """The prompt does not fit the model's window."""


@dataclass(frozen=True, slots=True)
class LitellmModel:
    """One model: its provider ("" when the name says it), its name, its base URL ("" for the usual one)."""

    provider: str
    name: str
    base_url: str = ""

    @property
    def full_name(self) -> str:
        """litellm's name. Only the first part is cut off there, so a name with slashes arrives whole."""
        return f"{self.provider}/{self.name}" if self.provider else self.name

    def complete(self, request: CompletionRequest) -> CompletionResult:
        """One call without retries; raises the kinds of `ModelError`."""
        litellm = load()
        arguments = self._arguments(request)
        if self._reasons(litellm):
            arguments["max_tokens"] += REASONING_TOKENS
            arguments["reasoning_effort"] = "low"
        try:
            if self.full_name in _streaming_only:
                return read_answer(litellm.completion(**arguments, stream=True), self.full_name)
            try:
                answer = litellm.completion(**arguments)
            except (litellm.BadRequestError, litellm.InternalServerError) as error:
                if not _wants_stream(error):
                    raise
                _streaming_only.add(self.full_name)
                answer = litellm.completion(**arguments, stream=True)
            return read_answer(answer, self.full_name)
        except ModelError:
            raise
        except Exception as error:
            raise _translated(litellm, error, self.full_name) from error

    def window(self) -> int | None:
        """Most prompt tokens, as litellm's table knows it; None for a model it does not know."""
        litellm = load()
        try:
            window = litellm.get_model_info(self.full_name).get("max_input_tokens")
        except Exception:  # noqa: BLE001 - an unknown model raises a bare Exception
            return None
        return int(window) if window else None

    def price(self) -> tuple[float, float] | None:
        """Dollars per million tokens of prompts and of answers, as litellm's table knows them; None when it does not."""
        litellm = load()
        try:
            info = litellm.get_model_info(self.full_name)
            both = info.get("input_cost_per_token"), info.get("output_cost_per_token")
        except Exception:  # noqa: BLE001 - an unknown model raises a bare Exception
            return None
        return None if None in both else (both[0] * 1_000_000, both[1] * 1_000_000)

    def _reasons(self, litellm: Any) -> bool:
        """Whether the model spends output tokens on reasoning, as litellm's table knows it."""
        try:
            return bool(litellm.supports_reasoning(model=self.full_name))
        except Exception:  # noqa: BLE001 - an unknown model may raise anything
            return False

    def _arguments(self, request: CompletionRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.full_name,
            "messages": list(request.messages),
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "timeout": request.timeout,
            "max_retries": 0,
            "num_retries": 0,
            "drop_params": True,
        }
        if request.tools:
            arguments["tools"] = list(request.tools)
        if request.seed is not None:
            arguments["seed"] = request.seed
        if self.base_url:
            arguments["api_base"] = self.base_url
            arguments["api_key"] = self._own_key()
        return arguments

    def _own_key(self) -> str:
        key = os.environ.get(API_KEY_VARIABLE)
        if key:
            return key
        prefix = (self.provider or self.name.partition("/")[0]).upper().replace("-", "_")
        named = (os.environ.get(f"{prefix}_{ending}") for ending in ("BASE_URL", "API_BASE"))
        if any(url and url.rstrip("/") == self.base_url.rstrip("/") for url in named):
            return os.environ.get(f"{prefix}_API_KEY") or _NO_KEY
        return _NO_KEY


def load() -> Any:
    """litellm, with its downloads and its chatter switched off."""
    with _import_lock:
        for name, value in _OFFLINE.items():
            os.environ.setdefault(name, value)
        with _no_dotenv():
            try:
                import litellm
            except ImportError as error:
                raise ModelUnavailable(
                    "litellm is not installed: pip install 'lcm_plugin[litellm]'"
                ) from error
        litellm.suppress_debug_info = True
        litellm.telemetry = False
        return litellm


@contextlib.contextmanager
def _no_dotenv() -> Iterator[None]:
    """litellm reads ``.env`` files into the process at import unless its mode is production."""
    if "LITELLM_MODE" in os.environ:
        yield
        return
    os.environ["LITELLM_MODE"] = "PRODUCTION"
    try:
        yield
    finally:
        del os.environ["LITELLM_MODE"]


def _wants_stream(error: Exception) -> bool:
    """Whether the model must be read as a stream: its error says so, or its whole answer is not understood.

    litellm reads content that is a list of parts only from streams.
    """
    text = str(error).lower()
    if "invalid response object" in text:
        return True
    return "stream" in text and any(
        word in text for word in ("only support", "must", "require", "set to true")
    )


def _translated(litellm: Any, error: Exception, model: str) -> ModelError:
    text = f"{model}: {_first_line(error)}"
    status = getattr(error, "status_code", None)
    if isinstance(error, (litellm.AuthenticationError, litellm.PermissionDeniedError)) or status in (
        401,
        403,
    ):
        return ModelAuthError(text)
    if isinstance(error, litellm.ContextWindowExceededError):
        return ContextTooLong(text)
    if isinstance(error, litellm.RateLimitError) or status == 429:
        return ModelRateLimited(text, _retry_after(error))
    if isinstance(error, litellm.Timeout) or status in (408, 504):
        return ModelTimeout(text)
    if isinstance(error, (litellm.BadRequestError, litellm.NotFoundError)):
        return ModelError(text)
    return ModelUnavailable(text)


def _retry_after(error: Exception) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
