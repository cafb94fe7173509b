"""The log events of a verifier. They never hold a credential."""

import logging
import threading

LOGGER = logging.getLogger("platform_auth")


def warn(logger: logging.Logger, event: str, **fields: object) -> None:
    """Logs an event by its name; `extra` has the name and the fields for structured logs."""
    text = " ".join(f"{name}={value!r}" for name, value in fields.items())
    logger.warning("%s %s", event, text, extra={"event": event, **fields})


class Misconfigurations:
    """Logs each cause once, until it is gone."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._causes: set[str] = set()

    def report(self, cause: str, detail: str) -> None:
        """`cause`: a path of the service, or a variable. `detail`: what the service answered, as a status and a code."""
        if cause not in self._causes:
            self._causes.add(cause)
            warn(self._logger, "verifier_misconfigured", cause=cause, detail=detail)

    def clear(self, cause: str) -> None:
        self._causes.discard(cause)


class UnexpectedErrors:
    """Logs unexpected errors, each class once. Safe with threads."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._lock = threading.Lock()
        self._reported: set[str] = set()

    def report(self, error: Exception) -> None:
        """Without the message of the error, which may hold a credential."""
        name = type(error).__name__
        with self._lock:
            is_new = name not in self._reported
            self._reported.add(name)
        if is_new:
            warn(self._logger, "verifier_failed", error=name)
