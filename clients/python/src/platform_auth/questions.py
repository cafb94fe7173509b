"""
Asks the service: single flight for each credential, and a bound on the questions of each door. Safe with threads: a
question beyond the bound is refused in the caller's thread, and costs the worker nothing.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar, cast

from platform_auth.answers import Misconfigured, Verdict, Yes, judge
from platform_auth.clocks import Instant
from platform_auth.credentials import Credential
from platform_auth.events import Misconfigurations, UnexpectedErrors
from platform_auth.lease import Lease, Ticket
from platform_auth.options import Settings
from platform_auth.principals import DOORS, AnyPrincipal, AnyUserPrincipal, AppPrincipal, Door, NodePrincipal
from platform_auth.runtime import Runtime
from platform_auth.service_client import ServiceClient, TimedAnswer
from platform_auth.service_name import ServiceName
from platform_auth.slots import Place, RecentlyValid, Slots, to_network
from platform_auth.token_check import TokenSetting, TokenVerdict
from platform_auth.token_settings import TokenSettings
from platform_auth.transport import ServiceRequest
from platform_auth.waiting import wait_for

_VERDICT_TIMEOUT_SECONDS = 3.0
# The longest wait for a place. After it the caller has given up, or asks again.
_MAX_WAIT_SECONDS = 1.0
# Above every limit of a question, so that only a dead thread takes longer.
PATIENCE_SECONDS = 4.0

Identity = TypeVar("Identity", AppPrincipal, NodePrincipal, AnyUserPrincipal)


@dataclass(frozen=True, slots=True)
class Question(Generic[Identity]):
    """A question to the service about one credential."""

    credential: Credential
    # The remote address of the caller, if the framework knows it.
    address: str | None
    # The path, which is the cause in a configuration error.
    path: str
    request: ServiceRequest
    # Returns None when the answer is about another credential.
    read: Callable[[Mapping[str, Any]], Identity | None] = field(repr=False)
    # Takes the moment when the question was sent, and for how many seconds from then it may be remembered.
    remember: Callable[[Identity, Instant, float, Ticket], None] = field(repr=False)
    # Called after a refusal.
    forget: Callable[[], None] = field(repr=False)
    # May decide before the service is asked.
    check: Callable[[float], Awaitable[TokenVerdict | TokenSetting]] | None = field(default=None, repr=False)
    # Whether it is about a delegated token at a route that does not accept one: the local check decides, if it can.
    is_delegation_refused: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    principal: AnyPrincipal
    # Counts from the moment the question was sent, for every request that waited for the answer.
    usable_until: Instant


Outcome = Accepted | Verdict
_Name = tuple[Door, str, bytes]


class _Flight(Place):
    """A question on its way to its outcome."""

    __slots__ = ("name", "outcome", "question", "started_at", "task")

    def __init__(self, name: _Name, question: Question[Any], was_valid: bool, started_at: float) -> None:
        super().__init__(to_network(question.address), was_valid)
        self.name = name
        self.question = question
        self.started_at = started_at
        # Never fails, and is never cancelled.
        self.outcome: Future[Outcome] = Future()
        # Referenced here, because the event loop holds its tasks only weakly.
        self.task: asyncio.Task[Outcome] | None = None


class Questions:
    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        client: ServiceClient,
        lease: Lease,
        service_name: ServiceName,
        misconfigurations: Misconfigurations,
        unexpected_errors: UnexpectedErrors,
    ) -> None:
        self._runtime = runtime
        self._client = client
        self._lease = lease
        self._service_name = service_name
        self._misconfigurations = misconfigurations
        self._token_settings = TokenSettings(runtime.clocks, misconfigurations)
        self._unexpected_errors = unexpected_errors
        self._lock = threading.Lock()
        self._slots: dict[Door, Slots[_Flight]] = {door: Slots(settings.max_questions) for door in DOORS}
        self._valid = {door: RecentlyValid(settings.max_entries) for door in DOORS}
        self._in_flight: dict[_Name, _Flight] = {}

    def ask(
        self, question: Question[Identity], *, is_about_change: bool = False
    ) -> "Generator[Future[Outcome], Outcome, Outcome]":
        """
        Yields what the caller has to wait for; returns Verdict.UNKNOWN at once beyond the bound. The caller reads the
        clocks when it decides. With is_about_change, only the answer to a question that is sent from now on counts.
        """
        flight, is_joined = self._join_or_start(question)
        outcome = Verdict.UNKNOWN if flight is None else (yield flight.outcome)
        if is_joined and (is_about_change or outcome is Verdict.NO):
            # A refusal from before this request arrived is outdated too, because the credential may have become valid
            # since.
            flight, _ = self._join_or_start(question)
            outcome = Verdict.UNKNOWN if flight is None else (yield flight.outcome)
        return outcome

    def ask_in_background(self, question: Question[Identity]) -> None:
        """For an answer that is remembered before the one in memory ends."""
        self._join_or_start(question)

    def _join_or_start(self, question: Question[Identity]) -> tuple[_Flight | None, bool]:
        credential = question.credential
        door = credential.door
        # A question of a route that does not accept the token is another one: its answer is no answer to a route that does.
        name = (door, "refused" if question.is_delegation_refused else credential.id, credential.digest)
        now = self._runtime.clocks.monotonic()
        with self._lock:
            joined = self._in_flight.get(name)
            if joined is not None:
                return joined, True
            flight = _Flight(name, question, credential.digest in self._valid[door], now)
            dropped = self._slots[door].enter(flight)
            if dropped is flight:
                return None, False
            self._in_flight[name] = flight
            if dropped is not None:
                del self._in_flight[dropped.name]
            started = list(self._slots[door].take_next())
        if dropped is not None:
            dropped.outcome.set_result(Verdict.UNKNOWN)
        self._start_all(started)
        return flight, False

    def _start_all(self, flights: Sequence[_Flight]) -> None:
        worker = self._runtime.questions.worker
        pending = deque(flights)
        while pending:
            flight = pending.popleft()
            if not worker.call(partial(self._start, flight)):
                # The verifier was closed, so all waiting requests end.
                pending.extend(self._end(flight, Verdict.UNKNOWN))

    def _start(self, flight: _Flight) -> None:
        if self._runtime.clocks.monotonic() > flight.started_at + _MAX_WAIT_SECONDS:
            self._finish(flight, Verdict.UNKNOWN)
            return
        flight.task = asyncio.create_task(self._decide(flight.question, flight.started_at + _VERDICT_TIMEOUT_SECONDS))
        flight.task.add_done_callback(lambda task: self._finish(flight, self._read_outcome(task, flight.question)))

    def _read_outcome(self, task: "asyncio.Task[Outcome]", question: Question[Any]) -> Outcome:
        if task.cancelled():
            # The verifier was closed.
            return Verdict.UNKNOWN
        error = task.exception()
        if error is None:
            return task.result()
        self._unexpected_errors.report(error, question.credential.headers.values())
        return Verdict.UNKNOWN

    def _finish(self, flight: _Flight, outcome: Outcome) -> None:
        self._start_all(self._end(flight, outcome))

    def _end(self, flight: _Flight, outcome: Outcome) -> Sequence[_Flight]:
        """Returns the flights that may start in its place."""
        door, _, digest = flight.name
        with self._lock:
            del self._in_flight[flight.name]
            if isinstance(outcome, Accepted):
                self._valid[door].add(digest)
            elif outcome is Verdict.NO:
                self._valid[door].discard(digest)
            self._slots[door].leave(flight)
            started = list(self._slots[door].take_next())
        flight.outcome.set_result(outcome)
        return started

    async def _decide(self, question: Question[Any], deadline: float) -> Outcome:
        if self._service_name.is_wrong:
            return Verdict.UNKNOWN
        verdict = TokenVerdict.UNKNOWN if question.check is None else await question.check(deadline)
        if verdict is TokenVerdict.BAD:
            return Verdict.NO
        if question.is_delegation_refused and verdict is not TokenVerdict.UNKNOWN:
            return Verdict.DELEGATED if verdict is TokenVerdict.GOOD else Verdict.NO
        if not isinstance(verdict, TokenSetting):
            outcome = await self._send(question, deadline)
            if verdict is TokenVerdict.GOOD and isinstance(outcome, Accepted):
                self._token_settings.confirm()
            return outcome

        async def ask() -> bool | None:
            outcome = await self._send(replace(question, remember=_remember_nothing), deadline)
            return None if outcome is Verdict.UNKNOWN else isinstance(outcome, Accepted)

        return Verdict.NO if await self._token_settings.is_forged(verdict, ask) else Verdict.UNKNOWN

    async def _send(self, question: Question[Any], deadline: float) -> Outcome:
        ticket: Ticket = -1

        def take_ticket() -> None:
            nonlocal ticket
            ticket = self._lease.take_ticket()

        try:
            timed = await self._client.send_with_retry(question.request, deadline, take_ticket)
        except (ConnectionError, TimeoutError):
            return Verdict.UNKNOWN
        match judge(question.credential.door, timed.answer):
            case Yes() as yes:
                return self._accept(question, yes, timed, ticket)
            case Misconfigured(detail):
                self._misconfigurations.report(question.path, detail)
                return Verdict.UNKNOWN
            case Verdict.NO:
                self._misconfigurations.clear(question.path)
                question.forget()
                return await self._refuse(question.credential.door, deadline)
            case verdict:
                return verdict

    async def _refuse(self, door: Door, deadline: float) -> Outcome:
        """With another service's name, the service would refuse every key of an app, and of a node with targets."""
        if door != "user" and not self._service_name.is_compared.done():
            with suppress(TimeoutError):
                await wait_for(self._service_name.is_compared, deadline - self._runtime.clocks.monotonic())
        return Verdict.UNKNOWN if self._service_name.is_wrong else Verdict.NO

    def _accept(self, question: Question[Identity], yes: Yes, timed: TimedAnswer, ticket: Ticket) -> Outcome:
        principal = question.read(yes.body)
        if principal is None:
            self._misconfigurations.report(question.path, "the answer is about something else")
            return Verdict.UNKNOWN
        self._misconfigurations.clear(question.path)
        usable_until = timed.sent.plus(yes.fresh_for)
        if self._service_name.is_wrong or not self._runtime.clocks.now().is_before(usable_until):
            return Verdict.UNKNOWN
        if yes.is_previous_key and isinstance(principal, AppPrincipal):
            principal = replace(principal, is_previous=True)
        if yes.remember_for > 0:
            question.remember(principal, timed.sent, yes.remember_for, ticket)
        return Accepted(cast(AnyPrincipal, principal), usable_until)


def _remember_nothing(*_: object) -> None:
    """The service accepted a token that this verifier would refuse, so the yes is not remembered."""
