
import logging
import os
import secrets
import ssl
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, cast, overload
from uuid import uuid4

from platform_auth.clocks import SYSTEM_CLOCKS
from platform_auth.credentials import Headers, Text, find_app, find_doors, read_request_id
from platform_auth.delegation import Delegated, UserDemands, create_demands
from platform_auth.endings import Watch
from platform_auth.errors import (
    MissingScopeError,
    RefusedError,
    UnavailableError,
    VerificationError,
    VerifierConfigurationError,
    refuse_missing,
)
from platform_auth.event_reader import EventSubject, PlatformEvent
from platform_auth.events import LOGGER, Misconfigurations, UnexpectedErrors
from platform_auth.lease import Change
from platform_auth.membership import AdminRole, MemberDemands, PresentedHousehold, check_role
from platform_auth.open_telemetry import COUNTS_OBSERVER
from platform_auth.options import Settings, read_environment
from platform_auth.principals import (
    DOORS,
    AnyPrincipal,
    AnyUserPrincipal,
    AppPrincipal,
    DelegatedUserPrincipal,
    DelegationLink,
    Door,
    Membership,
    NodePrincipal,
    Principal,
    UserPrincipal,
)
from platform_auth.questions import PATIENCE_SECONDS
from platform_auth.runtime import Channel, Runtime, create_system_runtime
from platform_auth.tallies import Tally, VerdictHook, VerdictName
from platform_auth.testing import MemoryService, SharedWorker, TestCredential, encode_part
from platform_auth.transport import create_ssl_context
from platform_auth.verifier_core import Verification, VerifierCore
from platform_auth.waiting import take_steps, take_steps_sync

if TYPE_CHECKING:
    from platform_auth.starlette import Dependency

Identity = TypeVar("Identity", AppPrincipal, NodePrincipal, AnyUserPrincipal)


_GREEN_THREADS = (
    "The verifier needs the threads of Python, which gevent or eventlet has replaced in this process: "
    "start gunicorn with --worker-class gthread or uvicorn_worker.UvicornWorker"
)


class EnvironmentOptions(TypedDict, total=False):
    """The parameters of `Verifier.from_environment`, besides the environment."""

    outage_grace_seconds: float
    max_entries: int
    max_questions: int
    logger: logging.Logger
    on_verdict: VerdictHook


