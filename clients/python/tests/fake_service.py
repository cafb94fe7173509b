"""An authentication service that answers as a scenario says."""

import copy
import json
from typing import Any

from platform_auth.transport import ServiceAnswer, ServiceRequest
from scenarios import ANSWERS, NOTHING_HAPPENS
from simulation import Simulation

_CONNECT_TIMEOUT_MS = 500
_DEFAULTS = {
    "changes": ["reset", "quiet"],
    "validate-app": ["app_yes"],
    "validate-node": ["node_yes"],
    "validate-user": ["alice_yes"],
    "jwks": ["jwks"],
    "token": ["ocr_token"],
    "events": [NOTHING_HAPPENS],
}
_ROUTES = {
    ("POST", "http://auth.test/internal/changes"): "changes",
    ("POST", "http://auth.test/internal/validate-app"): "validate-app",
    ("POST", "http://auth.test/internal/validate-node"): "validate-node",
    ("POST", "http://auth.test/internal/validate-user"): "validate-user",
    ("GET", "http://auth.test/.well-known/jwks.json"): "jwks",
    ("POST", "http://auth.test/internal/token"): "token",
    ("POST", "http://auth.test/internal/events"): "events",
}


class FakeService:
    """The transport of a verifier."""

    def __init__(self, simulation: Simulation, service: dict[str, Any]) -> None:
        self._simulation = simulation
        self._lists = copy.deepcopy({**_DEFAULTS, **service})
        self._requests: list[tuple[str, ServiceRequest]] = []
        # By true time, in milliseconds.
        self.poll_times: list[float] = []
        self.unexpected: list[str] = []

    def replace(self, service: dict[str, Any]) -> None:
        self._lists.update(copy.deepcopy(service))

    def sent(self, path: str) -> list[ServiceRequest]:
        return [request for sent_path, request in self._requests if sent_path == path]

    async def close(self) -> None:
        pass

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        path = _ROUTES.get((request.method, request.url))
        if path is None:
            self.unexpected.append(f"{request.method} {request.url}")
            raise ConnectionError
        self._requests.append((path, request))
        if path == "events":
            self.poll_times.append(self._simulation.now_ms)
        answers = self._lists[path]
        answer = _resolve(answers.pop(0) if len(answers) > 1 else answers[0])
        failure = answer.get("fail")
        arrived = self._simulation.loop.create_future()
        if failure != "silence":
            delay_ms = _CONNECT_TIMEOUT_MS if failure == "connect_timeout" else answer.get("after_ms", 1)
            now_ms = self._simulation.now_ms
            self._simulation.at(now_ms + delay_ms, lambda: arrived.done() or arrived.set_result(None))
        await arrived
        if failure == "connect_timeout":
            raise TimeoutError
        if failure:
            raise ConnectionError
        return _to_service_answer(answer)


def _resolve(answer: Any) -> dict[str, Any]:
    if isinstance(answer, str):
        return _resolve(ANSWERS[answer])
    if "like" not in answer:
        return answer
    changes = dict(answer)
    base = _resolve(changes.pop("like"))
    headers = {**base.get("headers", {}), **changes.pop("headers", {})}
    if "replace_body" in changes:
        changes["body"] = changes.pop("replace_body")
    elif "body" in changes:
        changes["body"] = {**base["body"], **changes["body"]}
    return {**base, **changes, "headers": headers}


def _to_service_answer(answer: dict[str, Any]) -> ServiceAnswer:
    headers = {"content-type": "application/json"}
    headers |= {name.lower(): value for name, value in answer.get("headers", {}).items() if value is not None}
    text = answer["text"] if "text" in answer else json.dumps(answer.get("body"))
    return ServiceAnswer(answer.get("status", 200), headers, text.encode())
