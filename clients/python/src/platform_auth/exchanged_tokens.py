"""
Tokens with which this service calls others on behalf of users (RFC 8693), kept in memory. They are the one exception to
the rule that only digests are kept, because they are sent on. Invariants: a token is used for the presented token, the
target and the scope for which it was issued, for 80 % of its life and while the lease is held; a change of its session,
its user or a pair of its chain drops it.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlencode

from platform_auth.answers import is_unavailable, parse_object, to_loggable
from platform_auth.clocks import Instant
from platform_auth.credentials import Headers, read_token, read_tracing
from platform_auth.errors import REFUSALS, RefusedError, UnavailableError, VerificationError
from platform_auth.events import Misconfigurations, UnexpectedErrors
from platform_auth.lease import Change, Lease, Ticket
from platform_auth.options import Settings
from platform_auth.poller import Poller
from platform_auth.runtime import Runtime
from platform_auth.service_client import ServiceClient, TimedAnswer
from platform_auth.tokens import parse_token
from platform_auth.transport import ServiceRequest

_PATH = "/internal/token"
_TIMEOUT_SECONDS = 3.0
_USED_SHARE = 0.8
_MAX_RUNNING = 32
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"

# The digest of the presented token, the target and the scope.
_Name = tuple[bytes, str, str]
# A token, or why there is none.
Exchange = str | VerificationError


@dataclass(frozen=True, slots=True)
class _Exchanged:
    token: str = field(repr=False)
    usable_until: Instant
    # Each of them drops it.
    changes: tuple[Change, ...]


class ExchangedTokens:
    """Safe with threads: writes hold the lock of the lease, and questions run on their loop."""

    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        client: ServiceClient,
        lease: Lease,
        poller: Poller,
        misconfigurations: Misconfigurations,
        unexpected_errors: UnexpectedErrors,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._client = client
        self._lease = lease
        self._poller = poller
        self._misconfigurations = misconfigurations
        self._unexpected_errors = unexpected_errors
        # The oldest is first.
        self._entries: OrderedDict[_Name, _Exchanged] = OrderedDict()
        self._by_change: dict[Change, set[_Name]] = {}
        self._lock = threading.Lock()
        self._in_flight: dict[_Name, Future[Exchange]] = {}
        self._running = asyncio.Semaphore(_MAX_RUNNING)
        # Referenced here, because the event loop holds its tasks only weakly.
        self._tasks: set[asyncio.Task[None]] = set()
        lease.add_listener(self)

    def evict(self, change: Change) -> None:
        for name in tuple(self._by_change.get(change, ())):
            self._delete(name)

    def evict_all(self) -> None:
        self._entries.clear()
        self._by_change.clear()

    def get(self, headers: Headers, target: str, scope: str | None) -> "Generator[Future[Exchange], Exchange, str]":
        """Raises RefusedError when the presented token is not valid any more, and UnavailableError."""
        presented = read_token(headers)
        if parse_token(presented.token) is None:
            raise RefusedError(REFUSALS["user"])
        name = (presented.digest, target, scope or "")
        found = self._find(name)
        if found is not None:
            return found
        outcome = yield self._join_or_start(name, self._create_request(headers, presented.token, target, scope))
        if isinstance(outcome, str):
            return outcome
        # Each caller gets an error of its own, because it carries the id of a request.
        raise RefusedError(REFUSALS["user"]) if isinstance(outcome, RefusedError) else UnavailableError()

    def _find(self, name: _Name) -> str | None:
        with self._lease.lock:
            held_until, entry = self._lease.held_until, self._entries.get(name)
        now = self._runtime.clocks.now()
        is_usable = entry is not None and now.is_before(held_until) and now.is_before(entry.usable_until)
        return entry.token if entry is not None and is_usable else None

    def _create_request(self, headers: Headers, token: str, target: str, scope: str | None) -> ServiceRequest:
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": token,
            "subject_token_type": _ACCESS_TOKEN,
            "audience": target,
            **({"scope": scope} if scope else {}),
        }
        sent = {**read_tracing(headers), "Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode(form).encode()
        return ServiceRequest("POST", self._settings.url + _PATH, sent, body, presents_own_key=True)

    def _join_or_start(self, name: _Name, request: ServiceRequest) -> "Future[Exchange]":
        with self._lock:
            joined = self._in_flight.get(name)
            if joined is not None:
                return joined
            if len(self._in_flight) >= self._settings.max_questions:
                raise UnavailableError
            flight: Future[Exchange] = Future()
            self._in_flight[name] = flight

        def start() -> None:
            task = asyncio.create_task(self._run(name, request, flight))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        if not self._runtime.questions.worker.call(start):
            # The verifier was closed.
            self._end(name, flight, UnavailableError())
        return flight

    async def _run(self, name: _Name, request: ServiceRequest, flight: "Future[Exchange]") -> None:
        outcome: Exchange = UnavailableError()
        try:
            async with self._running:
                outcome = await self._ask(name, request)
        except Exception as error:
            self._unexpected_errors.report(error)
        finally:
            self._end(name, flight, outcome)

    def _end(self, name: _Name, flight: "Future[Exchange]", outcome: Exchange) -> None:
        with self._lock:
            del self._in_flight[name]
        flight.set_result(outcome)

    async def _ask(self, name: _Name, request: ServiceRequest) -> Exchange:
        ticket: Ticket = -1

        def take_ticket() -> None:
            nonlocal ticket
            ticket = self._lease.take_ticket()

        deadline = self._runtime.clocks.monotonic() + _TIMEOUT_SECONDS
        try:
            timed = await self._client.send_with_retry(request, deadline, take_ticket)
        except (ConnectionError, TimeoutError):
            return UnavailableError()
        return self._accept(name, timed, ticket)

    def _accept(self, name: _Name, timed: TimedAnswer, ticket: Ticket) -> Exchange:
        status, body = timed.answer.status, parse_object(timed.answer.body) or {}
        if status == 400 and body.get("code") == "invalid_subject_token":
            return RefusedError(REFUSALS["user"])
        token, seconds = body.get("access_token"), body.get("expires_in")
        changes = _list_changes(token)
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if status != 200 or changes is None or not is_number:
            # Other answers are about this service or its entry in the map, such as `invalid_target`.
            if not is_unavailable(status):
                self._misconfigurations.report(_PATH, f"{status}: {to_loggable(body.get('code') or body.get('error'))}")
            return UnavailableError()
        self._misconfigurations.clear(_PATH)
        usable_until = timed.sent.plus(max(0.0, cast("float", seconds)) * _USED_SHARE)
        issued = cast("str", token)
        with self._lease.lock:
            if not self._lease.is_current(ticket):
                return issued
            self._put(name, _Exchanged(issued, usable_until, changes))
        # Only polls can drop it.
        self._poller.start()
        return issued

    def _put(self, name: _Name, entry: _Exchanged) -> None:
        self._delete(name)
        if len(self._entries) >= self._settings.max_entries:
            self._delete(next(iter(self._entries)))
        self._entries[name] = entry
        for change in entry.changes:
            self._by_change.setdefault(change, set()).add(name)

    def _delete(self, name: _Name) -> None:
        entry = self._entries.pop(name, None)
        for change in entry.changes if entry else ():
            known = self._by_change[change]
            known.discard(name)
            if not known:
                del self._by_change[change]


def _list_changes(token: object) -> tuple[Change, ...] | None:
    """Returns None when this is not a delegated token."""
    parsed = parse_token(token) if isinstance(token, str) else None
    if parsed is None or parsed.chain is None:
        return None
    pairs = (Change("app", link.app_id) for link in parsed.chain)
    return Change("session", parsed.session_id), Change("user", parsed.user_id), *pairs
