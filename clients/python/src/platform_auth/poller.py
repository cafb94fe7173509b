"""Keeps the lease by polling for changes, one poll at a time, on a loop that does nothing else."""

import asyncio
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from platform_auth.answers import Misconfigured, is_own_key_refused, read_poll_answer
from platform_auth.clock_check import ClockCheck
from platform_auth.clocks import NEVER, Instant
from platform_auth.events import Misconfigurations
from platform_auth.lease import Lease, Renewal
from platform_auth.options import Settings
from platform_auth.runtime import Runtime
from platform_auth.service_client import ServiceClient
from platform_auth.service_name import ServiceName
from platform_auth.transport import ServiceRequest
from platform_auth.uses import Use, Uses

_POLLS_PER_LEASE = 3
# Used until the first answer tells the lease.
_DEFAULT_LEASE_SECONDS = 0.5
_MAX_FAILURE_PAUSE_SECONDS = 1.0
_MAX_DOUBLINGS = 10
# Spreads the polls of verifiers that start together.
_JITTER = 0.2
_PATH = "/internal/changes"
_OWN_NAME = "x-platform-caller"
# Limits log lines about lapsed leases, because an overloaded machine loses several a second.
_LAPSE_PAUSE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Checks:
    """What the answer to a poll tells about the configuration."""

    clock: ClockCheck
    service_name: ServiceName
    misconfigurations: Misconfigurations


class _UnreadablePollError(ConnectionError):
    """The service could not read the poll, as an older one that does not know a field."""


class Poller:
    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        client: ServiceClient,
        lease: Lease,
        uses: Uses,
        checks: Checks,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._client = client
        self._lease = lease
        self._uses = uses
        self._checks = checks
        self._lease_seconds = _DEFAULT_LEASE_SECONDS
        self._failures = 0
        self._lapses = 0
        self._lapse_logged_at = -inf
        self._lock = threading.Lock()
        self._is_polling = False
        self._polling: asyncio.Task[None] | None = None

    def start(self) -> None:
        """
        Starts polling, from any thread; also again, after the service had no lease to hand on
        (REVOCATION_LEASE_MS=0).
        """
        if self._is_polling:
            return
        with self._lock:
            if not self._is_polling:
                self._is_polling = self._runtime.polls.worker.call(self._create_task)

    def _create_task(self) -> None:
        self._polling = asyncio.create_task(self._poll_while_leased())

    async def _poll_while_leased(self) -> None:
        while True:
            sent_at = self._runtime.clocks.monotonic()
            await self._poll(sent_at)
            self._checks.service_name.finish()
            if self._lease_seconds <= 0:
                self._is_polling = False
                return
            await asyncio.sleep(self._compute_delay(sent_at))

    async def _poll(self, sent_at: float) -> None:
        uses = self._uses.take()
        try:
            await self._renew(uses, sent_at)
        # Any error is survived, because the next poll may succeed, and without polls every request becomes a
        # question.
        except Exception as error:
            # Uses that the service cannot read would make every later poll fail too.
            if not isinstance(error, _UnreadablePollError):
                self._uses.put_back(uses)
            if self._failures == 0:
                self._settings.log.warn("verifier_polls_not_answered", url=self._settings.url, reason=to_reason(error))
            self._failures += 1
            return
        if self._failures > 0:
            self._settings.log.warn("verifier_polls_answered_again", failures=self._failures)
        self._failures = 0
        self._checks.misconfigurations.clear(_PATH)

    async def _renew(self, uses: Sequence[Use], now: float) -> None:
        settings = self._settings
        cursor = self._lease.cursor
        body: dict[str, object] = {} if cursor is None else {"cursor": cursor}
        if uses:
            body["used"] = [use.to_body(now) for use in uses]
        headers = {"Content-Type": "application/json"}
        content = json.dumps(body).encode()
        request = ServiceRequest("POST", settings.url + _PATH, headers, content, presents_own_key=True)
        timed = await self._client.send(request)
        self._checks.clock.compare(timed.answer.headers.get("date"))
        if is_own_key_refused(timed.answer):
            self._lease.end_grace()
        read = read_poll_answer(timed.answer)
        if isinstance(read, Misconfigured):
            self._checks.misconfigurations.report(_PATH, read.detail)
        if not isinstance(read, Renewal):
            error = _UnreadablePollError if timed.answer.status == 400 else ConnectionError
            raise error(f"status {timed.answer.status}")
        self._checks.service_name.compare(timed.answer.headers.get(_OWN_NAME))
        if self._checks.service_name.is_wrong:
            # The key belongs to another service, and so do the reported changes.
            raise ConnectionError("the key of another service")
        held_until = self._lease.held_until
        self._lease.renew(read, timed.sent)
        self._lease_seconds = read.lease
        self._report_lapse(held_until, timed.sent)

    def _report_lapse(self, held_until: Instant, sent: Instant) -> None:
        """
        Reports polls that are answered too late: the process or the service is too slow. An outage has log lines of
        its own.
        """
        now = self._runtime.clocks.now()
        is_lost = self._lease_seconds > 0 and not now.is_before(self._lease.held_until)
        if self._failures > 0 or not (is_lost or (held_until != NEVER and not now.is_before(held_until))):
            return
        self._lapses += 1
        if now.monotonic >= self._lapse_logged_at + _LAPSE_PAUSE_SECONDS:
            waited = round(now.monotonic - sent.monotonic, 3)
            self._settings.log.warn("verifier_lease_lapsed", lapses=self._lapses, answer_after_seconds=waited)
            self._lapse_logged_at = now.monotonic
            self._lapses = 0

    def _compute_delay(self, sent_at: float) -> float:
        interval = self._lease_seconds / _POLLS_PER_LEASE
        jitter = 1 - _JITTER * self._runtime.random()
        if self._failures > 0:
            doublings = min(self._failures - 1, _MAX_DOUBLINGS)
            return float(min(_MAX_FAILURE_PAUSE_SECONDS, interval * 2**doublings)) * jitter
        return max(0.0, sent_at + interval * jitter - self._runtime.clocks.monotonic())


def to_reason(error: Exception) -> str:
    """Leaves out the message of an unexpected error, which may contain a credential."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) if isinstance(error, ConnectionError) else type(error).__name__
