"""
Verdicts on credentials from memory, under the lease that the authentication service hands on. Terms: question (a request to
`/internal/validate-*`), poll (one to `/internal/changes`), lease, ticket. Invariants: memory is used only while the lease
is held, counted from the moment a poll was sent; a yes is used directly only until its own lease ends, counted from the
moment the question was sent; only the service refuses, except what is malformed or forged; what is not a verdict is 503.
"""

import json
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from platform_auth.answers import Verdict
from platform_auth.caches import KeyCache, TokenCache
from platform_auth.clock_check import ClockCheck
from platform_auth.clocks import Instant
from platform_auth.credentials import (
    Credential,
    Headers,
    PresentedToken,
    compute_fingerprint,
    read_app,
    read_node,
    read_token,
    read_tracing,
)
from platform_auth.delegation import OWN_TOKENS, UserDemands, read_chain
from platform_auth.endings import Endings, Watch, to_liveness
from platform_auth.errors import (
    REFUSALS,
    DelegationNotAcceptedError,
    MissingScopeError,
    RefusedError,
    UnavailableError,
    VerificationError,
)
from platform_auth.event_reader import EventReader
from platform_auth.events import Misconfigurations, UnexpectedErrors
from platform_auth.exchanged_tokens import ExchangedTokens
from platform_auth.lease import Change, Lease, Ticket
from platform_auth.membership import MemberDemands
from platform_auth.options import Settings
from platform_auth.poller import Checks, Poller
from platform_auth.principals import (
    AnyPrincipal,
    AnyUserPrincipal,
    AppPrincipal,
    Door,
    NodePrincipal,
    UserPrincipal,
    to_app_principal,
    to_delegated_principal,
    to_node_principal,
    to_user_principal,
)
from platform_auth.questions import PATIENCE_SECONDS, Accepted, Identity, Outcome, Question, Questions
from platform_auth.runtime import Runtime
from platform_auth.service_client import ServiceClient
from platform_auth.service_name import ServiceName
from platform_auth.token_check import TokenCheck
from platform_auth.tokens import ParsedToken, parse_token
from platform_auth.transport import ServiceRequest
from platform_auth.uses import Use, Uses
from platform_auth.waiting import call_on_this_loop, take_steps

# Yields what the caller waits for, in a thread or on an event loop.
Verification = Generator["Future[Outcome]", Outcome, Identity]