class Verifier:
    """
    Verifies the credentials of requests to this service. The `verify_*` methods take headers, and raise RefusedError (a
    verdict) or UnavailableError (not a verdict); they may be awaited on any asyncio loop of any thread, and those that end in
    `_sync` called in any thread. `address`: of the caller; callers share fairly what the authentication service is asked.
    """

    def __init__(
        self,
        *,
        url: str,
        app_id: str,
        app_key: str | None = None,
        app_key_file: str | None = None,
        service_name: str,
        secret_key: str | None = None,
        secret_key_previous: str | None = None,
        jwks_url: str | None = None,
        issuer: str = "platform-auth",
        audience: str | None = None,
        outage_grace_seconds: float = 0,
        max_entries: int = 100_000,
        max_questions: int = 256,
        logger: logging.Logger | None = None,
        on_verdict: VerdictHook | None = None,
    ) -> None:
        """
        `app_key`, or the file `app_key_file`: this service's own key for auth; the file is read again when the key is refused,
        because a mounted Secret changes while the process runs. `secret_key` verifies HS256 access tokens and `jwks_url` ES256; with neither, the authentication service judges each
        token at first sight. `secret_key_previous` verifies them too, while the secret is rotated. `issuer` and `audience`: `iss`
        and `aud` of access tokens, as JWT_ISSUER and JWT_AUDIENCE of the authentication service; without an audience, tokens
        with one are refused. `outage_grace_seconds`, at most 60: how much longer memory may be used while the authentication
        service is unreachable; during it, a revoked credential may be accepted. `max_entries`: remembered credentials of each
        kind. `max_questions`: in flight at each door (apps, nodes, users); beyond it the answer is 503. `on_verdict` is called
        with the door and "accepted", "refused" or "unavailable". Raises VerifierConfigurationError.
        """
        self._settings = Settings(
            url=url,
            app_id=app_id,
            app_key=app_key,
            app_key_file=app_key_file,
            service_name=service_name,
            secret_key=secret_key,
            secret_key_previous=secret_key_previous,
            jwks_url=jwks_url,
            issuer=issuer,
            audience=audience,
            outage_grace_seconds=outage_grace_seconds,
            max_entries=max_entries,
            max_questions=max_questions,
            logger=logger or LOGGER,
        )
        if _has_green_threads():
            raise VerifierConfigurationError(_GREEN_THREADS)
        self._trusted = _read_authorities() if self._settings.needs_certificates else None
        self._unexpected_errors = UnexpectedErrors(self._settings.log)
        self._misconfigurations = Misconfigurations(self._settings.log)
        self._tallies: dict[Door, Tally] = {door: Tally(door, on_verdict, self._unexpected_errors.report) for door in DOORS}
        self._accepted_apps, self._accepted_nodes, self._accepted_users = (self._tallies[door].accepted for door in DOORS)
        self._starting = threading.Lock()
        self._is_closed = False
        self._core: VerifierCore | None = None
        if outage_grace_seconds > 0:
            promise = f"a revoked credential may be accepted for {outage_grace_seconds} s"
            detail = f"While the authentication service is unreachable, {promise}."
            self._settings.log.warn("verifier_outage_grace", detail=detail)
        _VERIFIERS.add(self)
        COUNTS_OBSERVER.add(self._tallies)

    @classmethod
    def from_environment(
        cls, variables: Mapping[str, str] | None = None, **options: Unpack[EnvironmentOptions]
    ) -> "Verifier":
        """
        From AUTH_URL, AUTH_APP_ID, AUTH_APP_KEY, SERVICE_NAME, and SECRET_KEY or AUTH_JWKS_URL: what `platform-auth init`
        writes. AUTH_APP_KEY_FILE, in place of AUTH_APP_KEY, names a file with the key. Also SECRET_KEY_PREVIOUS during a rotation, JWT_ISSUER and JWT_AUDIENCE, if the authentication service has
        them, and AUTH_OUTAGE_GRACE_SECONDS. Raises VerifierConfigurationError.
        """
        settings: dict[str, Any] = {**read_environment(os.environ if variables is None else variables), **options}
        return cls(**settings)

    @staticmethod
    def for_tests(service_name: str = "service-under-test") -> "TestVerifier":
        """A verifier that issues and accepts credentials in memory, for the tests of a service."""
        return TestVerifier(service_name)

    def start(self) -> None:
        """Starts to poll before the first request. Not before a fork, which threads do not survive."""
        self._get_core()

    async def verify_app(self, headers: Headers, *, scope: str | None = None, address: str | None = None) -> AppPrincipal:
        """Verifies the key of a calling service, `X-Platform-App-Id` and `X-Platform-App-Key`, and that it has the scope."""
        core = self._core or self._get_core()
        recall = core.apps.recall
        principal = recall(headers, address, find_app(headers))
        if principal is None:
            return await self._verify("app", headers, core.verify_app(headers, scope, address))
        self._check_scope(core, principal, scope, headers)
        next(self._accepted_apps)
        return principal

    async def verify_node(self, headers: Headers, *, address: str | None = None) -> NodePrincipal:
        """Verifies the key of a node: `X-API-Key: node_id:api_key`."""
        core = self._core or self._get_core()
        recall = core.nodes.recall
        principal = recall(headers, address, None)
        if principal is None:
            return await self._verify("node", headers, core.verify_node(headers, address))
        next(self._accepted_nodes)
        return principal

    @overload
    async def verify_user(
        self, headers: Headers, *, delegated: Literal[False] = False, address: str | None = None
    ) -> UserPrincipal: ...

    @overload
    async def verify_user(
        self, headers: Headers, *, delegated: Literal["only"], scope: str | None = None, address: str | None = None
    ) -> DelegatedUserPrincipal: ...

    @overload
    async def verify_user(
        self, headers: Headers, *, delegated: Delegated, scope: str | None = None, address: str | None = None
    ) -> AnyUserPrincipal: ...

    async def verify_user(
        self, headers: Headers, *, delegated: Delegated = False, scope: str | None = None, address: str | None = None
    ) -> AnyUserPrincipal:
        """
        Verifies the access token of a user: `Authorization: Bearer`. With delegated, also one that another service got on
        behalf of a user ("only": no other one), with the scope, if one is given; the principal names that service as caller.
        """
        core = self._core or self._get_core()
        recall = core.tokens.recall
        principal = recall(headers, address, None)
        if principal is None:
            demands = UserDemands(delegated, scope)
            return await self._verify("user", headers, core.verify_user(headers, demands, address))
        if delegated is not False or type(principal) is not UserPrincipal:
            self._check_delegation(principal, UserDemands(delegated, scope), headers)
        next(self._accepted_users)
        return principal

    async def verify_member(
        self,
        headers: Headers,
        household: PresentedHousehold,
        *,
        role: AdminRole | None = None,
        address: str | None = None,
    ) -> UserPrincipal:
        """
        As verify_user, for a user who lives in this household, and has the role, if one is given. Also raises NotAMemberError
        and MissingRoleError.
        """
        core = self._core or self._get_core()
        steps = core.verify_member(headers, MemberDemands(household, role), address)
        return cast("UserPrincipal", await self._verify("user", headers, steps))

    async def token_for(self, headers: Headers, target: str, *, scope: str | None = None) -> str:
        """
        Gets a token with which this service calls another one on behalf of the user of these headers, as the map allows it
        (for_users). Remembered until 80 % of its life, or until its session, its user or a pair of its chain ends. Raises
        RefusedError when the presented token is not valid any more, and UnavailableError.
        """
        headers = _to_repeatable(headers)
        try:
            return await take_steps(self._get_core().exchanged.get(headers, target, scope), PATIENCE_SECONDS)
        except Exception as error:
            raise self._name_request(headers, error) from None

    def token_for_sync(self, headers: Headers, target: str, *, scope: str | None = None) -> str:
        """As token_for, for threads without an event loop."""
        headers = _to_repeatable(headers)
        try:
            return take_steps_sync(self._get_core().exchanged.get(headers, target, scope), PATIENCE_SECONDS)
        except Exception as error:
            raise self._name_request(headers, error) from None

    async def verify_any(self, headers: Headers, *doors: Door, address: str | None = None) -> Principal:
        """Verifies the credential of the first of these doors for which the request presents one."""
        headers = _to_repeatable(headers)
        match self._choose_door(headers, doors):
            case "app":
                return await self.verify_app(headers, address=address)
            case "node":
                return await self.verify_node(headers, address=address)
            case _:
                return await self.verify_user(headers, address=address)

    async def verify_optional(self, headers: Headers, *doors: Door, address: str | None = None) -> Principal | None:
        """As `verify_any`, but None when the request presents no credential. A presented one must be valid."""
        headers = _to_repeatable(headers)
        return await self.verify_any(headers, *doors, address=address) if find_doors(headers, doors) else None

    def verify_app_sync(self, headers: Headers, *, scope: str | None = None, address: str | None = None) -> AppPrincipal:
        """As verify_app, for threads without an event loop."""
        core = self._core or self._get_core()
        recall = core.apps.recall
        principal = recall(headers, address, find_app(headers))
        if principal is None:
            return self._verify_sync("app", headers, core.verify_app(headers, scope, address))
        self._check_scope(core, principal, scope, headers)
        next(self._accepted_apps)
        return principal

    def verify_node_sync(self, headers: Headers, *, address: str | None = None) -> NodePrincipal:
        """As verify_node, for threads without an event loop."""
        core = self._core or self._get_core()
        recall = core.nodes.recall
        principal = recall(headers, address, None)
        if principal is None:
            return self._verify_sync("node", headers, core.verify_node(headers, address))
        next(self._accepted_nodes)
        return principal

    @overload
    def verify_user_sync(
        self, headers: Headers, *, delegated: Literal[False] = False, address: str | None = None
    ) -> UserPrincipal: ...

    @overload
    def verify_user_sync(
        self, headers: Headers, *, delegated: Literal["only"], scope: str | None = None, address: str | None = None
    ) -> DelegatedUserPrincipal: ...

    @overload
    def verify_user_sync(
        self, headers: Headers, *, delegated: Delegated, scope: str | None = None, address: str | None = None
    ) -> AnyUserPrincipal: ...

    def verify_user_sync(
        self, headers: Headers, *, delegated: Delegated = False, scope: str | None = None, address: str | None = None
    ) -> AnyUserPrincipal:
        """As verify_user, for threads without an event loop."""
        core = self._core or self._get_core()
        recall = core.tokens.recall
        principal = recall(headers, address, None)
        if principal is None:
            demands = UserDemands(delegated, scope)
            return self._verify_sync("user", headers, core.verify_user(headers, demands, address))
        if delegated is not False or type(principal) is not UserPrincipal:
            self._check_delegation(principal, UserDemands(delegated, scope), headers)
        next(self._accepted_users)
        return principal

    def verify_member_sync(
        self,
        headers: Headers,
        household: PresentedHousehold,
        *,
        role: AdminRole | None = None,
        address: str | None = None,
    ) -> UserPrincipal:
        """As verify_member, for threads without an event loop."""
        core = self._core or self._get_core()
        steps = core.verify_member(headers, MemberDemands(household, role), address)
        return cast("UserPrincipal", self._verify_sync("user", headers, steps))

    def verify_any_sync(self, headers: Headers, *doors: Door, address: str | None = None) -> Principal:
        """As verify_any, for threads without an event loop."""
        headers = _to_repeatable(headers)
        match self._choose_door(headers, doors):
            case "app":
                return self.verify_app_sync(headers, address=address)
            case "node":
                return self.verify_node_sync(headers, address=address)
            case _:
                return self.verify_user_sync(headers, address=address)

    def verify_optional_sync(self, headers: Headers, *doors: Door, address: str | None = None) -> Principal | None:
        """As verify_optional, for threads without an event loop."""
        headers = _to_repeatable(headers)
        return self.verify_any_sync(headers, *doors, address=address) if find_doors(headers, doors) else None

    @cached_property
    def app(self) -> "Dependency[AppPrincipal]":
        """Dependency of FastAPI, or awaited with the request in Starlette: the calling service."""
        from platform_auth.starlette import create_dependency

        return create_dependency(lambda headers, address: self.verify_app(headers, address=address), ("app",))

    @cached_property
    def node(self) -> "Dependency[NodePrincipal]":
        """Dependency of FastAPI, or awaited with the request in Starlette: the node."""
        from platform_auth.starlette import create_dependency

        return create_dependency(lambda headers, address: self.verify_node(headers, address=address), ("node",))

    @cached_property
    def user(self) -> "Dependency[UserPrincipal]":
        """Dependency of FastAPI, or awaited with the request in Starlette: the user."""
        from platform_auth.starlette import create_dependency

        return create_dependency(lambda headers, address: self.verify_user(headers, address=address), ("user",))

    def app_with(self, scope: str) -> "Dependency[AppPrincipal]":
        """As `app`, with a key that has the scope; without it the answer is 403 missing_scope."""
        from platform_auth.starlette import create_dependency

        return create_dependency(lambda headers, address: self.verify_app(headers, scope=scope, address=address), ("app",))

    def user_with(self, *, delegated: Delegated, scope: str | None = None) -> "Dependency[AnyUserPrincipal]":
        """
        As `user`, and also a service on behalf of a user (delegated="only": no other caller), with the scope, if one is given;
        without it the answer is 403 missing_scope.
        """
        from platform_auth.starlette import create_dependency

        create_demands(delegated, scope)
        return create_dependency(
            lambda headers, address: self.verify_user(headers, delegated=delegated, scope=scope, address=address), ("user",)
        )

    def member(self, household_path: str, *, role: AdminRole | None = None) -> "Dependency[UserPrincipal]":
        """
        As `user`, of the household that the parameter household_path of the path names: without a household of that id the
        answer is 404, and without the role 403 missing_role.
        """
        from platform_auth.starlette import create_member_dependency

        check_role(role)
        return create_member_dependency(self, household_path, role)

    def any(self, *doors: Door) -> "Dependency[Principal]":
        """
        As `app`, `node` and `user`: the caller at the first of these doors for which the request presents a
        credential.
        """
        from platform_auth.starlette import create_dependency

        _check_doors(doors)
        return create_dependency(lambda headers, address: self.verify_any(headers, *doors, address=address), doors)

    def optional(self, *doors: Door) -> "Dependency[Principal | None]":
        """As `any`, and None when the request presents no credential."""
        from platform_auth.starlette import create_dependency

        _check_doors(doors)
        return create_dependency(lambda headers, address: self.verify_optional(headers, *doors, address=address), doors)

    def on_ended(
        self,
        headers: Headers,
        callback: Callable[[], object],
        *,
        household: PresentedHousehold | EllipsisType = ...,
        role: AdminRole | None = None,
        delegated: Delegated = False,
        scope: str | None = None,
    ) -> Watch:
        """
        Calls back once, when the key that these headers present has ended, or the session or the user of their token: for
        connections that outlive their request. With a household, also when the user is no longer a member of it, with the role,
        if one is given. delegated and scope: those of the route, without which a delegated token ends at once. On the event
        loop that runs here, or else in a thread of the verifier. The expiry of an access token does not end its session; but
        once the token has expired, any change of its user or of a pair of its chain, and every reset, ends the connection: the
        client connects again with a new token. Close what is returned when the connection ends. Raises RefusedError.
        """
        headers = _to_repeatable(headers)
        demands = None if household is ... and role is None else MemberDemands(household, role)
        door = self._choose_door(headers, ("user", "node", "app") if demands is None else ("user",))
        return self._get_core().watch(door, headers, callback, demands, create_demands(delegated, scope))

    def events(self, *, on_reset: Callable[[], object]) -> AsyncGenerator[PlatformEvent, None]:
        """
        What happened, of the types that this service subscribes to: each event at least once, in order. Asking for the next
        one acknowledges it; after an error in the loop it comes again, when the events are iterated again. Ends when the
        verifier is closed. A later iterator takes over from an earlier one. Events revoke nothing: the guards do.
        `on_reset`, which may be async, is called when events may have been missed, after a restore for example: compare what
        this service knows of users with `POST /internal/users/lookup`. Called again when it fails. Raises
        VerifierConfigurationError while this service has no subscription.
        """
        return self._get_core().event_reader.read(on_reset)

    def events_sync(self, *, on_reset: Callable[[], object]) -> Generator[PlatformEvent, None, None]:
        """As `events`, in a thread without an event loop."""
        return self._get_core().event_reader.read_sync(on_reset)

    def read_counts(self) -> dict[Door, dict[VerdictName, int]]:
        """How many requests were accepted, refused and not verified (503) at each door, since the verifier was created."""
        return {door: tally.read() for door, tally in self._tallies.items()}

    def close(self) -> None:
        """Stops polling and closes the connections: the service is not asked any more, nor by forked processes."""
        with self._starting:
            self._is_closed = True
            core = self._core
        if core is not None:
            core.close()

    def __repr__(self) -> str:
        """Keeps the credentials out of logs that print this object."""
        return f"{type(self).__name__}(url={self._settings.url!r}, service_name={self._settings.service_name!r})"

    def _choose_door(self, headers: Headers, doors: Sequence[Door]) -> Door:
        _check_doors(doors)
        found = find_doors(headers, doors)
        if found:
            return found[0]
        next(self._tallies[doors[0]].refused)
        error = refuse_missing(doors)
        error.request_id = read_request_id(headers)
        raise error

    def _check_scope(self, core: VerifierCore, principal: AppPrincipal, scope: str | None, headers: Headers) -> None:
        try:
            core.check_scope(principal, scope)
        except MissingScopeError as error:
            raise self._explain("app", headers, error) from None

    def _check_delegation(self, principal: AnyUserPrincipal, demands: UserDemands, headers: Headers) -> None:
        try:
            demands.check(principal)
        except RefusedError as error:
            raise self._explain("user", headers, error) from None

    def _name_request(self, headers: Headers, error: Exception) -> VerificationError:
        if not isinstance(error, VerificationError):
            self._unexpected_errors.report(error)
            error = UnavailableError()
        error.request_id = read_request_id(headers)
        return error

    async def _verify(self, door: Door, headers: Headers, steps: Verification[Identity]) -> Identity:
        try:
            principal = await take_steps(steps, PATIENCE_SECONDS)
        except Exception as error:
            raise self._explain(door, headers, error) from error.__cause__
        next(self._tallies[door].accepted)
        return principal

    def _verify_sync(self, door: Door, headers: Headers, steps: Verification[Identity]) -> Identity:
        try:
            principal = take_steps_sync(steps, PATIENCE_SECONDS)
        except Exception as error:
            raise self._explain(door, headers, error) from error.__cause__
        next(self._tallies[door].accepted)
        return principal

    def _explain(self, door: Door, headers: Headers, error: Exception) -> VerificationError:
        """Turns every other error into a 503, because the credential could not be verified."""
        error = self._name_request(headers, error)
        tally = self._tallies[door]
        next(tally.refused if isinstance(error, RefusedError) else tally.unavailable)
        return error

    def _get_core(self) -> VerifierCore:
        core = self._core
        if core is None:
            with self._starting:
                if self._is_closed:
                    raise UnavailableError
                core = self._core = self._core or self._start()
        return core

    def _start(self) -> VerifierCore:
        if _has_green_threads():
            # Threads were replaced after this verifier was created (gunicorn --preload). A guard answers 503, never
            # 500.
            self._misconfigurations.report("gevent", _GREEN_THREADS)
            raise UnavailableError
        return VerifierCore(self._settings, self._create_runtime(), self._unexpected_errors)

    def _create_runtime(self) -> Runtime:
        return create_system_runtime(self._trusted)

    def _abandon(self) -> None:
        _INHERITED.append(self._core)
        self._starting = threading.Lock()
        self._core = None


