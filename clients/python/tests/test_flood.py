"""
Strangers send random keys, and callers that are remembered, or were valid recently, do not suffer. Judged by counts,
never by time.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from platform_auth import UnavailableError
from platform_auth.slots import Place, Slots, to_network
from platform_auth.transport import ServiceAnswer, ServiceRequest
from scripted import HOUSEHOLD_ID, NODE_HEADERS, NODE_ID, ScriptedVerifier
from test_conformance import Run

pytestmark = pytest.mark.usefixtures("patient")
NODE = [(b"x-api-key", NODE_HEADERS["X-API-Key"].encode())]
# A long lease, polled often.
_CHANGES = {"cursor": "1", "reset": False, "lease_ms": 60, "fresh_for_ms": 60_000, "changes": []}
_YES = {"x-platform-remember": "yes", "x-platform-expires-in": "60", "x-platform-fresh-for-ms": "60000"}


class Besieged:
    """A service that knows one node, and holds answers about others until the test releases them."""

    def __init__(self) -> None:
        self.polls = 0
        self.asked: list[str] = []
        self._may_answer = threading.Event()
        self.is_blocking = False

    def release(self) -> None:
        self._may_answer.set()

    async def close(self) -> None:
        pass

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        if request.url.endswith("/internal/changes"):
            self.polls += 1
            return ServiceAnswer(200, {}, json.dumps(_CHANGES).encode())
        node_id = request.headers["X-API-Key"].split(":")[0]
        self.asked.append(node_id)
        if node_id == NODE_ID:
            return ServiceAnswer(200, _YES, json.dumps({"valid": True, "node_id": node_id, "household_id": HOUSEHOLD_ID}).encode())
        if self.is_blocking:
            self._may_answer.wait()
        while not self._may_answer.is_set():
            await asyncio.sleep(0.01)
        return ServiceAnswer(401, {}, b'{"code": "invalid_node_credentials"}')


def make_key() -> list[tuple[bytes, bytes]]:
    return [(b"x-api-key", f"{uuid4()}:pa_node_random".encode())]


async def eventually(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_true():
            await asyncio.sleep(0.01)


def besiege(play: Callable[[ScriptedVerifier, Besieged], Any], **options: Any) -> None:
    service = Besieged()
    verifier = ScriptedVerifier(lambda: service, **options)
    try:
        asyncio.run(play(verifier, service))
    finally:
        service.release()
        verifier.close()


def test_polls_and_remembers_while_questions_block_their_thread() -> None:
    async def play(verifier: ScriptedVerifier, service: Besieged) -> None:
        await verifier.verify_node(NODE)
        service.is_blocking = True
        stranger = asyncio.create_task(verifier.verify_node(make_key()))
        await eventually(lambda: len(service.asked) == 2)
        before = service.polls
        await eventually(lambda: service.polls >= before + 3)
        for _ in range(100):
            assert (await verifier.verify_node(NODE)).node_id == NODE_ID
        assert len(service.asked) == 2
        service.release()
        with pytest.raises(Exception, match="not valid|unavailable"):
            await stranger

    besiege(play)


def test_refuses_what_is_beyond_the_bound_before_the_worker_is_entered() -> None:
    async def play(verifier: ScriptedVerifier, service: Besieged) -> None:
        await verifier.verify_node(NODE)
        worker = verifier._core._runtime.questions.worker  # type: ignore[union-attr]
        entered = 0
        call = worker.call

        def count(work: Callable[[], object]) -> bool:
            nonlocal entered
            entered += 1
            return call(work)

        worker.call = count  # type: ignore[method-assign]
        flood = [asyncio.create_task(verifier.verify_node(make_key())) for _ in range(500)]
        await eventually(lambda: sum(one.done() for one in flood) >= 500 - 40)
        assert entered == 24, "a quarter of 32 is kept for credentials that were valid recently"
        assert {type(one.exception()) for one in flood if one.done()} == {UnavailableError}
        service.release()
        await asyncio.wait(flood)

    besiege(play, max_questions=40)


def test_a_flood_from_one_address_leaves_places_to_others_and_to_keys_that_were_valid() -> None:
    async def play(verifier: ScriptedVerifier, service: Besieged) -> None:
        await verifier.verify_node(NODE, address="192.0.2.7")
        flood = [asyncio.create_task(verifier.verify_node(make_key(), address="192.0.2.66")) for _ in range(200)]
        await eventually(lambda: sum(one.done() for one in flood) >= 200 - 40)
        # All places that strangers may have are taken, and the key is not in memory any more.
        verifier._core.nodes.evict_all()  # type: ignore[union-attr]
        assert (await verifier.verify_node(NODE, address="192.0.2.66")).node_id == NODE_ID
        keys = [make_key() for _ in range(3)]
        others = [asyncio.create_task(verifier.verify_node(key, address="198.51.100.1")) for key in keys]
        await eventually(lambda: sum(one.done() for one in flood) >= 200 - 37)
        service.release()
        await asyncio.wait([*flood, *others])
        assert {one.exception().code for one in others} == {"invalid_node_credentials"}  # type: ignore[union-attr]

    besiege(play, max_questions=40)


def test_ends_all_that_wait_when_the_verifier_is_closed() -> None:
    async def play(verifier: ScriptedVerifier, service: Besieged) -> None:
        waiting = [asyncio.create_task(verifier.verify_node(make_key())) for _ in range(2_000)]
        await eventually(lambda: len(service.asked) == 24)
        await asyncio.to_thread(verifier.close)
        await asyncio.wait(waiting)
        assert {type(one.exception()) for one in waiting} == {UnavailableError}

    besiege(play, max_questions=2_000)


def test_networks_take_turns_and_the_newest_of_the_one_with_most_is_dropped() -> None:
    slots: Slots[Place] = Slots(8)

    def enter(network: str, was_valid: bool = False) -> str:
        dropped = slots.enter(Place(network, was_valid))
        running.extend(slots.take_next())
        return dropped.network if dropped else ""

    running: list[Place] = []
    assert [enter("a") for _ in range(10)] == [*[""] * 8, "a", "a"]
    assert [enter("b"), enter("b")] == ["a", "b"]
    assert [place.network for place in running] == ["a"] * 6
    # A key that was valid recently has reserved places, and a stranger makes room for it.
    assert enter("a", was_valid=True) == "a"
    assert [place.was_valid for place in running] == [*[False] * 6, True]
    assert enter("c") == "c"
    for place in running[:3]:
        slots.leave(place)
    assert [place.network for place in slots.take_next()] == ["b"]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
        ("fd00::1", "fd00::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("testclient", "testclient"),
        ("", ""),
        (None, ""),
    ],
)
def test_takes_the_network_of_an_address(address: str | None, network: str) -> None:
    assert to_network(address) == network


def run(scenario: dict[str, Any]) -> list[str]:
    played = Run({"name": "", **scenario})
    played.run()
    return played.mistakes


@pytest.mark.parametrize(("present", "path"), [("app", "validate-app"), ("node", "validate-node"), ("alice", "validate-user")])
def test_asks_again_in_the_background_for_a_credential_that_is_used_before_it_ends(present: str, path: str) -> None:
    yes = {"validate-app": "app_yes", "validate-node": "node_yes", "validate-user": "alice_yes"}[path]
    steps = [
        {"at": 10, "present": present, "expect": "accepted"},
        {"at": 30_000, "present": present, "expect": "accepted"},
        {"at": 44_000, "asked": {path: 1}},
        {"at": 55_000, "present": present, "expect": {"verdict": "accepted", "by": 55_000}},
        {"at": 55_100, "present": present, "expect": {"verdict": "accepted", "by": 55_100}},
        # By now the answer to the first question alone would have ended.
        {"at": 61_000, "present": present, "expect": {"verdict": "accepted", "by": 61_000}},
        {"at": 61_010, "asked": {path: 2}},
        # A credential that is not used is not asked for again.
        {"at": 200_000, "asked": {path: 2}},
    ]
    slow = {"like": yes, "after_ms": 400}
    assert run({"service": {path: [slow]}, "steps": steps}) == []
