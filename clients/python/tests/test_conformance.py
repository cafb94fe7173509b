"""Every scenario of clients/conformance, with a simulated clock and a scripted transport."""

import asyncio
import json
import logging
import traceback
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from fake_service import FakeService
from platform_auth.errors import RefusedError, UnavailableError, VerificationError
from platform_auth.options import Settings
from platform_auth.principals import AppPrincipal
from platform_auth.runtime import Channel, Runtime
from platform_auth.transport import ServiceRequest
from platform_auth.verifier import Verifier
from scenarios import CREDENTIALS, NAMES, PRESENTED_SECRETS, RESTRICTED_APPS, SECRETS, read_scenarios
from simulation import Simulation

# A scenario fails when its verdict is still unknown this long after the last step.
PATIENCE_MS = 10_000


class SimulatedWorker:
    """Runs its work on the one loop of the simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._loop = simulation.loop

    def call(self, work: Callable[[], object]) -> bool:
        self._loop.call_soon(work)
        return True

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        pass


class SimulatedVerifier(Verifier):
    def __init__(self, runtime: Runtime, **options: Any) -> None:
        self._runtime = runtime
        super().__init__(**options)

    def _create_runtime(self) -> Runtime:
        return self._runtime


class Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def count(self, event: str) -> int:
        return sum(record.event == event for record in self.records)  # type: ignore[attr-defined]

    def read_causes(self) -> tuple[str, ...]:
        return tuple(vars(record)["cause"] for record in self.records if vars(record)["event"] == "verifier_misconfigured")


class Run:
    """Runs one scenario, and collects everything that does not match it."""

    def __init__(self, scenario: dict[str, Any], folder: Path = Path()) -> None:
        self.mistakes: list[str] = []
        self._key_file = folder / "auth-app-key"
        self._steps = scenario["steps"]
        self._simulation = Simulation()
        self._service = FakeService(self._simulation, scenario.get("service", {}))
        self._log = Log()
        logger = logging.Logger("scenario")
        logger.addHandler(self._log)
        self._verdicts: list[asyncio.Task[None]] = []
        self._texts: list[str] = []
        options = {**scenario.get("verifier", {})}
        own_key = {"app_key": NAMES["own_app_key"]}
        if "key_file" in options:
            self._key_file.write_text(options.pop("key_file"), newline="")
            own_key = {"app_key_file": str(self._key_file)}
        channel = Channel(SimulatedWorker(self._simulation), self._service)
        self._verifier = SimulatedVerifier(
            Runtime(self._simulation.clocks, channel, channel, channel),
            url="http://auth.test",
            app_id=NAMES["own_app_id"],
            service_name="recipes",
            logger=logger,
            **own_key,
            **{"secret_key": NAMES["secret_key"], **options},
        )
        self._verifier.start()

    def run(self) -> None:
        self._simulation.run(self._play())
        if self._service.unexpected:
            self.mistakes.append(f"unexpected: {self._service.unexpected}")
        self._texts += [repr(self._verifier), str(self._verifier), repr(vars(self._verifier))]
        self._texts += [f"{record.getMessage()} {vars(record)}" for record in self._log.records]
        if any(secret in text for text in self._texts for secret in SECRETS):
            self.mistakes.append("a secret was printed")
        if any(secret in text for text in find_texts(self._verifier) for secret in PRESENTED_SECRETS):
            self.mistakes.append("a secret of a caller was kept")

    async def _play(self) -> None:
        for step in self._steps:
            is_outside = "present" not in step
            self._simulation.at(step["at"], lambda step=step: self._take(step), is_outside=is_outside)
        last_ms = self._steps[-1]["at"]
        await self._simulation.until(last_ms)
        if not all(verdict.done() for verdict in self._verdicts):
            await self._simulation.until(last_ms + PATIENCE_MS)
        presented = sum("present" in step for step in self._steps)
        known = sum(verdict.done() for verdict in self._verdicts)
        if known != presented:
            self.mistakes.append(f"{presented - known} verdicts are not known")

    def _take(self, step: dict[str, Any]) -> None:
        if "present" in step:
            self._verdicts.append(self._simulation.loop.create_task(self._present(step)))
        if "service" in step:
            self._service.replace(step["service"])
        if "key_file" in step:
            self._key_file.unlink()
            if step["key_file"] is not None:
                self._key_file.write_text(step["key_file"], newline="")
        self._simulation.jump(step.get("wall_jump_ms", 0))
        if "pause_ms" in step:
            self._simulation.stop(step["pause_ms"])
        if "suspend_ms" in step:
            self._simulation.suspend(step["suspend_ms"])
        for path, count in step.get("asked", {}).items():
            self._match(step, f"asked {path}", len(self._service.sent(path)), count)
        for event, times in step.get("logged", {}).items():
            self._match(step, f"logged {event}", self._log.count(event), times)
        if "causes" in step:
            self._match(step, "causes", self._log.read_causes(), (*step["causes"],))
        if "reported" in step:
            kind, name, times = (step["reported"][field] for field in ("kind", "id", "times"))
            polls = [read_used(request.body) for request in self._service.sent("changes")]
            naming = sum(any(use["kind"] == kind and use["id"] == name for use in used) for used in polls)
            self._match(step, "reported", naming, times)
        if "last" in step:
            self._check_last(step, step["last"])

    async def _present(self, step: dict[str, Any]) -> None:
        expected = step["expect"] if isinstance(step["expect"], dict) else {"verdict": step["expect"]}
        error = None
        principal: dict[str, Any] = {}
        try:
            principal = await self._verify(step)
            verdict = "accepted"
        except RefusedError as refusal:
            verdict, error = "refused", refusal
        except UnavailableError as failure:
            verdict, error = "unavailable", failure
        except Exception as unexpected:
            verdict = repr(unexpected)
        now_ms = self._simulation.now_ms
        self._match(step, "verdict", verdict, expected["verdict"])
        if not expected.get("not_before", 0) <= now_ms <= expected.get("by", now_ms):
            self._fail(step, f"known at {now_ms}")
        for name, value in expected.get("principal", {}).items():
            found = principal.get(name)
            if (list(found) if isinstance(found, tuple) else found) != value:
                self._fail(step, f"principal.{name}: {found!r} instead of {value!r}")
        if error is not None:
            self._check_response(step, error, expected)

    async def _verify(self, step: dict[str, Any]) -> dict[str, Any]:
        present = step["present"]
        credential = CREDENTIALS[present] if isinstance(present, str) else present
        verify = {
            "app": self._verifier.verify_app,
            "node": self._verifier.verify_node,
            "user": self._verifier.verify_user,
        }[credential["door"]]
        # Hands headers over as an ASGI server does.
        pairs = [*credential["headers"], *step.get("with", [])]
        headers = [(name.lower().encode(), value.encode("utf-8")) for name, value in pairs]
        if "token_for" in step:
            return {"token": await self._verifier.token_for(headers, **step["token_for"])}
        if "demands" in step:
            return asdict(await self._verifier.verify_user(headers, **{"delegated": False, **step["demands"]}))
        if "member" in step:
            demands = step["member"]
            return asdict(await self._verifier.verify_member(headers, demands["household"], role=demands.get("role")))
        return asdict(await verify(headers))

    def _check_response(self, step: dict[str, Any], error: VerificationError, expected: dict[str, Any]) -> None:
        response = error.to_response()
        is_unavailable = isinstance(error, UnavailableError)
        code = response.body["code"]
        self._match(step, "status", response.status, 503 if is_unavailable else expected.get("status", 401))
        self._match(step, "code", code, "unavailable" if is_unavailable else expected.get("code", code))
        self._match(step, "content type", response.headers["Content-Type"], "application/problem+json")
        if response.status == 401 and not response.headers.get("WWW-Authenticate"):
            self._fail(step, "no WWW-Authenticate")
        if response.status == 503 and not response.headers.get("Retry-After"):
            self._fail(step, "no Retry-After")
        self._texts += [repr(error), repr(vars(error)), repr(response), *traceback.format_exception(error)]

    def _check_last(self, step: dict[str, Any], expected: dict[str, Any]) -> None:
        sent = self._service.sent(expected["path"])
        if not sent:
            self._fail(step, "no request")
            return
        headers = {name.lower(): value for name, value in sent[-1].headers.items()}
        body = read_body(sent[-1])
        for name, value in expected.get("headers", {}).items():
            self._match(step, name, headers.get(name.lower()), value)
        for name in expected.get("without_headers", []):
            self._match(step, name, headers.get(name.lower()), None)
        for name, value in expected.get("body", {}).items():
            self._match(step, name, body.get(name), value)
        for name in expected.get("without_body_fields", []):
            self._match(step, name, name in body, False)
        if "used" in expected:
            used = {(use["kind"], use["id"], use.get("previous")): use["ago_ms"] for use in body.get("used", [])}
            self._match(step, "uses", len(body.get("used", [])), len(expected["used"]))
            for use in expected["used"]:
                self._match(step, f"use of {use['kind']}", used.get((use["kind"], use["id"], use.get("previous"))), use["ago_ms"])

    def _match(self, step: dict[str, Any], what: str, actual: Any, expected: Any) -> None:
        is_match = expected[0] <= (actual or 0) <= expected[1] if isinstance(expected, list) else actual == expected
        if not is_match:
            self._fail(step, f"{what}: {actual!r} instead of {expected!r}")

    def _fail(self, step: dict[str, Any], what: str) -> None:
        self.mistakes.append(f"at {step['at']} ({step.get('present', '')}): {what}")


def read_body(request: ServiceRequest) -> dict[str, Any]:
    if request.headers.get("Content-Type") == "application/x-www-form-urlencoded":
        return dict(parse_qsl(request.body.decode()))
    return json.loads(request.body or b"{}")


def read_used(body: bytes) -> list[dict[str, Any]]:
    return json.loads(body).get("used", [])


def find_texts(thing: object, seen: set[int] | None = None) -> Iterator[str]:
    """Yields every text that a verifier keeps, without those of its fake service and its settings."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, Settings):
        return
    seen.add(id(thing))
    if isinstance(thing, str | bytes):
        yield thing if isinstance(thing, str) else thing.decode("latin-1")
    elif isinstance(thing, dict):
        for item in [*thing.keys(), *thing.values()]:
            yield from find_texts(item, seen)
    elif isinstance(thing, list | tuple | set):
        for item in thing:
            yield from find_texts(item, seen)
    elif type(thing).__module__.startswith("platform_auth.") or isinstance(thing, Verifier):
        slots = [name for base in type(thing).__mro__ for name in getattr(base, "__slots__", ())]
        for name in [*getattr(thing, "__dict__", {}), *slots]:
            yield from find_texts(getattr(thing, name, None), seen)


