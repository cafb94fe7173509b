"""Asks the service: single flight for each credential, and a bound on the questions of each door."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from platform_auth.answers import Misconfigured, Verdict, Yes, judge
from platform_auth.clocks import Instant
from platform_auth.credentials import Credential
from platform_auth.events import Misconfigurations
from platform_auth.lease import Lease, Ticket
from platform_auth.principals import AppPrincipal, NodePrincipal, Principal, UserPrincipal
from platform_auth.runtime import Runtime
from platform_auth.service_client import ServiceClient, TimedAnswer
from platform_auth.token_check import TokenVerdict
from platform_auth.transport import ServiceRequest

_VERDICT_TIMEOUT_SECONDS = 3.0

Identity = TypeVar("Identity", AppPrincipal, NodePrincipal, UserPrincipal)


@dataclass(frozen=True)
class Question(Generic[Identity]):
    """A question to the service about one credential."""

    credential: Credential
    # Names the cause of a configuration error.
    path: str
    request: ServiceRequest
    # Returns None when the answer is about something else.
    read: Callable[[Mapping[str, Any]], Identity | None] = field(repr=False)
    remember: Callable[[Identity, Instant, Ticket], None] = field(repr=False)
    # Decides before the service is asked, if it can.
    check: Callable[[float], Awaitable[TokenVerdict]] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Accepted:
    principal: Principal
    # For everything that waited for the answer: it counts from the moment the question was sent.
    usable_until: Instant


Outcome = Accepted | Verdict
# With its loop, of which the verifier of tests has several: it runs on those of its callers.
_Flight = tuple[asyncio.AbstractEventLoop, str, bytes]


class Questions:
    """Runs on the loop of the worker."""

    def __init__(
        self,
        max_questions: int,
        runtime: Runtime,
        client: ServiceClient,
        lease: Lease,
        misconfigurations: Misconfigurations,
        on_remember: Callable[[], None],
    ) -> None:
        """`on_remember`: called when the service lets a yes be remembered."""
        self._max_questions = max_questions
        self._runtime = runtime
        self._client = client
        self._lease = lease
        self._misconfigurations = misconfigurations
        self._on_remember = on_remember
        self._in_flight: dict[str, dict[_Flight, asyncio.Task[Outcome]]] = {"app": {}, "node": {}, "user": {}}

    async def ask(self, question: Question[Identity]) -> Outcome:
        """Answers Verdict.UNKNOWN at once beyond the bound. The caller looks at the clocks when it decides."""
        outcome, is_joined = await self._join_or_start(question)
        if is_joined and outcome is Verdict.NO:
            # The question was sent before this request arrived: the credential may have become valid in between.
            outcome, _ = await self._join_or_start(question)
        return outcome

    async def _join_or_start(self, question: Question[Identity]) -> tuple[Outcome, bool]:
        credential = question.credential
        in_flight = self._in_flight[credential.door]
        fingerprint = (asyncio.get_running_loop(), credential.id, credential.digest)
        flight = in_flight.get(fingerprint)
        is_joined = flight is not None
        if flight is None:
            if len(in_flight) >= self._max_questions:
                return Verdict.UNKNOWN, False
            flight = in_flight[fingerprint] = asyncio.create_task(self._decide(question))
            flight.add_done_callback(lambda _: in_flight.pop(fingerprint))
        # A caller that gives up does not take the answer from the others.
        return await asyncio.shield(flight), is_joined

    async def _decide(self, question: Question[Identity]) -> Outcome:
        deadline = self._runtime.clocks.monotonic() + _VERDICT_TIMEOUT_SECONDS
        if question.check is not None and await question.check(deadline) is TokenVerdict.BAD:
            return Verdict.NO
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
            case verdict:
                if verdict is Verdict.NO:
                    self._misconfigurations.clear(question.path)
                return verdict

    def _accept(self, question: Question[Identity], yes: Yes, timed: TimedAnswer, ticket: Ticket) -> Outcome:
        principal = question.read(yes.body)
        if principal is None:
            self._misconfigurations.report(question.path, "the answer is about something else")
            return Verdict.UNKNOWN
        self._misconfigurations.clear(question.path)
        usable_until = timed.sent.plus(yes.fresh_for)
        if not self._runtime.clocks.now().is_before(usable_until):
            return Verdict.UNKNOWN
        if yes.remember_for > 0:
            question.remember(principal, timed.sent.plus(yes.remember_for), ticket)
            self._on_remember()
        return Accepted(cast(Principal, principal), usable_until)
