"""The log events of a verifier. They never hold a credential."""

import logging

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

    def report(self, path: str, detail: str) -> None:
        """`detail`: what the service answered, as a status and a code."""
        if path not in self._causes:
            self._causes.add(path)
            warn(self._logger, "verifier_misconfigured", path=path, detail=detail)

    def clear(self, path: str) -> None:
        self._causes.discard(path)