SCENARIOS = read_scenarios()


@pytest.mark.parametrize("scenario", [pytest.param(data, id=f"{rule}: {data['name']}") for rule, data in SCENARIOS])
def test_scenario(scenario: dict[str, Any], tmp_path: Path) -> None:
    run = Run(scenario, tmp_path)
    run.run()
    assert run.mistakes == []


@pytest.mark.parametrize("given", [app for app in RESTRICTED_APPS if app["asked"] is not None])
def test_judges_the_scopes_of_an_app_as_the_service_does(given: dict[str, Any]) -> None:
    scopes = None if given["scopes"] is None else tuple(given["scopes"])
    principal = AppPrincipal(NAMES["app_id"], "meals", "recipes", scopes)
    assert principal.has_scope(given["asked"]) is given["accepted"]


def test_every_rule_has_scenarios() -> None:
    assert {rule for rule, _ in SCENARIOS} >= {f"V{number}" for number in range(1, 10)}


def test_finds_what_a_verifier_remembers(tmp_path: Path) -> None:
    """Proves that the scenarios would notice a secret that is kept."""
    run = Run({"name": "", "steps": [{"at": 10, "present": "node", "expect": "accepted"}]}, tmp_path)
    run.run()
    assert NAMES["node_id"] in set(find_texts(run._verifier))
