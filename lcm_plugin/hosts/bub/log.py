"""The package's log, in the host's own."""

from __future__ import annotations

import logging

_EVENTS = logging.getLogger("lcm_plugin")


def hand_on_to_host() -> None:
    """Sends the package's records to loguru, which the host logs with, unless somebody takes them already.

    What goes wrong is told once, by the plugin's own warning, and by ``,lcm``; its records are for those
    who debug. Only faults nobody foresaw are told as such.
    """
    if not _EVENTS.hasHandlers() and _to_loguru not in _EVENTS.filters:
        _EVENTS.addFilter(_to_loguru)


def _to_loguru(record: logging.LogRecord) -> bool:
    from loguru import logger

    level = "DEBUG" if record.levelno < logging.ERROR else "ERROR"
    logger.opt(exception=record.exc_info).log(level, "lcm: {}", record.getMessage())
    return False
