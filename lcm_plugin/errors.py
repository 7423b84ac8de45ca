"""Every error this package raises on purpose.

LcmError
├── ConfigError           a setting is wrong; names the key, the value and what is allowed
├── InputError            a message, an argument or a file is wrong; names where
├── NotFound              no such conversation, message, summary or file in the caller's scope
├── EngineClosed          the engine was closed before this call
├── StoreError
│   ├── StoreUnavailable  cannot be opened, read or written (path, rights, disk full, server)
│   │   └── ServerAway    the server cannot be reached just now; try later
│   │       ├── ConnectionLost   it went away within a transaction, of which nothing was written; retry
│   │       └── OutcomeUnknown   it went away at a commit and cannot tell: all is written, or nothing; look
│   ├── StoreBusy         another writer held the lock for longer than the busy timeout; retry
│   │   └── StoreDeadlock two writers waited for each other, and this one was undone; retry at once
│   ├── StoreConflict     a compare-and-swap lost its race; nothing was written; retry
│   └── SchemaError       written by a newer version, or not a database of this package
└── ModelError            a model call gave no usable text
    ├── ModelUnavailable  no completer, no network, provider error
    ├── ModelAuthError    the provider refused the credentials
    ├── ModelRateLimited  the provider asked to slow down
    └── ModelTimeout      no answer within the deadline
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "ConnectionLost",
    "EngineClosed",
    "InputError",
    "LcmError",
    "ModelAuthError",
    "ModelError",
    "ModelRateLimited",
    "ModelTimeout",
    "ModelUnavailable",
    "NotFound",
    "OutcomeUnknown",
    "SchemaError",
    "ServerAway",
    "StoreBusy",
    "StoreConflict",
    "StoreDeadlock",
    "StoreError",
    "StoreUnavailable",
    "error_code",
]


class LcmError(Exception):
    """Base of all errors of this package."""


class ConfigError(LcmError):
    """A setting cannot be used."""


class InputError(LcmError):
    """What the caller handed over cannot be used; nothing of it was stored."""


class NotFound(LcmError):
    """The id is unknown within the caller's scope."""


class EngineClosed(LcmError):
    """The engine was closed."""


class StoreError(LcmError):
    """The store could not do what was asked; the transaction was rolled back."""


class StoreUnavailable(StoreError):
    """The database cannot be opened, read or written."""


class ServerAway(StoreUnavailable):
    """The database server cannot be reached just now."""


class ConnectionLost(ServerAway):
    """The connection ended within a transaction, of which nothing is written: it can be run again."""


class OutcomeUnknown(ServerAway):
    """The connection ended while a transaction was committed, and the server could not say how that went.

    Either all of it is written or nothing. Look before running it again.
    """


class StoreBusy(StoreError):
    """Another writer held the lock for too long."""


class StoreDeadlock(StoreBusy):
    """Two writers waited for each other, and this one's transaction was undone: it can be run again at once."""


class StoreConflict(StoreError):
    """What was to be replaced has changed since it was read."""


class SchemaError(StoreError):
    """The database's schema is not one this version can use."""


class ModelError(LcmError):
    """A model call failed or answered nothing usable."""


class ModelUnavailable(ModelError):
    """No model could be reached."""


class ModelAuthError(ModelError):
    """The provider refused the credentials."""


class ModelRateLimited(ModelError):
    """The provider's rate limit; ``retry_after`` is in seconds when it was told."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelTimeout(ModelError):
    """No answer in time."""


def error_code(error: LcmError) -> str:
    """The code by which programs and models know an error."""
    if isinstance(error, NotFound):
        return "NOT_FOUND"
    if code := getattr(error, "code", ""):
        return str(code)
    return "INVALID_ARGUMENTS" if isinstance(error, InputError) else "FAILED"