class VerifierCore:
    """Safe with threads. Polls as soon as it is created."""

    def __init__(self, settings: Settings, runtime: Runtime, unexpected_errors: UnexpectedErrors) -> None:
        self._settings = settings
        self._runtime = runtime
        lease = self._lease = Lease(runtime.clocks, settings.outage_grace_seconds)
        uses = self._uses = Uses()
        entries = settings.max_entries
        self.apps: KeyCache[AppPrincipal] = KeyCache("app", lease, uses, entries, self._renew_app)
        self.nodes: KeyCache[NodePrincipal] = KeyCache("node", lease, uses, entries, self._renew_node)
        self.tokens = TokenCache(lease, entries, self._renew_user)
        misconfigurations = Misconfigurations(settings.log)
        clock_check = ClockCheck(runtime.clocks, misconfigurations)
        service_name = ServiceName(settings.service_name, misconfigurations)
        polls = ServiceClient(runtime, runtime.polls.transport, settings.own_key)
        checks = Checks(clock_check, service_name, misconfigurations)
        events = ServiceClient(runtime, runtime.events.transport, settings.own_key)
        self.event_reader = EventReader(settings, runtime, events, checks)
        self._poller = Poller(settings, runtime, polls, lease, uses, checks)
        client = ServiceClient(runtime, runtime.questions.transport, settings.own_key)
        self._token_check = TokenCheck(settings, runtime, client, clock_check, misconfigurations, lease)
        self._questions = Questions(
            settings, runtime, client, lease, service_name, misconfigurations, unexpected_errors
        )
        self._endings = Endings(runtime, lease, unexpected_errors.report)
        self.exchanged = ExchangedTokens(
            settings, runtime, client, lease, self._poller, misconfigurations, unexpected_errors
        )
        self._poller.start()

    def verify_app(self, headers: Headers, scope: str | None, address: str | None) -> Verification[AppPrincipal]:
        credential = read_app(headers)
        principal = self.apps.recall_by_id(credential.id, credential.digest, headers, address)
        if principal is None:
            principal = yield from self._ask(self._ask_about_app(credential, headers, address))
        self.check_scope(principal, scope)
        return principal

    def check_scope(self, principal: AppPrincipal, scope: str | None) -> None:
        """Raises MissingScopeError. The polls report when each scope of a key was last needed."""
        if scope is None or principal.scopes is None:
            return
        # Before it is reported: a scope that the key lacks may have any form, and the service would refuse the poll.
        if not principal.has_scope(scope):
            raise MissingScopeError(scope)
        at = self._runtime.clocks.monotonic()
        self._uses.add(Use("app", principal.app_id, self._uses, at, scope=scope, previous=principal.is_previous))

    def verify_node(self, headers: Headers, address: str | None) -> Verification[NodePrincipal]:
        credential = read_node(headers)
        remembered = self.nodes.recall_by_id(credential.id, credential.digest, headers, address)
        return remembered or (yield from self._ask(self._ask_about_node(credential, headers, address)))

    def verify_user(
        self, headers: Headers, demands: UserDemands, address: str | None
    ) -> Verification[AnyUserPrincipal]:
        credential = read_token(headers)
        user = self.tokens.recall(headers, address, compute_fingerprint(credential))
        if user is None:
            user = yield from self._ask(self._ask_about_user(credential, headers, demands, address))
        demands.check(user)
        return user

    def verify_member(
        self, headers: Headers, demands: MemberDemands, address: str | None
    ) -> Verification[AnyUserPrincipal]:
        credential = read_token(headers)
        user = self.tokens.recall(headers, address, compute_fingerprint(credential))
        # An answer that does not know the households may be that of an older replica.
        if user is None or (isinstance(user, UserPrincipal) and user.households is None):
            user = yield from self._ask(self._ask_about_user(credential, headers, OWN_TOKENS, address))
        OWN_TOKENS.check(user)
        demands.check(user)
        return user

    def watch(
        self,
        door: Door,
        headers: Headers,
        callback: Callable[[], object],
        demands: MemberDemands | None = None,
        delegation: UserDemands = OWN_TOKENS,
    ) -> Watch:
        """Raises RefusedError for a malformed credential."""
        changes: set[Change] = set()
        match door:
            case "app":
                credential = read_app(headers)
                steps = self._prepare(self._ask_about_app(credential, headers, None))
                changes = {Change("app", credential.id)}
            case "node":
                credential = read_node(headers)
                steps = self._prepare(self._ask_about_node(credential, headers, None))
                changes = {Change("node", credential.id)}
            case _:
                presented = read_token(headers)
                steps = self._prepare(self._ask_about_user(presented, headers, delegation, None))
                token = parse_token(presented.token)
                if token is not None:
                    pairs = (Change("app", link.app_id) for link in token.chain or ())
                    changes = {Change("session", token.session_id), Change("user", token.user_id), *pairs}

        async def ask() -> bool | None:
            outcome = await take_steps(steps(), PATIENCE_SECONDS)
            if isinstance(outcome, Accepted):
                try:
                    delegation.check(outcome.principal)
                except RefusedError:
                    return False
            if demands is not None and isinstance(outcome, Accepted):
                return demands.judge(outcome.principal)
            return to_liveness(outcome)

        watch = Watch(frozenset(changes), ask, call_on_this_loop(callback), self._endings)
        self._endings.add(watch)
        return watch

    def take_over(self, change: Change) -> None:
        """Applies a change that no poll reports, from the service in memory."""
        self._lease.apply(change)

    def close(self) -> None:
        """Stops polling and closes the connections: the service is not asked any more."""
        self.event_reader.close()
        self._runtime.polls.close()
        self._runtime.questions.close()
        self._runtime.events.close()

    def _prepare(self, question: Question[Identity]) -> "Callable[[], Generator[Future[Outcome], Outcome, Outcome]]":
        return lambda: self._questions.ask(question, is_about_change=True)

    def _ask(self, question: Question[Identity]) -> Verification[Identity]:
        outcome = yield from self._questions.ask(question)
        if outcome is Verdict.NO:
            raise RefusedError(REFUSALS[question.credential.door])
        if outcome is Verdict.DELEGATED:
            raise DelegationNotAcceptedError
        # Checked again for each request that waited, because the process may have been paused since the answer
        # arrived.
        if outcome is Verdict.UNKNOWN or not self._runtime.clocks.now().is_before(outcome.usable_until):
            raise UnavailableError
        principal: AnyPrincipal = outcome.principal
        return principal  # type: ignore[return-value]

    def _ask_about_app(self, credential: Credential, headers: Headers, address: str | None) -> Question[AppPrincipal]:
        name = self._settings.service_name
        path = "/internal/validate-app"
        forwarded = {**credential.headers, "Content-Type": "application/json"}
        return Question(
            credential,
            address,
            path,
            self._create_request(path, headers, forwarded, json.dumps({"target": name}).encode()),
            read=lambda body: to_app_principal(body, credential.id, name),
            remember=self._remember_in(self.apps.remember, credential),
            forget=lambda: self.apps.forget(credential),
        )

    def _ask_about_node(self, credential: Credential, headers: Headers, address: str | None) -> Question[NodePrincipal]:
        path = "/internal/validate-node"
        forwarded = {**credential.headers, "X-Platform-Target": self._settings.service_name}
        return Question(
            credential,
            address,
            path,
            self._create_request(path, headers, forwarded, presents_own_key=True),
            read=lambda body: to_node_principal(body, credential.id),
            remember=self._remember_in(self.nodes.remember, credential),
            forget=lambda: self.nodes.forget(credential),
        )

    def _ask_about_user(
        self, credential: PresentedToken, headers: Headers, demands: UserDemands, address: str | None
    ) -> Question[AnyUserPrincipal]:
        token = parse_token(credential.token)
        if token is None:
            raise RefusedError(REFUSALS["user"])
        path = "/internal/validate-user"
        is_delegated = token.chain is not None
        # Only this header lets the service accept a delegated token.
        target = {"X-Platform-Target": self._settings.service_name} if is_delegated and demands.delegated else {}
        return Question(
            credential,
            address,
            path,
            self._create_request(path, headers, {**credential.headers, **target}, presents_own_key=True),
            read=lambda body: _read_user(token, body),
            remember=self._remember_in(self.tokens.remember, credential),
            forget=lambda: self.tokens.forget(credential),
            check=lambda deadline: self._token_check.check(token, deadline),
            is_delegation_refused=is_delegated and not demands.delegated,
        )

    def _remember_in(
        self, remember: Callable[[Credential, Identity, Instant, float, Ticket], None], credential: Credential
    ) -> Callable[[Identity, Instant, float, Ticket], None]:
        def remember_and_poll(principal: Identity, sent: Instant, seconds: float, ticket: Ticket) -> None:
            remember(credential, principal, sent, seconds, ticket)
            self._poller.start()

        return remember_and_poll

    def _renew_app(self, headers: Headers, address: str | None) -> None:
        with suppress(VerificationError):
            self._questions.ask_in_background(self._ask_about_app(read_app(headers), headers, address))

    def _renew_node(self, headers: Headers, address: str | None) -> None:
        with suppress(VerificationError):
            self._questions.ask_in_background(self._ask_about_node(read_node(headers), headers, address))

    def _renew_user(self, headers: Headers, address: str | None) -> None:
        with suppress(VerificationError):
            # What memory has about a delegated token, a route that accepts it has asked.
            self._questions.ask_in_background(self._ask_about_user(read_token(headers), headers, UserDemands(True), address))

    def _create_request(
        self,
        path: str,
        headers: Headers,
        forwarded: Mapping[str, str],
        body: bytes = b"",
        *,
        presents_own_key: bool = False,
    ) -> ServiceRequest:
        sent = {**read_tracing(headers), **forwarded, "Cache-Control": "no-cache"}
        return ServiceRequest("POST", self._settings.url + path, sent, body, presents_own_key)


def _read_user(token: ParsedToken, body: Mapping[str, Any]) -> AnyUserPrincipal | None:
    if token.chain is None:
        return to_user_principal(body, token.user_id, token.session_id)
    return to_delegated_principal(body, token.user_id, token.session_id, token.chain, read_chain(body.get("act")))
