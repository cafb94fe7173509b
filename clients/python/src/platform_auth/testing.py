"""An authentication service in memory, for the tests of a service: the real verdicts, without a network."""

import asyncio
import base64
import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from hmac import compare_digest
from itertools import takewhile
from typing import Any, Generic, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

from platform_auth.delegation import DELEGATED_TYPE
from platform_auth.lease import Change
from platform_auth.principals import AnyPrincipal, DelegatedUserPrincipal, Membership
from platform_auth.runtime import ThreadWorker
from platform_auth.transport import ServiceAnswer, ServiceRequest

Identity = TypeVar("Identity", bound=AnyPrincipal)
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


@dataclass(frozen=True)
class _Delivery:
    cursor: str
    # None: a reset.
    event: Mapping[str, object] | None
    acknowledged: "Future[None]"


class MemoryEvents:
    """Events that were delivered, until they are acknowledged. Safe with threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._waiting: list[_Delivery] = []
        # Done when something is delivered.
        self._delivered: Future[None] = Future()

    def add(self, event: Mapping[str, object] | None) -> "Future[None]":
        acknowledged: Future[None] = Future()
        with self._lock:
            self._count += 1
            self._waiting.append(_Delivery(str(self._count), event, acknowledged))
            delivered, self._delivered = self._delivered, Future()
        delivered.set_result(None)
        return acknowledged

    async def answer(self, after: str | None) -> ServiceAnswer:
        """Waits until there is something to answer."""
        with self._lock:
            count = sum(int(delivery.cursor) <= int(after or 0) for delivery in self._waiting)
            done, self._waiting = self._waiting[:count], self._waiting[count:]
        for delivery in done:
            delivery.acknowledged.set_result(None)
        while True:
            with self._lock:
                waiting, delivered = self._waiting, self._delivered
            if waiting:
                return _tell(waiting)
            await asyncio.shield(asyncio.wrap_future(delivered))


def _tell(waiting: Sequence[_Delivery]) -> ServiceAnswer:
    """A reset is an answer of its own."""
    if waiting[0].event is None:
        body = {"events": [], "more": False, "reset": True, "cursor": waiting[0].cursor}
    else:
        told = takewhile(lambda delivery: delivery.event is not None, waiting)
        events = [{**(delivery.event or {}), "cursor": delivery.cursor} for delivery in told]
        body = {"events": events, "more": False, "reset": False}
    return ServiceAnswer(200, {}, json.dumps(body).encode())


class MemoryService:
    """The routes that a verifier asks, over credentials in memory."""

    def __init__(self, service_name: str) -> None:
        self.is_available = True
        self.events = MemoryEvents()
        self._service_name = service_name
        self._issued: dict[Change, tuple[bytes, Mapping[str, object]]] = {}
        self._delegated: dict[bytes, dict[str, object]] = {}
        self._households: dict[str, tuple[Membership, ...]] = {}

    def issue(self, name: Change, secret: str, body: Mapping[str, object]) -> None:
        """`name`: the change that is reported when the credential ends."""
        self._issued[name] = (_digest(secret), body)

    def issue_delegated(self, principal: DelegatedUserPrincipal) -> str:
        link = principal.chain[0]
        act = {"sub": link.service, "client_id": link.app_id}
        ids = {"user_id": principal.user_id, "session_id": principal.session_id}
        token = _sign_nothing({"sub": principal.user_id, "sid": principal.session_id, "act": act})
        granted = {"caller": principal.caller, "scopes": list(principal.scopes), "act": act}
        self._delegated[_digest(token)] = {**ids, "amr": list(principal.amr), **granted}
        return token

    def revoke(self, name: Change) -> None:
        """Of a key, a session, or the pair of a delegated token, which is also an app's key."""
        self._issued.pop(name, None)
        for digest, body in list(self._delegated.items()):
            act = cast("Mapping[str, object]", body["act"])
            if name in (Change("session", str(body["session_id"])), Change("app", str(act["client_id"]))):
                del self._delegated[digest]

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
            case "/internal/events":
                return await self.events.answer(json.loads(request.body).get("after"))
            case "/internal/token":
                return self._exchange({name: values[0] for name, values in parse_qs(request.body.decode()).items()}, headers)
            case _:
                token = headers["Authorization"].removeprefix("Bearer ")
                delegated = self._delegated.get(_digest(token))
                if delegated is not None or _is_delegated(token):
                    return _answer(delegated, "invalid_access_token")
                found = self._find(Change("session", _read_session(token)), token)
                if found is not None:
                    households = self.read_households(str(found["user_id"]))
                    found = {**found, "households": [asdict(household) for household in households]}
                return _answer(found, "invalid_access_token")

    def _exchange(self, form: Mapping[str, str], headers: Mapping[str, str]) -> ServiceAnswer:
        """Allows every target and scope."""
        token, scope = form["subject_token"], form.get("scope", "")
        subject = self._delegated.get(_digest(token)) or (
            None if _is_delegated(token) else self._find(Change("session", _read_session(token)), token)
        )
        if subject is None:
            refusal = {"error": "invalid_request", "code": "invalid_subject_token"}
            return ServiceAnswer(400, {}, json.dumps(refusal).encode())
        act: dict[str, object] = {"sub": self._service_name, "client_id": headers["X-Platform-App-Id"]}
        if "act" in subject:
            act["act"] = subject["act"]
        ids = {"sub": subject["user_id"], "sid": subject["session_id"]}
        issued = _sign_nothing({**ids, "aud": form["audience"], "scope": scope, "act": act})
        body = {"access_token": issued, "token_type": "Bearer", "expires_in": 300, "scope": scope}
        return ServiceAnswer(200, {}, json.dumps(body).encode())

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


def _is_delegated(token: str) -> bool:
    return _decode_part(token, 0).get("typ") == DELEGATED_TYPE


def _sign_nothing(claims: Mapping[str, object]) -> str:
    """No key signs it: the service in memory judges it."""
    header = encode_part({"alg": "ES256", "typ": DELEGATED_TYPE})
    return f"{header}.{encode_part(claims)}.{secrets.token_urlsafe()}"


def _read_session(token: str) -> str:
    return str(_decode_part(token, 1)["sid"])


def _decode_part(token: str, index: int) -> Mapping[str, object]:
    part = token.split(".")[index]
    return cast("Mapping[str, object]", json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))
