"""When remembered keys were last used. The service does not see these uses, so polls report them."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

# The most uses that the service accepts in one poll.
_MAX_USES_PER_POLL = 500
_MAX_AGO_MS = 3_600_000
# Bounds the memory while the service is unreachable.
_MAX_PENDING = 100_000

UsedKind = Literal["app", "node"]
_Name = tuple[UsedKind, str, str | None, bool]


@dataclass(slots=True, eq=False)
class Use:
    """The last use of one remembered key."""

    kind: UsedKind
    id: str
    # Adds the use here when it is not pending.
    uses: "Uses" = field(repr=False)
    # By the monotonic clock.
    at: float = 0.0
    # Whether a poll will report it. Until then a later use only changes `at`, which takes no lock.
    is_pending: bool = False
    # The scope that the call needed, for an app whose key has scopes.
    scope: str | None = None
    # Whether it was the key before the last rotation.
    previous: bool = False

    @property
    def name(self) -> _Name:
        return (self.kind, self.id, self.scope, self.previous)

    def to_body(self, now: float) -> dict[str, object]:
        ago_ms = int((now - self.at) * 1_000)
        body: dict[str, object] = {"kind": self.kind, "id": self.id, "ago_ms": min(_MAX_AGO_MS, max(0, ago_ms))}
        if self.scope is not None:
            body["scope"] = self.scope
        return {**body, "previous": True} if self.previous else body


class Uses:
    """Uses that the next polls report."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[_Name, Use] = {}

    def add(self, use: Use) -> None:
        """
        Replaces a pending use of the same key, and keeps the later moment. The replaced one is added again at its
        next use.
        """
        name = use.name
        with self._lock:
            pending = self._pending
            replaced = pending.get(name)
            if replaced is None and len(pending) >= _MAX_PENDING:
                return
            if replaced is not None and replaced is not use:
                # Set before its moment is read, so that a thread that changes the moment later finds it not pending,
                # and adds it.
                replaced.is_pending = False
                if replaced.at > use.at:
                    use.at = replaced.at
            pending[name] = use
            use.is_pending = True

    def take(self) -> list[Use]:
        """Takes out the uses that fit into one poll."""
        with self._lock:
            names = [name for name, _ in zip(self._pending, range(_MAX_USES_PER_POLL), strict=False)]
            uses = [self._pending.pop(name) for name in names]
            for use in uses:
                use.is_pending = False
            return uses

    def put_back(self, uses: Sequence[Use]) -> None:
        """Called after a poll without an answer. A later use of the same key takes precedence."""
        with self._lock:
            for use in uses:
                self._pending.setdefault(use.name, use).is_pending = True
