"""Sends requests to the authentication service, with bounded waits."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from platform_auth.answers import is_own_key_refused
from platform_auth.clocks import Instant
from platform_auth.own_key import OwnKey
from platform_auth.runtime import Runtime
from platform_auth.transport import ServiceAnswer, ServiceRequest, Transport

_ATTEMPT_TIMEOUT_SECONDS = 1.0
_MIN_RETRY_PAUSE_SECONDS = 0.02
_RETRY_PAUSE_JITTER_SECONDS = 0.08


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """An answer, and the moment when its attempt was sent, from which its lease counts."""

    answer: ServiceAnswer
    sent: Instant


class ServiceClient:
    def __init__(self, runtime: Runtime, transport: Transport, own_key: OwnKey) -> None:
        self._runtime = runtime
        self._transport = transport
        self._own_key = own_key

    async def send(self, request: ServiceRequest, deadline: float = inf) -> TimedAnswer:
        """
        Presents the own key where the request asks for it; after a refusal its file is read again, because the key
        may have been rotated. Raises ConnectionError or TimeoutError. The deadline is by the monotonic clock.
        """
        if not request.presents_own_key:
            return await self._send_once(request, deadline)
        version = self._own_key.version
        timed = await self._send_once(self._add_own_key(request), deadline)
        if is_own_key_refused(timed.answer) and self._own_key.replace_refused(version):
            return await self._send_once(self._add_own_key(request), deadline)
        return timed

    def _add_own_key(self, request: ServiceRequest) -> ServiceRequest:
        return replace(request, headers={**request.headers, **self._own_key.to_headers()})

    async def _send_once(self, request: ServiceRequest, deadline: float) -> TimedAnswer:
        sent = self._runtime.clocks.now()
        seconds = min(request.timeout_seconds or _ATTEMPT_TIMEOUT_SECONDS, deadline - sent.monotonic)
        if seconds <= 0:
            raise TimeoutError("No answer in time")
        async with asyncio.timeout(seconds):
            return TimedAnswer(await self._transport.send(request), sent)

    async def send_with_retry(
        self, request: ServiceRequest, deadline: float, before_attempt: Callable[[], None] = lambda: None
    ) -> TimedAnswer:
        """Repeats the request once, after a refused or broken connection or a 503, but never after a timeout."""
        before_attempt()
        try:
            timed = await self.send(request, deadline)
            if timed.answer.status != 503:
                return timed
        except ConnectionError:
            pass
        await asyncio.sleep(_MIN_RETRY_PAUSE_SECONDS + self._runtime.random() * _RETRY_PAUSE_JITTER_SECONDS)
        before_attempt()
        return await self.send(request, deadline)
