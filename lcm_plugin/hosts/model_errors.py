"""What went wrong in a call of a host's own model, as the package's model errors.

Hosts pass on their provider SDK's exceptions, whose classes are known by name and status only.
"""

from __future__ import annotations

from lcm_plugin.errors import ModelAuthError, ModelError, ModelRateLimited, ModelTimeout, ModelUnavailable

_NO_ACCESS = ("Authentication", "PermissionDenied", "MissingApiKey")


def model_error(error: Exception) -> ModelError:
    """The package's error for an SDK's; a package's own error comes back as it is."""
    if isinstance(error, ModelError):
        return error
    name, status = type(error).__name__, getattr(error, "status_code", None)
    text = f"{name}: {error}"
    if isinstance(error, TimeoutError) or "Timeout" in name:
        return ModelTimeout(text)
    if status in (401, 403) or any(word in name for word in _NO_ACCESS):
        return ModelAuthError(text)
    if status == 429 or "RateLimit" in name:
        return ModelRateLimited(text, _retry_after(error))
    return ModelUnavailable(text)


def _retry_after(error: Exception) -> float | None:
    original = getattr(error, "original_exception", None) or error
    headers = getattr(getattr(original, "response", None), "headers", None) or {}
    try:
        return float(headers.get("retry-after") or "")
    except (TypeError, ValueError):
        return None
