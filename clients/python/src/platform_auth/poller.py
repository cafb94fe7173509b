"""Keeps the lease: polls for changes, one poll at a time. Runs on the loop of the worker."""

import asyncio
import json
from collections.abc import Sequence

from platform_auth.answers import Misconfigured, read_poll_answer
from platform_auth.clock_check import ClockCheck
from platform_auth.events import Misconfigurations, warn
from platform_auth.lease import Lease, Renewal
from platform_auth.options import Settings
from platform_auth.runtime import Runtime
from platform_auth.service_client import ServiceClient
from platform_auth.transport import ServiceRequest
from platform_auth.uses import Use, Uses

_POLLS_PER_LEASE = 3
# Until the first answer.
_DEFAULT_LEASE_SECONDS = 0.5
_MAX_FAILURE_PAUSE_SECONDS = 1.0
_MAX_DOUBLINGS = 10
# Verifiers that start together spread their polls.
_JITTER = 0.2
_PATH = "/internal/changes"


class Poller:
    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        client: ServiceClient,
        lease: Lease,
        uses: Uses,
        clock_check: ClockCheck,
        misconfigurations: Misconfigurations,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._client = client
        self._lease = lease
        self._uses = uses
        self._clock_check = clock_check
        self._misconfigurations = misconfigurations
        self._lease_seconds = _DEFAULT_LEASE_SECONDS
        self._failures = 0
        self._polling: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Also starts again after the service had no lease to hand on (REVOCATION_LEASE_MS=0)."""
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll_while_leased())

    async def _poll_while_leased(self) -> None:
        while True:
            sent_at = self._runtime.clocks.monotonic()
            await self._poll(sent_at)
            if self._lease_seconds <= 0:
                return
            await asyncio.sleep(self._compute_delay(sent_at))

    async def _poll(self, sent_at: float) -> None:
        uses = self._uses.take()
        try:
            await self._renew(uses, sent_at)
        # Whatever went wrong, the next poll may succeed: without polls every request becomes a question.
        except Exception as error:
            self._uses.put_back(uses)
            if self._failures == 0:
                warn(self._settings.logger, "verifier_polls_not_answered", url=self._settings.url, reason=_to_reason(error))
            self._failures += 1
            return
        if self._failures > 0:
            warn(self._settings.logger, "verifier_polls_answered_again", failures=self._failures)
        self._failures = 0
        self._misconfigurations.clear(_PATH)

    async def _renew(self, uses: Sequence[Use], now: float) -> None:
        settings = self._settings
        cursor = self._lease.cursor
        body: dict[str, object] = {} if cursor is None else {"cursor": cursor}
        if uses:
            body["used"] = [use.to_body(now) for use in uses]
        headers = {
            "Content-Type": "application/json",
            "X-Platform-App-Id": settings.app_id,
            "X-Platform-App-Key": settings.app_key,
        }
        content = json.dumps(body).encode()
        timed = await self._client.send(ServiceRequest("POST", settings.url + _PATH, headers, content, is_poll=True))
        self._clock_check.compare(timed.answer.headers.get("date"))
        read = read_poll_answer(timed.answer)
        if isinstance(read, Misconfigured):
            self._misconfigurations.report(_PATH, read.detail)
        if not isinstance(read, Renewal):
            raise ConnectionError(f"status {timed.answer.status}")
        self._lease.renew(read, timed.sent)
        self._lease_seconds = read.lease

    def _compute_delay(self, sent_at: float) -> float:
        interval = self._lease_seconds / _POLLS_PER_LEASE
        jitter = 1 - _JITTER * self._runtime.random()
        if self._failures > 0:
            doublings = min(self._failures - 1, _MAX_DOUBLINGS)
            return float(min(_MAX_FAILURE_PAUSE_SECONDS, interval * 2**doublings)) * jitter
        return max(0.0, sent_at + interval * jitter - self._runtime.clocks.monotonic())


def _to_reason(error: Exception) -> str:
    """Without the message of an unexpected error, which may hold a credential."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) if isinstance(error, ConnectionError) else type(error).__name__
