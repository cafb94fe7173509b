"""What happened, by a simulated clock; and the events of a verifier for tests, with threads."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from platform_auth import EventSubject, PlatformEvent, Verifier, VerifierConfigurationError
from platform_auth.runtime import Channel, Runtime
from platform_auth.transport import ServiceAnswer, ServiceRequest
from scripted import NODE_HEADERS, NODE_ID, OWN_ID, ScriptedTransport, ScriptedVerifier
from simulation import Simulation
from test_conformance import Log, SimulatedVerifier, SimulatedWorker

PATIENCE_SECONDS = 60
CHANGES = {"cursor": "1", "reset": False, "lease_ms": 0, "fresh_for_ms": 500, "changes": []}
Answer = dict[str, Any] | ServiceAnswer | Exception


def tell(cursor: str) -> dict[str, Any]:
    return {
        "id": f"{cursor}:user.deleted",
        "type": "user.deleted",
        "time": "2026-01-01T00:00:00.000Z",
        "subject": {"kind": "user", "id": f"user-{cursor}"},
        "data": {},
        "cursor": cursor,
    }


def batch(*cursors: str) -> dict[str, Any]:
    return {"events": [tell(cursor) for cursor in cursors], "more": False, "reset": False}


def problem(status: int, code: str, **headers: str) -> ServiceAnswer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ServiceAnswer(status, named, json.dumps({"code": code}).encode())


def to_answer(answer: dict[str, Any] | ServiceAnswer) -> ServiceAnswer:
    return answer if isinstance(answer, ServiceAnswer) else ServiceAnswer(200, {}, json.dumps(answer).encode())


def refuse_reset() -> None:
    raise AssertionError("There was no reset")


@dataclass(frozen=True)
class Poll:
    after: str | None
    consumer: str
    # By the simulated clock.
    at: float


class Reading:
    """Answers polls for events with what a test lists, then waits as the service does."""

    def __init__(self, *answers: Answer) -> None:
        self.simulation = Simulation()
        self.polls: list[Poll] = []
        self.requests: list[ServiceRequest] = []
        self.handled: list[str] = []
        self._answers = list(answers)
        self._log = Log()
        logger = logging.Logger("of a test")
        logger.addHandler(self._log)
        channel = Channel(SimulatedWorker(self.simulation), self)
        self.verifier = SimulatedVerifier(
            Runtime(self.simulation.clocks, channel, channel, channel),
            url="http://auth.test",
            app_id=OWN_ID,
            app_key="pa_app_own",
            service_name="recipes",
            logger=logger,
        )

    def read_logged(self) -> list[str]:
        return [vars(record)["event"] for record in self._log.records]

    def read_positions(self) -> list[str | None]:
        return [poll.after for poll in self.polls]

    def events(self) -> AsyncIterator[PlatformEvent]:
        return self.verifier.events(on_reset=refuse_reset)

    async def follow(self, bad: str = "", on_reset: Callable[[], object] = refuse_reset) -> None:
        """Iterates, and ends at the event that is bad with an error, as a consumer does that fails."""
        async for event in self.verifier.events(on_reset=on_reset):
            if event.subject.id == bad:
                raise ValueError("the consumer failed")
            self.handled.append(event.subject.id)

    async def pass_seconds(self, seconds: float) -> None:
        await self.simulation.until(self.simulation.now_ms + seconds * 1_000)

    async def close(self) -> None:
        pass

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        if request.url.endswith("/changes"):
            return to_answer(CHANGES)
        self.requests.append(request)
        body = json.loads(request.body)
        self.polls.append(Poll(body.get("after"), body["consumer"], self.simulation.now_ms / 1_000))
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, Exception):
            raise answer
        await asyncio.sleep(body["wait_seconds"] if answer is None else 0.001)
        return to_answer(batch() if answer is None else answer)


async def take(events: AsyncIterator[PlatformEvent]) -> str:
    return (await anext(events)).subject.id


def test_delivers_events_in_order_and_acknowledges_one_when_the_next_is_asked_for() -> None:
    reading = Reading(batch("1", "2"))

    async def play() -> None:
        events = reading.events()
        first = await anext(events)
        assert first == PlatformEvent(
            "1:user.deleted", "user.deleted", datetime(2026, 1, 1, tzinfo=UTC), EventSubject("user", "user-1"), {}
        )
        await reading.pass_seconds(1)
        assert await take(events) == "user-2"
        assert reading.read_positions() == [None]
        waiting = asyncio.create_task(take(events))
        await reading.pass_seconds(1)
        assert reading.read_positions() == [None, "2"]
        reading.verifier.close()
        with pytest.raises(StopAsyncIteration):
            await waiting

    reading.simulation.run(play())
    request = reading.requests[0]
    assert (request.method, request.presents_own_key, request.timeout_seconds) == ("POST", True, 30)


def test_waits_longer_for_an_answer_than_the_service_holds_it_back() -> None:
    reading = Reading()

    async def play() -> None:
        following = asyncio.create_task(reading.follow())
        await reading.pass_seconds(41)
        reading.verifier.close()
        await following

    reading.simulation.run(play())
    assert [round(poll.at) for poll in reading.polls] == [0, 20, 40]
    assert reading.read_logged() == []


def test_polls_again_for_a_slow_consumer_which_would_lose_the_subscription() -> None:
    reading = Reading(batch("1", "2"), batch("2"))

    async def play() -> None:
        events = reading.events()
        await anext(events)
        await reading.pass_seconds(11)
        assert await take(events) == "user-2"

    reading.simulation.run(play())
    assert reading.read_positions() == [None, "1"]


def test_delivers_an_event_again_after_the_consumer_failed_after_1_s_that_doubles_to_60_s_and_begins_anew() -> None:
    again = [batch("2", "9") for _ in range(7)]
    reading = Reading(batch("1", "2", "9"), *again, batch("2"), batch("3"), batch("3"))
    starts: list[float] = []

    async def fail(bad: str) -> None:
        starts.append(reading.simulation.now_ms / 1_000)
        with pytest.raises(ValueError):
            await reading.follow(bad)

    async def play() -> None:
        for _ in range(8):
            await fail("user-2")
        assert reading.handled == ["user-1"]
        # Takes the event now, and fails at the next one.
        for _ in range(2):
            await fail("user-3")

    reading.simulation.run(play())
    pauses = [round(poll.at - start) for poll, start in zip(reading.polls[1:], starts[1:], strict=False)]
    assert pauses[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert reading.handled == ["user-1", "user-2"]
    assert reading.read_positions() == [None, *["1"] * 8, "2", "2"]
    assert round(reading.polls[10].at - starts[9]) == 1
    assert len({poll.consumer for poll in reading.polls}) == 1


def test_a_later_iterator_takes_over_what_the_earlier_one_did_not_acknowledge() -> None:
    reading = Reading(batch("1"), batch("1", "2", "3"))

    async def play() -> None:
        earlier = reading.events()
        await anext(earlier)
        later = reading.events()
        assert await take(later) == "user-1"
        with pytest.raises(RuntimeError, match="A later iterator"):
            await anext(earlier)
        assert [await take(later), await take(later)] == ["user-2", "user-3"]

    reading.simulation.run(play())
    assert reading.read_positions() == [None, None]


def test_a_later_iterator_takes_over_from_one_that_waits() -> None:
    reading = Reading()

    async def play() -> None:
        waiting = asyncio.create_task(take(reading.events()))
        await reading.pass_seconds(1)
        reading._answers.append(batch("1", "2"))
        later = reading.events()
        assert [await take(later), await take(later)] == ["user-1", "user-2"]
        with pytest.raises(RuntimeError, match="A later iterator"):
            await waiting
        # Its poll was cancelled.
        assert reading.simulation.now_ms < 20_000

    reading.simulation.run(play())
    assert len(reading.polls) == 2


def test_sends_the_cursor_of_a_reset_when_the_comparison_succeeded() -> None:
    reset = {"events": [], "more": False, "reset": True, "cursor": "r"}
    reading = Reading(reset, reset, batch("1"))
    calls: list[str | None] = []

    async def compare() -> None:
        calls.append(reading.polls[-1].after)
        await asyncio.sleep(0)
        if len(calls) == 1:
            raise ValueError("the comparison failed")

    async def play() -> None:
        with pytest.raises(ValueError):
            await reading.follow(on_reset=compare)
        following = asyncio.create_task(reading.follow(on_reset=compare))
        await reading.pass_seconds(5)
        reading.verifier.close()
        await following

    reading.simulation.run(play())
    assert (calls, reading.handled) == ([None, None], ["user-1"])
    assert reading.read_positions()[:3] == [None, None, "r"]


def test_stands_by_as_long_as_the_service_says_while_another_process_reads() -> None:
    reading = Reading(batch("1"), problem(409, "events_busy", retry_after="17"), batch("5"))

    async def play() -> None:
        following = asyncio.create_task(reading.follow())
        await reading.pass_seconds(17.5)
        assert reading.handled == ["user-1", "user-5"]
        reading.verifier.close()
        await following

    reading.simulation.run(play())
    # Continues at the stored position, which the other process may have moved.
    assert reading.read_positions()[:3] == [None, "1", None]
    assert reading.polls[2].at - reading.polls[1].at >= 17
    assert reading.read_logged() == []


@pytest.mark.parametrize(
    "failure",
    [
        problem(503, "unavailable"),
        ConnectionError("refused"),
        {"events": [{}], "more": False, "reset": False},
        {"events": [{**tell("1"), "time": "never"}], "more": False, "reset": False},
        {"events": [], "more": False, "reset": True},
        problem(401, "invalid_app_credentials"),
    ],
    ids=["unavailable", "not reachable", "an unknown event", "no time", "a reset without a cursor", "a refused key"],
)
def test_backs_off_without_an_answer_and_logs_it_once(failure: Answer) -> None:
    reading = Reading(*[failure] * 10, batch("1"))

    async def play() -> None:
        following = asyncio.create_task(reading.follow())
        await reading.pass_seconds(330)
        reading.verifier.close()
        await following

    reading.simulation.run(play())
    assert reading.handled == ["user-1"]
    for index in range(10):
        longest = min(60, 2**index)
        assert 0.8 * longest <= reading.polls[index + 1].at - reading.polls[index].at <= longest + 0.01
    logged = [event for event in reading.read_logged() if event != "verifier_misconfigured"]
    assert logged == ["verifier_events_not_answered", "verifier_events_answered_again"]


def test_backs_off_as_long_as_the_service_says() -> None:
    reading = Reading(problem(503, "unavailable", retry_after="9"), batch("1"))
    reading.simulation.run(take(reading.events()))
    assert reading.polls[1].at >= 9


def test_needs_a_subscription_and_tells_what_to_write_into_the_map() -> None:
    reading = Reading(problem(403, "not_subscribed"))
    told = r"recipes: \{ events: \[user.deleted\] \}, and run platform-auth apply"
    with pytest.raises(VerifierConfigurationError, match=told):
        reading.simulation.run(reading.follow())


def test_does_not_poll_without_a_pause_when_the_service_answers_early_with_nothing() -> None:
    reading = Reading(batch(), batch(), batch("1"))
    reading.simulation.run(take(reading.events()))
    assert reading.polls[2].at >= 2


def test_needs_on_reset_which_a_thread_can_call() -> None:
    async def compare() -> None: ...

    verifier = ScriptedVerifier(ScriptedTransport)
    for read in (verifier.events, verifier.events_sync):
        with pytest.raises(TypeError):
            read()  # type: ignore[call-arg]
        with pytest.raises(VerifierConfigurationError, match="on_reset must be a function"):
            read(on_reset=None)  # type: ignore[arg-type]
    with pytest.raises(VerifierConfigurationError, match="on_reset must not be async"):
        verifier.events_sync(on_reset=compare)
    verifier.close()


def describe(event: PlatformEvent) -> str:
    return f"{event.type} {event.subject.id} {json.dumps(event.data)}"


DELIVERED = ["user.deleted alice {}", "reset", 'session.ended bob {"count": 2}']


def test_a_verifier_for_tests_delivers_events_and_tells_when_they_are_acknowledged() -> None:
    async def play() -> list[str]:
        auth = Verifier.for_tests("recipes")
        handled: list[str] = []

        async def follow() -> None:
            async for event in auth.events(on_reset=lambda: handled.append("reset")):
                handled.append(describe(event))

        following = asyncio.create_task(follow())
        deleted = auth.deliver("user.deleted", EventSubject("user", "alice"))
        reset = auth.deliver_reset()
        ended = auth.deliver("session.ended", EventSubject("user", "bob"), {"count": 2})
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*(asyncio.wrap_future(delivered) for delivered in (deleted, reset, ended)))
            auth.close()
            await following
        return handled

    assert asyncio.run(play()) == DELIVERED


def test_a_thread_reads_events_until_the_verifier_is_closed() -> None:
    auth = Verifier.for_tests("recipes")
    handled: list[str] = []

    def follow() -> None:
        for event in auth.events_sync(on_reset=lambda: handled.append("reset")):
            handled.append(describe(event))

    thread = threading.Thread(target=follow)
    thread.start()
    deleted = auth.deliver("user.deleted", EventSubject("user", "alice"))
    auth.deliver_reset()
    auth.deliver("session.ended", EventSubject("user", "bob"), {"count": 2}).result(PATIENCE_SECONDS)
    assert deleted.done()
    auth.close()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    assert handled == DELIVERED


class WaitingTransport(ScriptedTransport):
    """Holds every poll for events back."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waiting = threading.Event()

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        if request.url.endswith("/events"):
            self.is_waiting.set()
            await asyncio.Event().wait()
        return await super().send(request)


def test_closing_ends_a_loop_that_waits_in_its_own_thread() -> None:
    transport = WaitingTransport()
    verifier = ScriptedVerifier(lambda: transport)
    read: list[PlatformEvent] = []

    def follow() -> None:
        read.extend(verifier.events_sync(on_reset=refuse_reset))

    thread = threading.Thread(target=follow)
    thread.start()
    assert transport.is_waiting.wait(PATIENCE_SECONDS)
    # A poll for events that is held back delays no question.
    assert verifier.verify_node_sync(NODE_HEADERS).node_id == NODE_ID
    verifier.close()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    assert read == []
