"""An authentication service in memory, for the tests of a service: the real verdicts, without a network."""

import base64
import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from platform_auth.principals import Principal
from platform_auth.runtime import Result
from platform_auth.transport import ServiceAnswer, ServiceRequest

Identity = TypeVar("Identity", bound=Principal)


@dataclass(frozen=True)
class TestCredential(Generic[Identity]):
    """A credential of the test: the headers that present it, and the caller that it identifies."""

    headers: dict[str, str] = field(repr=False)
    principal: Identity

    __test__ = False


class CallerWorker:
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


class MemoryService:
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


def encode_part(value: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _read_session(token: str) -> str:
    part = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["sid"])
