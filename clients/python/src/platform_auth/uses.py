"""When remembered keys were last used: the service cannot see it, and is told with the polls."""

import threading
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

# The service takes at most that many in one poll.
_MAX_USES_PER_POLL = 500
_MAX_AGO_MS = 3_600_000
# Bounds the memory while the service is away.
_MAX_PENDING = 100_000

UsedKind = Literal["app", "node"]


class Use(NamedTuple):
    kind: UsedKind
    id: str
    at: float

    def to_body(self, now: float) -> dict[str, object]:
        ago_ms = int((now - self.at) * 1_000)
        return {"kind": self.kind, "id": self.id, "ago_ms": min(_MAX_AGO_MS, max(0, ago_ms))}


class Uses:
    """The last use of each credential, until a poll has reported it."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._pending: dict[tuple[UsedKind, str], float] = {}

    def add(self, kind: UsedKind, key_id: str) -> None:
        name = (kind, key_id)
        with self._lock:
            pending = self._pending
            if len(pending) < _MAX_PENDING or name in pending:
                pending[name] = self._monotonic()

    def take(self) -> list[Use]:
        """Takes out what fits into one poll."""
        with self._lock:
            names = [name for name, _ in zip(self._pending, range(_MAX_USES_PER_POLL), strict=False)]
            return [Use(*name, self._pending.pop(name)) for name in names]

    def put_back(self, uses: Sequence[Use]) -> None:
        """After a poll without an answer. A later use of the same credential is kept."""
        with self._lock:
            for kind, key_id, at in uses:
                self._pending.setdefault((kind, key_id), at)
