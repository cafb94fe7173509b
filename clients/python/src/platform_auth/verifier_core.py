"""
Verdicts on credentials from memory, under the lease that the authentication service hands on. Terms: question (a request to
`/internal/validate-*`), poll (one to `/internal/changes`), lease, ticket. Invariants: memory is used only while the lease
is held, counted from the moment a poll was sent; a yes is used directly only until its own lease ends, counted from the
moment the question was sent; only the service refuses, except what is malformed or forged; what is not a verdict is 503.
"""

import json
from collections.abc import Mapping

from platform_auth.answers import Verdict
from platform_auth.caches import KeyCache, TokenCache
from platform_auth.clock_check import ClockCheck
from platform_auth.credentials import (
    Credential,
    Headers,
    compute_fingerprint,
    read_app,
    read_node,
    read_token,
    read_tracing,
)
from platform_auth.errors import REFUSALS, RefusedError, UnavailableError
from platform_auth.events import UnexpectedErrors, Misconfigurations, warn
from platform_auth.lease import Lease
from platform_auth.options import Settings
from platform_auth.poller import Poller
from platform_auth.principals import (
    AppPrincipal,
    NodePrincipal,
    Principal,
    UserPrincipal,
    to_app_principal,
    to_node_principal,
    to_user_principal,
)
from platform_auth.questions import Identity, Question, Questions
from platform_auth.runtime import Runtime
from platform_auth.service_client import ServiceClient
from platform_auth.token_check import TokenCheck
from platform_auth.tokens import parse_token
from platform_auth.transport import ServiceRequest
from platform_auth.uses import Uses


class VerifierCore:
    """Safe with threads: the caches are, and the rest runs on the loop of the worker."""

    def __init__(self, settings: Settings, runtime: Runtime) -> None:
        """Polls at once."""
        self._settings = settings
        self._runtime = runtime
        grace = settings.outage_grace_seconds
        lease = Lease(runtime.clocks, grace)
        uses = Uses()
        self.apps: KeyCache[AppPrincipal] = KeyCache("app", lease, uses, settings.max_entries)
        self.nodes: KeyCache[NodePrincipal] = KeyCache("node", lease, uses, settings.max_entries)
        self.tokens = TokenCache(lease, settings.max_entries)
        client = ServiceClient(runtime)
        misconfigurations = Misconfigurations(settings.logger)
        self._unexpected_errors = UnexpectedErrors(settings.logger)
        clock_check = ClockCheck(runtime.clocks, misconfigurations)
        self._token_check = TokenCheck(settings, runtime, client, clock_check, misconfigurations, lease)
        poller = Poller(settings, runtime, client, lease, uses, clock_check, misconfigurations)
        self._questions = Questions(settings.max_questions, runtime, client, lease, misconfigurations, poller.start)
        if grace > 0:
            detail = f"While the authentication service is unreachable, a revoked credential may be accepted for {grace} s."
            warn(settings.logger, "verifier_outage_grace", detail=detail)
        runtime.worker.start(poller.start)

    async def verify_app(self, headers: Headers) -> AppPrincipal:
        credential = read_app(headers)
        key_id = credential.id
        remembered = self.apps.recall_by_id(key_id, credential.digest)
        if remembered is not None:
            return remembered
        name = self._settings.service_name
        path = "/internal/validate-app"
        forwarded = {**credential.headers, "Content-Type": "application/json"}
        question = Question(
            credential,
            path,
            self._create_request(path, headers, forwarded, json.dumps({"target": name}).encode()),
            read=lambda body: to_app_principal(body, key_id, name),
            remember=lambda principal, end, ticket: self.apps.remember(credential, principal, end, ticket),
        )
        return await self._ask(question)

    async def verify_node(self, headers: Headers) -> NodePrincipal:
        credential = read_node(headers)
        key_id = credential.id
        remembered = self.nodes.recall_by_id(key_id, credential.digest)
        if remembered is not None:
            return remembered
        path = "/internal/validate-node"
        question = Question(
            credential,
            path,
            self._create_request(path, headers, self._with_own_key(credential)),
            read=lambda body: to_node_principal(body, key_id),
            remember=lambda principal, end, ticket: self.nodes.remember(credential, principal, end, ticket),
        )
        return await self._ask(question)

    async def verify_user(self, headers: Headers) -> UserPrincipal:
        credential = read_token(headers)
        remembered = self.tokens.recall(compute_fingerprint(credential))
        if remembered is not None:
            return remembered
        token = parse_token(credential.token)
        if token is None:
            raise RefusedError(REFUSALS["user"])
        path = "/internal/validate-user"
        question = Question(
            credential,
            path,
            self._create_request(path, headers, self._with_own_key(credential)),
            read=lambda body: to_user_principal(body, token.user_id, token.session_id),
            remember=lambda principal, end, ticket: self.tokens.remember(credential, principal, end, ticket),
            check=lambda deadline: self._token_check.check(token, deadline),
        )
        return await self._ask(question)

    def close(self) -> None:
        """Stops polling and closes the connections: the service is not asked any more."""
        self._runtime.worker.close(self._runtime.transport.close)

    async def _ask(self, question: Question[Identity]) -> Identity:
        try:
            outcome = await self._runtime.worker.run(self._questions.ask(question))
        except ConnectionError:
            # The verifier was closed.
            raise UnavailableError from None
        except Exception as error:
            self._unexpected_errors.report(error)
            raise UnavailableError from None
        if outcome is Verdict.NO:
            raise RefusedError(REFUSALS[question.credential.door])
        # Each request that waited decides by its own clock: the process may have been paused since the answer arrived.
        if outcome is Verdict.UNKNOWN or not self._runtime.clocks.now().is_before(outcome.usable_until):
            raise UnavailableError
        principal: Principal = outcome.principal
        return principal  # type: ignore[return-value]

    def _with_own_key(self, credential: Credential) -> dict[str, str]:
        settings = self._settings
        return {**credential.headers, "X-Platform-App-Id": settings.app_id, "X-Platform-App-Key": settings.app_key}

    def _create_request(
        self, path: str, headers: Headers, forwarded: Mapping[str, str], body: bytes = b""
    ) -> ServiceRequest:
        sent = {**read_tracing(headers), **forwarded, "Cache-Control": "no-cache"}
        return ServiceRequest("POST", self._settings.url + path, sent, body)
