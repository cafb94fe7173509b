"""What a service creates: one verifier for the process."""

import logging
import os
import secrets
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from uuid import uuid4

from platform_auth.clocks import SYSTEM_CLOCKS
from platform_auth.credentials import Headers, find_app, find_node, find_token
from platform_auth.errors import UnavailableError
from platform_auth.events import LOGGER
from platform_auth.options import Settings, read_environment
from platform_auth.principals import AppPrincipal, NodePrincipal, Principal, UserPrincipal
from platform_auth.runtime import Runtime, create_system_runtime
from platform_auth.testing import CallerWorker, MemoryService, TestCredential, encode_part
from platform_auth.verifier_core import VerifierCore

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


class EnvironmentOptions(TypedDict, total=False):
    """What `Verifier.from_environment` takes beside the environment."""

    outage_grace_seconds: float
    max_entries: int
    max_questions: int
    logger: logging.Logger


class Verifier:
    """
    Verifies the credentials of requests to this service. The `verify_*` methods take headers, and raise RefusedError (a
    verdict) or UnavailableError (not a verdict); they may be awaited on any asyncio loop of any thread.
    """

    def __init__(
        self,
        *,
        url: str,
        app_id: str,
        app_key: str,
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
    ) -> None:
        """
        `secret_key` verifies HS256 access tokens and `jwks_url` ES256; with neither, the authentication service judges each
        token at first sight. `secret_key_previous` verifies them too, while the secret is rotated. `issuer` and `audience`: `iss`
        and `aud` of access tokens, as JWT_ISSUER and JWT_AUDIENCE of the authentication service; without an audience, tokens
        with one are refused. `outage_grace_seconds`, at most 60: how much longer memory may be used while the authentication
        service is unreachable; during it, a revoked credential may be accepted. `max_entries`: remembered credentials of each
        kind. `max_questions`: in flight at each door (apps, nodes, users); beyond it the answer is 503. Raises
        VerifierConfigurationError.
        """
        self._settings = Settings(
            url=url,
            app_id=app_id,
            app_key=app_key,
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
        self._starting = threading.Lock()
        self._is_closed = False
        self._core: VerifierCore | None = self._start()
        _VERIFIERS.add(self)

    @classmethod
    def from_environment(
        cls, variables: Mapping[str, str] | None = None, **options: Unpack[EnvironmentOptions]
    ) -> "Verifier":
        """
        From AUTH_URL, AUTH_APP_ID, AUTH_APP_KEY, SERVICE_NAME, and SECRET_KEY or AUTH_JWKS_URL: what `platform-auth init`
        writes. Also SECRET_KEY_PREVIOUS during a rotation, and JWT_ISSUER and JWT_AUDIENCE, if the authentication service has
        them. Raises VerifierConfigurationError.
        """
        return cls(**read_environment(os.environ if variables is None else variables), **options)

    @staticmethod
    def for_tests(service_name: str = "service-under-test") -> "TestVerifier":
        """A verifier that mints and accepts credentials in memory, for the tests of a service."""
        return TestVerifier(service_name)

    async def verify_app(self, headers: Headers) -> AppPrincipal:
        """Verifies the key of a calling service: `X-Platform-App-Id` and `X-Platform-App-Key`."""
        core = self._core or self._get_core()
        return core.apps.recall(find_app(headers)) or await core.verify_app(headers)

    async def verify_node(self, headers: Headers) -> NodePrincipal:
        """Verifies the key of a node: `X-API-Key: node_id:api_key`."""
        core = self._core or self._get_core()
        return core.nodes.recall(find_node(headers)) or await core.verify_node(headers)

    async def verify_user(self, headers: Headers) -> UserPrincipal:
        """Verifies the access token of a user: `Authorization: Bearer`."""
        core = self._core or self._get_core()
        return core.tokens.recall(find_token(headers)) or await core.verify_user(headers)

    @cached_property
    def app(self) -> "Callable[[HTTPConnection], Awaitable[AppPrincipal]]":
        """Dependency of FastAPI, or awaited with the request in Starlette: the calling service."""
        from platform_auth.starlette import create_dependency

        return create_dependency(self.verify_app)

    @cached_property
    def node(self) -> "Callable[[HTTPConnection], Awaitable[NodePrincipal]]":
        """Dependency of FastAPI, or awaited with the request in Starlette: the node."""
        from platform_auth.starlette import create_dependency

        return create_dependency(self.verify_node)

    @cached_property
    def user(self) -> "Callable[[HTTPConnection], Awaitable[UserPrincipal]]":
        """Dependency of FastAPI, or awaited with the request in Starlette: the user."""
        from platform_auth.starlette import create_dependency

        return create_dependency(self.verify_user)

    def close(self) -> None:
        """Stops polling and closes the connections: the service is not asked any more, nor by forked processes."""
        with self._starting:
            self._is_closed = True
            core = self._core
        if core is not None:
            core.close()

    def __repr__(self) -> str:
        """Without the credentials."""
        return f"{type(self).__name__}(url={self._settings.url!r}, service_name={self._settings.service_name!r})"

    def _get_core(self) -> VerifierCore:
        core = self._core
        if core is None:
            with self._starting:
                if self._is_closed:
                    raise UnavailableError
                core = self._core = self._core or self._start()
        return core

    def _start(self) -> VerifierCore:
        return VerifierCore(self._settings, self._create_runtime())

    def _create_runtime(self) -> Runtime:
        return create_system_runtime()

    def _abandon(self) -> None:
        _INHERITED.append(self._core)
        self._starting = threading.Lock()
        self._core = None


class TestVerifier(Verifier):
    """Created by Verifier.for_tests(): mints credentials for a service in memory, and remembers none."""

    __test__ = False

    def __init__(self, service_name: str = "service-under-test") -> None:
        self._service = MemoryService()
        super().__init__(url="http://auth.test", app_id="test", app_key="test", service_name=service_name)

    def mint_app(self, caller: str = "caller", target: str | None = None) -> TestCredential[AppPrincipal]:
        """Mints a key of a calling service for the service under test."""
        principal = AppPrincipal(str(uuid4()), caller, target or self._settings.service_name)
        key = f"test_app_{secrets.token_urlsafe()}"
        body = {"app_id": principal.app_id, "caller": caller, "target": principal.target}
        self._service.issue(f"app {principal.app_id}", key, body)
        return TestCredential({"X-Platform-App-Id": principal.app_id, "X-Platform-App-Key": key}, principal)

    def mint_node(self, household_id: str | None = None) -> TestCredential[NodePrincipal]:
        """Mints a key of a node."""
        principal = NodePrincipal(str(uuid4()), (household_id or str(uuid4())).lower())
        key = f"test_node_{secrets.token_urlsafe()}"
        body = {"node_id": principal.node_id, "household_id": principal.household_id}
        self._service.issue(f"node {principal.node_id}", key, body)
        return TestCredential({"X-API-Key": f"{principal.node_id}:{key}"}, principal)

    def mint_user(
        self, user_id: str | None = None, email: str = "user@example.org", amr: Sequence[str] = ("pwd",)
    ) -> TestCredential[UserPrincipal]:
        """Mints an access token of a user, for a session of its own."""
        principal = UserPrincipal((user_id or str(uuid4())).lower(), str(uuid4()), email, tuple(amr))
        claims = {"sub": principal.user_id, "sid": principal.session_id, "email": email, "amr": list(amr)}
        token = f"{encode_part({'alg': 'HS256', 'typ': 'JWT'})}.{encode_part(claims)}.{secrets.token_urlsafe()}"
        body = {"user_id": principal.user_id, "session_id": principal.session_id, "email": email, "amr": list(amr)}
        self._service.issue(f"user {principal.session_id}", token, body)
        return TestCredential({"Authorization": f"Bearer {token}"}, principal)

    def revoke(self, credential: TestCredential[Any]) -> None:
        """Revokes a key, or ends the session of a token: refused from now on."""
        principal: Principal = credential.principal
        match principal:
            case AppPrincipal():
                self._service.revoke(f"app {principal.app_id}")
            case NodePrincipal():
                self._service.revoke(f"node {principal.node_id}")
            case UserPrincipal():
                self._service.revoke(f"user {principal.session_id}")

    def set_available(self, is_available: bool) -> None:
        """False: every verification fails with 503, until this is called with True."""
        self._service.is_available = is_available

    def _create_runtime(self) -> Runtime:
        return Runtime(SYSTEM_CLOCKS, self._service, CallerWorker())


_VERIFIERS: "weakref.WeakSet[Verifier]" = weakref.WeakSet()
# Never collected: closing them would close what the parent process shares with its child (epoll).
_INHERITED: list[VerifierCore | None] = []


def _abandon_all() -> None:
    for verifier in list(_VERIFIERS):
        verifier._abandon()


# A forked process (gunicorn --preload) has no thread of its parent: its verifiers start again, with nothing remembered.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
