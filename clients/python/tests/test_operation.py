"""What an operator sees, in log lines and counters, and what long-lived connections are told."""

import asyncio
import gc
import json
import logging
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Depends, FastAPI, WebSocket
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from prometheus_client import CollectorRegistry, Counter, generate_latest

from platform_auth import Node, RefusedError, UnavailableError, Verifier
from platform_auth.open_telemetry import CountsObserver
from platform_auth.transport import ServiceAnswer, ServiceRequest
from scripted import HOUSEHOLD_ID, NODE_HEADERS, NODE_ID, ScriptedTransport, ScriptedVerifier
from test_flood import run

PATIENCE_SECONDS = 60


class FailingTransport(ScriptedTransport):
    failure: Exception = ConnectionError("refused")

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        if request.url.endswith("/changes"):
            return await super().send(request)
        raise self.failure


def test_tells_of_an_unexpected_error_its_class_message_and_place_once_and_no_credential(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transport = FailingTransport()
    verifier = ScriptedVerifier(lambda: transport)
    secret = NODE_HEADERS["X-API-Key"]
    token = "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl"
    own = "pa_app_own"
    failures = [
        ConnectionError("an outage"),
        TypeError(f"no loop\n for {secret.split(':')[1]!r}, {own}, {token}, and {'a1' * 20}"),
        TypeError("again"),
        KeyError("another"),
    ]
    for failure in failures:
        transport.failure = failure
        with pytest.raises(UnavailableError):
            verifier.verify_node_sync(NODE_HEADERS)
    verifier.close()
    failed = [vars(record) for record in caplog.records if vars(record).get("event") == "verifier_failed"]
    assert [(one["error"], one["detail"]) for one in failed] == [
        ("TypeError", "no loop for '[redacted]', [redacted], [redacted] and [redacted]"),
        ("KeyError", "'another'"),
    ]
    assert all(re.fullmatch(r"tests/test_operation\.py:\d+ send", one["where"]) for one in failed)
    assert {one["service"] for one in failed} == {"recipes"}
    assert not any(part in caplog.text for part in (*secret.split(":"), own, token, "a1a1"))


def test_tells_time_and_service_in_each_log_line_also_without_a_handler(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.Logger("of its own")
    verifier = ScriptedVerifier(FailingPolls, logger=logger)
    with pytest.raises(UnavailableError):
        verifier.verify_node_sync(NODE_HEADERS)
    verifier.close()
    line = capfd.readouterr().err.splitlines()[0]
    assert re.match(r"verifier_polls_not_answered time=\d{4}-\d\d-\d\dT[\d:.]{12}Z service='recipes' ", line), line


class FailingPolls(ScriptedTransport):
    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        raise ConnectionError("refused")


class FailingHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("of the handler")


class FailingFirstPoll(ScriptedTransport):
    def __init__(self) -> None:
        super().__init__()
        self.is_polled_again = threading.Event()

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        answer = await super().send(request)
        polls = self.asked.count("/internal/changes")
        if request.url.endswith("/changes") and polls == 1:
            raise ConnectionError("refused")
        if polls > 2:
            self.is_polled_again.set()
        return answer


def test_goes_on_polling_when_its_logger_fails(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.Logger("failing")
    logger.addHandler(FailingHandler())
    transport = FailingFirstPoll()
    verifier = ScriptedVerifier(lambda: transport, logger=logger)
    # Its first use starts the polls.
    verifier.verify_node_sync(NODE_HEADERS)
    assert transport.is_polled_again.wait(PATIENCE_SECONDS)
    verifier.close()
    assert "The logger of the verifier failed: RuntimeError('of the handler')" in capfd.readouterr().err


def test_counts_verdicts_by_door_and_tells_a_hook_whose_failure_changes_none(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[tuple[str, str]] = []

    def hear(door: str, verdict: str) -> None:
        heard.append((door, verdict))
        raise RuntimeError("of the hook")

    verifier = ScriptedVerifier(CountedTransport, on_verdict=hear)
    for _ in range(3):
        verifier.verify_node_sync([(b"x-api-key", NODE_HEADERS["X-API-Key"].encode())])
    for headers in ({}, {"X-API-Key": "a:b"}):
        with pytest.raises(RefusedError):
            verifier.verify_node_sync(headers)
    with pytest.raises(RefusedError):
        verifier.verify_any_sync({}, "user", "app")
    with pytest.raises(UnavailableError):
        verifier.verify_app_sync({"X-Platform-App-Id": "a", "X-Platform-App-Key": "b"})
    counts = verifier.read_counts()
    assert counts["node"] == {"accepted": 3, "refused": 2, "unavailable": 0}
    assert counts["user"] == {"accepted": 0, "refused": 1, "unavailable": 0}
    assert counts["app"] == {"accepted": 0, "refused": 0, "unavailable": 1}
    assert verifier.read_counts() == counts
    accepted, refused = ("node", "accepted"), ("node", "refused")
    assert heard == [accepted, accepted, accepted, refused, refused, ("user", "refused"), ("app", "unavailable")]
    assert sum(vars(record).get("event") == "verifier_failed" for record in caplog.records) == 1
    verifier.close()


def verify_twice(verifier: Verifier) -> None:
    verifier.verify_node_sync(NODE_HEADERS)
    with pytest.raises(RefusedError):
        verifier.verify_user_sync({})


def test_prometheus_has_the_verdicts_as_the_readme_says() -> None:
    registry = CollectorRegistry()
    verdicts = Counter("auth_verdicts", "", ["door", "verdict"], registry=registry)
    verifier = ScriptedVerifier(CountedTransport, on_verdict=lambda *labels: verdicts.labels(*labels).inc())
    verify_twice(verifier)
    verifier.close()
    text = generate_latest(registry).decode()
    assert 'auth_verdicts_total{door="node",verdict="accepted"} 1.0' in text
    assert 'auth_verdicts_total{door="user",verdict="refused"} 1.0' in text


def test_opentelemetry_has_the_verdicts_also_when_its_provider_is_set_later() -> None:
    reader = InMemoryMetricReader()
    verifier = ScriptedVerifier(CountedTransport)
    set_meter_provider(MeterProvider([reader]))

    def read() -> dict[object, int | float]:
        data = reader.get_metrics_data()
        metrics = [one for resource in data.resource_metrics for scope in resource.scope_metrics for one in scope.metrics]
        assert [metric.name for metric in metrics] == ["platform_auth.verdicts"]
        points = [point for point in metrics[0].data.data_points if isinstance(point, NumberDataPoint) and point.attributes]
        return {(point.attributes["door"], point.attributes["verdict"]): point.value for point in points}

    before = read()
    verify_twice(verifier)
    changed = {name: value - before[name] for name, value in read().items() if value != before[name]}
    assert changed == {("node", "accepted"): 1, ("user", "refused"): 1}
    after = read()
    verifier.close()
    del verifier
    gc.collect()
    assert read() == after


def test_verifiers_count_without_the_api_of_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    CountsObserver().add({})


class CountedTransport(ScriptedTransport):
    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        if request.url.endswith("/validate-app"):
            return ServiceAnswer(503, {}, b"")
        if request.url.endswith("/validate-node") and not request.headers["X-API-Key"].startswith(NODE_ID):
            return ServiceAnswer(401, {}, b'{"code": "invalid_node_credentials"}')
        return await super().send(request)


def test_counts_what_threads_verify_at_once() -> None:
    verifier = Verifier.for_tests()
    node = verifier.issue_node()
    threads = [threading.Thread(target=lambda: [verifier.verify_node_sync(node.headers) for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verifier.read_counts()["node"]["accepted"] == 400


def test_is_misconfigured_with_the_name_of_another_service() -> None:
    """The service would refuse every key, so the verifier answers 503, and one log line names both services."""
    caller = {"like": "reset", "after_ms": 50, "headers": {"X-Platform-Caller": "ocr"}}
    steps = [
        # Also before the first poll is answered.
        {"at": 10, "present": "app", "expect": "unavailable"},
        {"at": 500, "present": "node", "expect": "unavailable"},
        {"at": 510, "logged": {"verifier_misconfigured": 1}, "causes": ["SERVICE_NAME"]},
    ]
    assert run({"service": {"changes": [caller], "validate-app": ["app_no"]}, "steps": steps}) == []
    own = {"like": "reset", "headers": {"X-Platform-Caller": "recipes"}}
    steps = [{"at": 10, "present": "app", "expect": "accepted"}, {"at": 500, "causes": []}]
    assert run({"service": {"changes": [own]}, "steps": steps}) == []


class ChangingTransport(ScriptedTransport):
    """Reports changes, and refuses the node once it is revoked."""

    def __init__(self) -> None:
        super().__init__()
        self.is_revoked = False
        self.is_available = True
        self.reports: list[dict[str, object]] = []

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        if request.url.endswith("/internal/changes"):
            report = self.reports.pop(0) if self.reports else {}
            body = {"cursor": "1", "reset": False, "lease_ms": 60, "fresh_for_ms": 60_000, "changes": [], **report}
            return ServiceAnswer(200, {}, json.dumps(body).encode())
        self.asked.append("node")
        if not self.is_available:
            return ServiceAnswer(503, {}, b"")
        if self.is_revoked:
            return ServiceAnswer(401, {}, b'{"code": "invalid_node_credentials"}')
        body = {"valid": True, "node_id": NODE_ID, "household_id": HOUSEHOLD_ID}
        return ServiceAnswer(200, {"x-platform-fresh-for-ms": "60000"}, json.dumps(body).encode())


CHANGE: dict[str, object] = {"changes": [{"kind": "node", "id": NODE_ID}]}
RESET: dict[str, object] = {"reset": True}


async def eventually(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_true():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("report", [CHANGE, RESET])
def test_tells_a_connection_once_that_its_key_has_ended(report: dict[str, object]) -> None:
    transport = ChangingTransport()
    verifier = ScriptedVerifier(lambda: transport)
    told: list[str] = []

    async def play() -> None:
        loop_thread = threading.get_ident()
        for name in ("here", "closed"):
            watch = verifier.on_ended(NODE_HEADERS, lambda name=name: told.append(f"{name} {threading.get_ident() == loop_thread}"))
        watch.close()
        await eventually(lambda: len(transport.asked) >= 1)
        # A change that ended nothing, or an outage, is only a reason to ask again.
        asked = len(transport.asked)
        transport.reports.append(report)
        await eventually(lambda: len(transport.asked) > asked)
        transport.is_available = False
        transport.reports.append(report)
        asked = len(transport.asked)
        await eventually(lambda: len(transport.asked) > asked)
        assert told == []
        transport.is_revoked = True
        transport.is_available = True
        await eventually(lambda: told != [])
        transport.reports += [report, report]
        await eventually(lambda: not transport.reports)

    asyncio.run(play())
    verifier.close()
    assert told == ["here True"]


def test_tells_a_connection_whose_key_ended_before_it_was_watched() -> None:
    transport = ChangingTransport()
    transport.is_revoked = True
    verifier = ScriptedVerifier(lambda: transport)
    is_told = threading.Event()
    verifier.on_ended(NODE_HEADERS, is_told.set)
    assert is_told.wait(PATIENCE_SECONDS)
    verifier.close()
    with pytest.raises(RefusedError):
        verifier.on_ended({}, is_told.set)


class HoldingTransport(ChangingTransport):
    """Holds the first answer about the node back until it is released."""

    is_released = False

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        answer = await super().send(request)
        while self.asked == ["node"] and not request.url.endswith("/internal/changes") and not self.is_released:
            await asyncio.sleep(0.01)
        return answer


def test_tells_a_connection_whose_key_ended_while_an_older_question_was_in_flight() -> None:
    transport = HoldingTransport()
    verifier = ScriptedVerifier(lambda: transport)
    is_told = threading.Event()

    async def play() -> None:
        accepted = asyncio.create_task(verifier.verify_node(NODE_HEADERS))
        await eventually(lambda: transport.asked == ["node"])
        verifier.on_ended(NODE_HEADERS, is_told.set)
        # Time for the check of the connection to join the question in flight.
        await asyncio.sleep(0.1)
        transport.is_revoked = True
        transport.is_released = True
        assert (await accepted).node_id == NODE_ID
        await eventually(is_told.is_set)

    asyncio.run(play())
    verifier.close()
    assert transport.asked == ["node", "node"]


def create_stream(auth: Verifier) -> FastAPI:
    """Copied from docs/verifiers.md."""
    api = FastAPI()

    @api.websocket("/stream")
    async def stream(socket: WebSocket, caller: Node = Depends(auth.node)) -> None:
        await socket.accept()
        ended = asyncio.Event()
        watch = auth.on_ended(socket.scope["headers"], ended.set)
        try:
            await socket.send_text(caller.node_id)
            await ended.wait()
            await socket.close(1008, "The credential has ended")
        finally:
            watch.close()

    return api


def test_a_websocket_closes_when_its_key_is_revoked() -> None:
    auth = Verifier.for_tests()
    node = auth.issue_node()
    headers = [(name.lower().encode(), value.encode()) for name, value in node.headers.items()]
    scope = {"type": "websocket", "path": "/stream", "headers": headers, "query_string": b"", "subprotocols": []}
    sent: asyncio.Queue[Any] = asyncio.Queue()

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def play() -> None:
        serving = asyncio.create_task(create_stream(auth)(scope, receive, sent.put))
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert [(await sent.get())["type"] for _ in range(2)] == ["websocket.accept", "websocket.send"]
            auth.revoke(node)
            assert (await sent.get())["code"] == 1008
            await serving

    asyncio.run(play())
    auth.close()


class RestrictedApp(ScriptedTransport):
    """Knows one key with one scope, and collects the uses that polls report."""

    def __init__(self) -> None:
        super().__init__()
        self.reported: list[dict[str, object]] = []
        self.refused_polls = 0

    def refuses(self, uses: list[dict[str, object]]) -> bool:
        return any(not re.fullmatch("[a-z][a-z0-9._:-]{0,63}", str(use.get("scope", "x"))) for use in uses)

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        if request.url.endswith("/internal/changes"):
            uses = json.loads(request.body).get("used", [])
            if self.refuses(uses):
                self.refused_polls += 1
                return ServiceAnswer(400, {}, b'{"code": "validation_failed"}')
            self.reported += uses
            return await super().send(request)
        body = {"valid": True, "app_id": NODE_ID, "caller": "meals", "target": "recipes", "scopes": ["documents:read"]}
        remember = {"x-platform-remember": "yes", "x-platform-expires-in": "60"}
        return ServiceAnswer(200, {"x-platform-fresh-for-ms": "60000", **remember}, json.dumps(body).encode())


APP_HEADERS = {"X-Platform-App-Id": NODE_ID, "X-Platform-App-Key": "pa_app_of-a-caller"}


def test_tells_with_the_polls_when_a_scope_was_last_asked_for() -> None:
    transport = RestrictedApp()
    verifier = ScriptedVerifier(lambda: transport)
    verifier.verify_app_sync(APP_HEADERS)
    # A scope that was refused is not reported: the service notes none either.
    for scope in ("documents:write", "documents:write", "Not a scope", ""):
        with pytest.raises(RefusedError):
            verifier.verify_app_sync(APP_HEADERS, scope=scope)
    verifier.verify_app_sync(APP_HEADERS, scope="documents:read")
    asyncio.run(eventually(lambda: any("scope" in use for use in transport.reported)))
    scoped = {(use["kind"], use["id"], use["scope"]) for use in transport.reported if "scope" in use}
    assert scoped == {("app", NODE_ID, "documents:read")}
    assert transport.refused_polls == 0
    verifier.close()


def test_reports_no_use_again_that_the_service_could_not_read() -> None:
    class Older(RestrictedApp):
        def refuses(self, uses: list[dict[str, object]]) -> bool:
            return bool(uses) and self.refused_polls == 0

    transport = Older()
    verifier = ScriptedVerifier(lambda: transport)
    verifier.verify_app_sync(APP_HEADERS, scope="documents:read")
    asyncio.run(eventually(lambda: transport.refused_polls == 1))
    asyncio.run(eventually(lambda: verifier.verify_app_sync(APP_HEADERS).caller == "meals" and transport.reported != []))
    assert not any("scope" in use for use in transport.reported)
    verifier.close()
