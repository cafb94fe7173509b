"""A verifier with an authentication service in memory: the real verdicts, without a network, and without remembering."""

import base64
import hashlib
import json
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from platform_auth.clocks import SYSTEM_CLOCKS
from platform_auth.principals import AppPrincipal, NodePrincipal, Principal, UserPrincipal
from platform_auth.runtime import Result, Runtime
from platform_auth.transport import ServiceAnswer, ServiceRequest
from platform_auth.verifier import Verifier

Identity = TypeVar("Identity", bound=Principal)


@dataclass(frozen=True)
class TestCredential(Generic[Identity]):
    """A credential of the test: the headers that present it, and the caller that it identifies."""

    headers: dict[str, str] = field(repr=False)
    principal: Identity

    __test__ = False


class TestVerifier(Verifier):
    """Created by Verifier.for_tests()."""

    __test__ = False

    def __init__(self, service_name: str = "service-under-test") -> None:
        self._service = _MemoryService()
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
        token = f"{_encode({'alg': 'HS256', 'typ': 'JWT'})}.{_encode(claims)}.{secrets.token_urlsafe()}"
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
        return Runtime(SYSTEM_CLOCKS, self._service, _CallerWorker())


class _CallerWorker:
    """Runs on the loop of the caller. Polls nothing: the service in memory has no lease to hand on."""

    _is_closed = False

    def start(self, work: Callable[[], None]) -> None:
        pass

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        if self._is_closed:
            work.close()
            raise ConnectionError("The verifier is closed")
        return await work

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._is_closed = True


class _MemoryService:
    """The routes that a verifier asks, over credentials in memory."""

    def __init__(self) -> None:
        self.is_available = True
        self._issued: dict[str, tuple[bytes, Mapping[str, object]]] = {}

    def issue(self, name: str, secret: str, body: Mapping[str, object]) -> None:
        self._issued[name] = (_digest(secret), body)

    def revoke(self, name: str) -> None:
        self._issued.pop(name, None)

    async def close(self) -> None:
        pass

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        if not self.is_available:
            raise ConnectionError("The service in memory is cut off")
        headers = request.headers
        match urlsplit(request.url).path:
            case "/internal/validate-app":
                found = self._find(f"app {headers['X-Platform-App-Id'].lower()}", headers["X-Platform-App-Key"])
                if found is not None and found["target"] != json.loads(request.body)["target"]:
                    found = None
                return _answer(found, "invalid_app_credentials")
            case "/internal/validate-node":
                node_id, _, key = headers["X-API-Key"].partition(":")
                return _answer(self._find(f"node {node_id.lower()}", key), "invalid_node_credentials")
            case _:
                token = headers["Authorization"].removeprefix("Bearer ")
                return _answer(self._find(f"user {_read_session(token)}", token), "invalid_access_token")

    def _find(self, name: str, secret: str) -> Mapping[str, object] | None:
        digest, body = self._issued.get(name, (b"", None))
        return body if compare_digest(digest, _digest(secret)) else None


def _answer(body: Mapping[str, object] | None, refusal: str) -> ServiceAnswer:
    if body is None:
        return ServiceAnswer(401, {}, json.dumps({"code": refusal}).encode())
    headers = {"x-platform-remember": "no", "x-platform-fresh-for-ms": "60000"}
    return ServiceAnswer(200, headers, json.dumps({"valid": True, **body}).encode())


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _encode(value: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _read_session(token: str) -> str:
    part = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["sid"])
