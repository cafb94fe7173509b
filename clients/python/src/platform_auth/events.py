"""The log events of a verifier. They never contain a credential."""

import logging
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePath

LOGGER = logging.getLogger("platform_auth")
_MAX_MESSAGE_LENGTH = 200
# Shorter parts of a credential occur in ordinary words.
_MIN_SECRET_LENGTH = 6
_REDACTED = "[redacted]"
# Matches what looks like a key of the platform, a token, or another long secret.
_LOOKS_SECRET = re.compile(r"\S*(?:pa_[a-z]+_|eyJ[A-Za-z0-9_-]{5}|[A-Za-z0-9_-]{32})\S*")


@dataclass(frozen=True)
class EventLog:
    """The log of one service's verifier."""

    logger: logging.Logger
    service: str
    # Reads the secrets of the configuration; the own key may change.
    read_secrets: Callable[[], Iterable[str]] = field(default=tuple, repr=False)

    def warn(self, event: str, **fields: object) -> None:
        """Logs an event by its name; `extra` has the name, the service and the fields for structured logs."""
        fields = {"service": self.service, **fields}
        # Includes the time, because without a handler Python prints the message alone.
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        text = " ".join(f"{name}={value!r}" for name, value in fields.items())
        try:
            self.logger.warning("%s time=%s %s", event, time, text, extra={"event": event, **fields})
        # A failure of the logger must not end the polls.
        except Exception as error:
            print(f"The logger of the verifier failed: {error!r}", file=sys.stderr)

    def describe_error(self, error: BaseException, secrets: Iterable[str]) -> dict[str, str]:
        """Returns the class of an error, its message without possible secrets, and where it was raised."""
        message = " ".join(str(error).split())
        for secret in (*self.read_secrets(), *secrets):
            for part in (secret, *re.split(r"[:. ]", secret)):
                if len(part) >= _MIN_SECRET_LENGTH:
                    message = message.replace(part, _REDACTED)
        message = _LOOKS_SECRET.sub(_REDACTED, message)[:_MAX_MESSAGE_LENGTH]
        return {"error": type(error).__name__, "detail": message, "where": _find_place(error)}


def _find_place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    return " ".join(f"{'/'.join(PurePath(frame.filename).parts[-2:])}:{frame.lineno} {frame.name}" for frame in frames)


class Misconfigurations:
    """Logs each cause once, until it is gone. Safe with threads."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._causes: set[str] = set()

    def report(self, cause: str, detail: str) -> None:
        """`cause`: a path of the service, or a variable. `detail`: what the service answered, as a status and a code."""
        with self._lock:
            is_new = cause not in self._causes
            self._causes.add(cause)
        if is_new:
            self._log.warn("verifier_misconfigured", cause=cause, detail=detail)

    def clear(self, cause: str) -> None:
        with self._lock:
            self._causes.discard(cause)


class UnexpectedErrors:
    """Logs unexpected errors, each class and place once. Safe with threads."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._reported: set[tuple[str, str]] = set()

    def report(self, error: BaseException, secrets: Iterable[str] = ()) -> None:
        """`secrets`: of the verified credential, which the error's message may contain."""
        described = self._log.describe_error(error, secrets)
        name = (described["error"], described["where"])
        with self._lock:
            is_new = name not in self._reported
            self._reported.add(name)
        if is_new:
            self._log.warn("verifier_failed", **described)