class TestVerifier(Verifier):
    """Created by Verifier.for_tests(): issues credentials for a service in memory, and remembers none."""

    __test__ = False

    def __init__(self, service_name: str = "service-under-test") -> None:
        self._service = MemoryService(service_name)
        super().__init__(url="http://auth.test", app_id=str(uuid4()), app_key="pa_app_test", service_name=service_name)

    def issue_app(
        self, caller: str = "caller", target: str | None = None, scopes: Sequence[str] | None = None
    ) -> TestCredential[AppPrincipal]:
        """Issues a key of a calling service for the service under test. Without scopes it is not restricted."""
        own_scopes = None if scopes is None else tuple(scopes)
        principal = AppPrincipal(str(uuid4()), caller, target or self._settings.service_name, own_scopes)
        key = f"test_app_{secrets.token_urlsafe()}"
        body: dict[str, object] = {"app_id": principal.app_id, "caller": caller, "target": principal.target}
        if scopes is not None:
            body["scopes"] = list(scopes)
        self._service.issue(Change("app", principal.app_id), key, body)
        return TestCredential({"X-Platform-App-Id": principal.app_id, "X-Platform-App-Key": key}, principal)

    def issue_node(self, household_id: str | None = None) -> TestCredential[NodePrincipal]:
        """Issues a key of a node."""
        principal = NodePrincipal(str(uuid4()), (household_id or str(uuid4())).lower())
        key = f"test_node_{secrets.token_urlsafe()}"
        body = {"node_id": principal.node_id, "household_id": principal.household_id}
        self._service.issue(Change("node", principal.node_id), key, body)
        return TestCredential({"X-API-Key": f"{principal.node_id}:{key}"}, principal)

    def issue_user(
        self,
        user_id: str | None = None,
        email: str = "user@example.org",
        amr: Sequence[str] = ("pwd",),
        households: Sequence[Membership] | None = None,
    ) -> TestCredential[UserPrincipal]:
        """Issues an access token of a user, for a session of its own. Without households, those of the user stay."""
        user_id = (user_id or str(uuid4())).lower()
        if households is not None:
            self._service.set_households(user_id, households)
        known = self._service.read_households(user_id)
        principal = UserPrincipal(user_id, str(uuid4()), email, tuple(amr), known)
        claims = {"sub": principal.user_id, "sid": principal.session_id, "email": email, "amr": list(amr)}
        token = f"{encode_part({'alg': 'HS256', 'typ': 'JWT'})}.{encode_part(claims)}.{secrets.token_urlsafe()}"
        body = {"user_id": principal.user_id, "session_id": principal.session_id, "email": email, "amr": list(amr)}
        self._service.issue(Change("session", principal.session_id), token, body)
        return TestCredential({"Authorization": f"Bearer {token}"}, principal)

    def issue_delegated(
        self, caller: str = "caller", scopes: Sequence[str] = (), user: UserPrincipal | None = None
    ) -> TestCredential[DelegatedUserPrincipal]:
        """Issues a token with which a service calls on behalf of a user, by default with a session of its own."""
        user = user or self.issue_user().principal
        chain = (DelegationLink(caller, str(uuid4())),)
        principal = DelegatedUserPrincipal(user.user_id, user.session_id, caller, tuple(scopes), chain, user.amr)
        token = self._service.issue_delegated(principal)
        return TestCredential({"Authorization": f"Bearer {token}"}, principal)

    def set_households(self, credential: TestCredential[UserPrincipal], households: Sequence[Membership]) -> None:
        """Lets the user of the token live in these households, with each role, and in no other one."""
        user_id = credential.principal.user_id
        self._service.set_households(user_id, households)
        if self._core is not None:
            self._core.take_over(Change("user", user_id))

    def revoke(self, credential: TestCredential[Any]) -> None:
        """Revokes a key, ends the session of a token, or revokes the pair of the caller of a delegated one."""
        principal: AnyPrincipal = credential.principal
        match principal:
            case AppPrincipal():
                change = Change("app", principal.app_id)
            case NodePrincipal():
                change = Change("node", principal.node_id)
            case DelegatedUserPrincipal():
                change = Change("app", principal.chain[0].app_id)
            case UserPrincipal():
                change = Change("session", principal.session_id)
        self._service.revoke(change)
        if self._core is not None:
            self._core.take_over(change)

    def deliver(self, type: str, subject: EventSubject, data: Mapping[str, object] | None = None) -> "Future[None]":
        """
        Delivers an event to `events`. What is returned is done when the service under test has acknowledged it: wait with
        `.result(seconds)` in a thread, or with `await asyncio.wrap_future(…)`.
        """
        time = datetime.now(UTC).isoformat()
        told = {"id": f"{uuid4()}:{type}", "type": type, "time": time, "subject": asdict(subject), "data": data or {}}
        return self._service.events.add(told)

    def deliver_reset(self) -> "Future[None]":
        """Makes `events` call `on_reset`. What is returned is done when that has succeeded."""
        return self._service.events.add(None)

    def set_available(self, is_available: bool) -> None:
        """False makes every verification fail with 503, until the next call with True."""
        self._service.is_available = is_available

    def _create_runtime(self) -> Runtime:
        channel = Channel(SharedWorker(), self._service)
        return Runtime(SYSTEM_CLOCKS, polls=channel, questions=channel, events=channel)


