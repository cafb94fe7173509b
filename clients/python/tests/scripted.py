"""A transport that answers each path with what a test says, and verifiers that use it."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from platform_auth import Verifier
from platform_auth.clocks import SYSTEM_CLOCKS
from platform_auth.runtime import Channel, Runtime, ThreadWorker
from platform_auth.transport import ServiceAnswer, ServiceRequest

OWN_ID = "01985f4e-7c3a-7b52-9d1e-000000000c01"
NODE_ID = "01985f4e-7c3a-7b52-9d1e-000000000b01"
HOUSEHOLD_ID = "01985f4e-7c3a-7b52-9d1e-000000000d01"
NODE_HEADERS = {"X-API-Key": f"{NODE_ID}:pa_node_of-a-test"}
_CHANGES = {"cursor": "1", "reset": False, "lease_ms": 600, "fresh_for_ms": 500, "changes": []}


class ScriptedTransport:
    """Accepts one node, after `release` if the test holds answers back."""

    def __init__(self, is_held: bool = False, fresh_for_ms: int = 60_000) -> None:
        self.asked: list[str] = []
        self._fresh_for_ms = fresh_for_ms
        self._may_answer: Future[None] = Future()
        if not is_held:
            self.release()

    def release(self) -> None:
        self._may_answer.set_result(None)

    async def close(self) -> None:
        pass

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        path = request.url.removeprefix("http://auth.test")
        self.asked.append(path)
        if path == "/internal/changes":
            return ServiceAnswer(200, {}, json.dumps(_CHANGES).encode())
        await asyncio.shield(asyncio.wrap_future(self._may_answer))
        body = {"valid": True, "node_id": NODE_ID, "household_id": HOUSEHOLD_ID}
        headers = {"x-platform-remember": "no", "x-platform-fresh-for-ms": str(self._fresh_for_ms)}
        return ServiceAnswer(200, headers, json.dumps(body).encode())


class ScriptedVerifier(Verifier):
    """A verifier with threads of its own."""

    def __init__(self, create_transport: Callable[[], Any] = ScriptedTransport, **options: Any) -> None:
        self._create_transport = create_transport
        super().__init__(url="http://auth.test", app_id=OWN_ID, app_key="pa_app_own", service_name="recipes", **options)

    def _create_runtime(self) -> Runtime:
        transport = self._create_transport()
        names = ("polls of a test", "questions of a test", "events of a test")
        polls, questions, events = (Channel(ThreadWorker(name), transport) for name in names)
        return Runtime(SYSTEM_CLOCKS, polls, questions, events)
