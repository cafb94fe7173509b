"""An authentication service in memory, for the tests of a service: the real verdicts, without a network."""

import base64
import hashlib
import json
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from hmac import compare_digest
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from platform_auth.lease import Change
from platform_auth.principals import Membership, Principal
from platform_auth.runtime import ThreadWorker
from platform_auth.transport import ServiceAnswer, ServiceRequest

Identity = TypeVar("Identity", bound=Principal)
# Without a lease nothing is remembered.
_NO_LEASE = ServiceAnswer(
    200, {}, json.dumps({"cursor": "", "reset": True, "lease_ms": 0, "fresh_for_ms": 0, "changes": []}).encode()
)


@dataclass(frozen=True)
class TestCredential(Generic[Identity]):
    """A credential of a test: the headers that present it, and the caller that it identifies."""

    headers: dict[str, str] = field(repr=False)
    principal: Identity

    __test__ = False


class SharedWorker:
    """One thread for all verifiers of tests, because a suite creates many, and may close none."""

    def __init__(self) -> None:
        self._worker = _get_thread(os.getpid())
        self._is_closed = False

    def call(self, work: Callable[[], object]) -> bool:
        return not self._is_closed and self._worker.call(work)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._is_closed = True


@cache
def _get_thread(_process_id: int) -> ThreadWorker:
    """A thread does not survive a fork."""
    return ThreadWorker("platform-auth-tests")


class MemoryService:
    """The routes that a verifier asks, over credentials in memory."""

    def __init__(self) -> None:
        self.is_available = True
        self._issued: dict[Change, tuple[bytes, Mapping[str, object]]] = {}
        self._households: dict[str, tuple[Membership, ...]] = {}

    def issue(self, name: Change, secret: str, body: Mapping[str, object]) -> None:
        """`name`: the change that is reported when the credential ends."""
        self._issued[name] = (_digest(secret), body)

    def revoke(self, name: Change) -> None:
        self._issued.pop(name, None)

    def set_households(self, user_id: str, households: Sequence[Membership]) -> None:
        self._households[user_id] = tuple(replace(household, id=household.id.lower()) for household in households)

    def read_households(self, user_id: str) -> tuple[Membership, ...]:
        return self._households.get(user_id, ())

    async def close(self) -> None:
        pass

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        path = urlsplit(request.url).path
        if path == "/internal/changes":
            return _NO_LEASE
        if not self.is_available:
            raise ConnectionError("The service in memory is cut off")
        headers = request.headers
        match path:
            case "/internal/validate-app":
                found = self._find(Change("app", headers["X-Platform-App-Id"].lower()), headers["X-Platform-App-Key"])
                if found is not None and found["target"] != json.loads(request.body)["target"]:
                    found = None
                return _answer(found, "invalid_app_credentials")
            case "/internal/validate-node":
                node_id, _, key = headers["X-API-Key"].partition(":")
                return _answer(self._find(Change("node", node_id.lower()), key), "invalid_node_credentials")
            case _:
                token = headers["Authorization"].removeprefix("Bearer ")
                found = self._find(Change("session", _read_session(token)), token)
                if found is not None:
                    households = self.read_households(str(found["user_id"]))
                    found = {**found, "households": [asdict(household) for household in households]}
                return _answer(found, "invalid_access_token")

    def _find(self, name: Change, secret: str) -> Mapping[str, object] | None:
        digest, body = self._issued.get(name, (b"", None))
        return body if compare_digest(digest, _digest(secret)) else None


def _answer(body: Mapping[str, object] | None, refusal: str) -> ServiceAnswer:
    if body is None:
        return ServiceAnswer(401, {}, json.dumps({"code": refusal}).encode())
    headers = {"x-platform-remember": "no", "x-platform-fresh-for-ms": "60000"}
    return ServiceAnswer(200, headers, json.dumps({"valid": True, **body}).encode())


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def encode_part(value: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _read_session(token: str) -> str:
    part = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["sid"])
