"""
Tells long-lived connections that their credential has ended. Each change is only a reason to ask, because a new
e-mail address is a change too.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from platform_auth.answers import Verdict
from platform_auth.lease import Change, Lease
from platform_auth.runtime import Runtime

# Checks in flight: bounded, because a reset makes every connection due.
_MAX_CHECKS = 16
# The pause before the next try, after a question without a verdict.
_MIN_PAUSE_SECONDS = 1.0
_PAUSE_JITTER_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class Watch:
    """One connection; close it when the connection ends before its credential."""

    # The changes that may have ended the credential.
    changes: frozenset[Change]
    # Keeps the credential in memory as long as the connection does, whose headers have it too.
    ask: Callable[[], Awaitable[bool | None]] = field(repr=False)
    on_ended: Callable[[], object]
    endings: "Endings"
    is_checking: bool = False
    # Whether a change came during the check, whose question may have been sent before it.
    is_stale: bool = False

    def close(self) -> None:
        self.endings.remove(self)


class Endings:
    """Writes hold the lock of the lease; the checks run on the loop of the questions."""

    def __init__(self, runtime: Runtime, lease: Lease, report: Callable[[Exception], None]) -> None:
        self._runtime = runtime
        self._lock = lease.lock
        self._report = report
        self._watches: dict[Change, set[Watch]] = {}
        self._checks = asyncio.Semaphore(_MAX_CHECKS)
        self._tasks: set[asyncio.Task[None]] = set()
        lease.add_listener(self)

    def add(self, watch: Watch) -> None:
        with self._lock:
            for change in watch.changes:
                self._watches.setdefault(change, set()).add(watch)
        # The credential may have ended since the connection was accepted.
        self._check_soon(watch)

    def remove(self, watch: Watch) -> None:
        with self._lock:
            for change in watch.changes:
                watches = self._watches.get(change, set())
                watches.discard(watch)
                if not watches:
                    self._watches.pop(change, None)

    def evict(self, change: Change) -> None:
        for watch in self._watches.get(change, ()):
            self._check_soon(watch)

    def evict_all(self) -> None:
        for watch in {watch for watches in self._watches.values() for watch in watches}:
            self._check_soon(watch)

    def _check_soon(self, watch: Watch) -> None:
        self._runtime.questions.worker.call(lambda: self._start(watch))

    def _start(self, watch: Watch) -> None:
        watch.is_stale = True
        if not watch.is_checking:
            watch.is_checking = True
            task = asyncio.create_task(self._check(watch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _check(self, watch: Watch) -> None:
        try:
            while watch.is_stale and self._is_watched(watch):
                watch.is_stale = False
                async with self._checks:
                    is_live = await watch.ask()
                if is_live is False:
                    self.remove(watch)
                    watch.on_ended()
                elif is_live is None:
                    watch.is_stale = True
                    await asyncio.sleep(_MIN_PAUSE_SECONDS + _PAUSE_JITTER_SECONDS * self._runtime.random())
        except Exception as error:
            self._report(error)
        finally:
            watch.is_checking = False

    def _is_watched(self, watch: Watch) -> bool:
        with self._lock:
            return any(watch in self._watches.get(change, ()) for change in watch.changes)


def to_liveness(outcome: object) -> bool | None:
    """Returns None when the outcome is not a verdict."""
    if outcome is Verdict.NO or outcome is Verdict.DELEGATED:
        return False
    return None if outcome is Verdict.UNKNOWN else True
