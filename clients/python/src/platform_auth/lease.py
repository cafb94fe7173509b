"""
The right to answer from memory. Terms: a lease is granted by the answer to a poll and counts from the moment the poll
was sent; a ticket shows that no change was reported since it was taken. Invariants: writes share one lock, so that
eviction, cursor and lease change in one step. A recall takes no lock: it reads the lease, then the entry, then the
clocks, and a renewal evicts before it renews, so an older entry is never used under a newer lease.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from platform_auth.clocks import NEVER, Clocks, Instant

ChangedKind = Literal["node", "app", "session", "user", "signing_key"]
Ticket = int


class Change(NamedTuple):
    kind: ChangedKind
    id: str


@dataclass(frozen=True, slots=True)
class Renewal:
    """The answer to a poll."""

    cursor: str
    reset: bool
    lease: float
    fresh_for: float
    changes: Sequence[Change]


class EvictionListener(Protocol):
    """Called with the lock held."""

    def evict(self, change: Change) -> None: ...

    def evict_all(self) -> None: ...


class Lease:
    def __init__(self, clocks: Clocks, outage_grace: float) -> None:
        self.lock = threading.Lock()
        self.clocks = clocks
        # Replaced as a whole. A recall reads it before the entry that it uses.
        self.held_until = NEVER
        self._held_until_without_grace = NEVER
        self._outage_grace = outage_grace
        self._cursor: str | None = None
        self._version: Ticket = 0
        self._listeners: list[EvictionListener] = []

    def add_listener(self, listener: EvictionListener) -> None:
        self._listeners.append(listener)

    @property
    def cursor(self) -> str | None:
        """The cursor of the last answer."""
        return self._cursor

    def take_ticket(self) -> Ticket:
        """Call it before a question is sent."""
        with self.lock:
            return self._version

    def is_current(self, ticket: Ticket) -> bool:
        """Whether no change was reported since. Call it with the lock held, in one step with remembering (TOCTOU)."""
        return ticket == self._version

    def apply(self, change: Change) -> None:
        """Applies one change, without a renewal."""
        with self.lock:
            self._version += 1
            for listener in self._listeners:
                listener.evict(change)

    def renew(self, renewal: Renewal, sent: Instant) -> None:
        with self.lock:
            if renewal.reset or renewal.changes:
                self._version += 1
            for listener in self._listeners:
                if renewal.reset:
                    listener.evict_all()
                else:
                    for change in renewal.changes:
                        listener.evict(change)
            self._cursor = renewal.cursor
            # With REVOCATION_LEASE_MS=0 nothing is held, whatever the grace.
            until = self._held_until_without_grace = sent.plus(renewal.fresh_for) if renewal.lease > 0 else NEVER
            self.held_until = until.plus(self._outage_grace)

    def end_grace(self) -> None:
        """Call it when a poll is refused, which is not an outage. The next renewal brings the grace back."""
        with self.lock:
            self.held_until = self._held_until_without_grace