def _has_green_threads() -> bool:
    """
    Whether gevent or eventlet has replaced the threads of Python, which the event loops of a verifier would block.
    """
    return threading.get_ident.__module__ != "_thread"


def _read_authorities() -> ssl.SSLContext:
    """Cached, and called before any fork."""
    try:
        return create_ssl_context()
    except OSError as error:
        raise VerifierConfigurationError(f"The trusted certificates cannot be read: {type(error).__name__}") from None


def _to_repeatable(headers: Headers) -> Headers:
    """Returns headers that can be read more than once."""
    if hasattr(headers, "items") or isinstance(headers, list):
        return headers
    pairs: Iterable[tuple[Text, Text]] = headers  # pyright: ignore[reportAssignmentType]
    return list(pairs)


def _check_doors(doors: Sequence[Door]) -> None:
    if not doors or not all(door in DOORS for door in doors):
        raise VerifierConfigurationError(f"Name one or more of {', '.join(DOORS)}")


_VERIFIERS: "weakref.WeakSet[Verifier]" = weakref.WeakSet()
# Kept from the garbage collector, because closing them would close what the parent process shares with its child
# (epoll).
_INHERITED: list[VerifierCore | None] = []


def _abandon_all() -> None:
    for verifier in list(_VERIFIERS):
        verifier._abandon()  # pyright: ignore[reportPrivateUsage]


# A forked process (gunicorn --preload) has no thread of its parent, so its verifiers start again with an empty
# memory.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
