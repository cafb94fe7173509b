"""Rule V4 with threads, and the thread of a verifier."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from math import inf

import pytest

from platform_auth import UnavailableError, UserPrincipal
from platform_auth.caches import KeyCache, TokenCache
from platform_auth.clocks import Clocks, Instant
from platform_auth.credentials import Credential, compute_fingerprint, find_node
from platform_auth.lease import Change, Lease, Renewal
from platform_auth.principals import NodePrincipal
from platform_auth.transport import ServiceAnswer, ServiceRequest
from scripted import HOUSEHOLD_ID, NODE_HEADERS, NODE_ID, ScriptedTransport, ScriptedVerifier

ALICE = UserPrincipal("alice", "session", "alice@example.org")
NODE = NodePrincipal(NODE_ID, HOUSEHOLD_ID)
FOREVER = Instant(inf, inf)
QUIET = Renewal("1", False, 0.5, 0.5, [])
CHANGED = Renewal("2", False, 0.5, 0.5, [Change("node", NODE_ID), Change("user", "alice")])
# For a mistake to show itself. A correct lock lets the other thread pass only after this time.
PATIENCE_SECONDS = 0.2


def make_key(name: str) -> Credential:
    return Credential("node", name, b"digest", {"X-API-Key": f"{name}:key"})


class Intruder:
    """Takes over a change in another thread, in the middle of what the test does."""

    def __init__(self) -> None:
        self.at_clock: Callable[[], None] = lambda: None
        self.lease = Lease(Clocks(self._read_clock, lambda: 0.0), 0)
        self.threads: list[threading.Thread] = []
        self.lease.renew(QUIET, Instant(0, 0))

    def _read_clock(self) -> float:
        work, self.at_clock = self.at_clock, lambda: None
        work()
        return 0.0

    def renew(self) -> None:
        thread = threading.Thread(target=self.lease.renew, args=(CHANGED, Instant(0, 0)))
        self.threads.append(thread)
        thread.start()
        thread.join(PATIENCE_SECONDS)

    def is_kept_out(self) -> bool:
        """Whether the change was not taken over until now."""
        return self.lease.cursor == "1"

    def join(self) -> None:
        for thread in self.threads:
            thread.join()


class InterruptedTicket(int):
    """Interrupts the caller between its look at the ticket and what it does next."""

    intruder: Intruder

    def __eq__(self, other: object) -> bool:
        is_same = int(self) == other
        self.intruder.renew()
        return is_same

    __hash__ = int.__hash__


def test_takes_over_no_lease_between_finding_a_key_and_using_it() -> None:
    intruder = Intruder()
    cache: KeyCache[NodePrincipal] = KeyCache("node", intruder.lease, 10)
    cache.remember(make_key(NODE_ID), NODE, FOREVER, intruder.lease.take_ticket())
    kept_out: list[bool] = []
    intruder.at_clock = lambda: (intruder.renew(), kept_out.append(intruder.is_kept_out()))  # type: ignore[func-returns-value]
    assert cache.recall(NODE_ID, b"digest") == NODE
    assert kept_out == [True]
    intruder.join()
    assert cache.recall(NODE_ID, b"digest") is None


def test_takes_over_no_lease_between_finding_a_token_and_using_it() -> None:
    intruder = Intruder()
    cache = TokenCache(intruder.lease, 10)
    cache.remember(b"digest", ALICE, FOREVER, intruder.lease.take_ticket())
    kept_out: list[bool] = []
    intruder.at_clock = lambda: (intruder.renew(), kept_out.append(intruder.is_kept_out()))  # type: ignore[func-returns-value]
    assert cache.recall(b"digest") == ALICE
    assert kept_out == [True]
    intruder.join()
    assert cache.recall(b"digest") is None


def test_evicts_nothing_between_the_look_at_a_ticket_and_remembering() -> None:
    intruder = Intruder()
    keys: KeyCache[NodePrincipal] = KeyCache("node", intruder.lease, 10)
    tokens = TokenCache(intruder.lease, 10)
    for remember in (
        lambda ticket: keys.remember(make_key(NODE_ID), NODE, FOREVER, ticket),
        lambda ticket: tokens.remember(b"digest", ALICE, FOREVER, ticket),
    ):
        ticket = InterruptedTicket(intruder.lease.take_ticket())
        ticket.intruder = intruder
        remember(ticket)
        intruder.join()
    assert keys.recall(NODE_ID, b"digest") is None
    assert tokens.recall(b"digest") is None


def test_evicts_the_least_recently_used_beyond_the_limit() -> None:
    lease = Lease(Clocks(lambda: 0.0, lambda: 0.0), 0)
    lease.renew(QUIET, Instant(0, 0))
    keys: KeyCache[NodePrincipal] = KeyCache("node", lease, 2)
    tokens = TokenCache(lease, 2)
    for name in ("1", "2"):
        keys.remember(make_key(name), NODE, FOREVER, lease.take_ticket())
        tokens.remember(name.encode(), ALICE, FOREVER, lease.take_ticket())
    assert keys.recall("1", b"digest")
    assert tokens.recall(b"1")
    keys.remember(make_key("3"), NODE, FOREVER, lease.take_ticket())
    tokens.remember(b"3", ALICE, FOREVER, lease.take_ticket())
    assert [bool(keys.recall(name, b"digest")) for name in ("1", "2", "3")] == [True, False, True]
    assert [bool(tokens.recall(name)) for name in (b"1", b"2", b"3")] == [True, False, True]


def test_recalls_a_key_by_its_headers_only_until_it_is_evicted_or_replaced() -> None:
    lease = Lease(Clocks(lambda: 0.0, lambda: 0.0), 0)
    lease.renew(QUIET, Instant(0, 0))
    keys: KeyCache[NodePrincipal] = KeyCache("node", lease, 10)
    key, other = make_key(NODE_ID), Credential("node", NODE_ID, b"other", {"X-API-Key": f"{NODE_ID}:other"})
    keys.remember(key, NODE, FOREVER, lease.take_ticket())
    assert keys.recall_exact(compute_fingerprint(key)) == (NODE_ID, NODE)
    keys.remember(other, NODE, FOREVER, lease.take_ticket())
    assert keys.recall_exact(compute_fingerprint(key)) is None
    assert keys.recall_exact(compute_fingerprint(other)) == (NODE_ID, NODE)
    lease.renew(CHANGED, Instant(0, 0))
    assert keys.recall_exact(compute_fingerprint(other)) is None


def test_takes_no_headers_that_arrived_twice_for_remembered_ones() -> None:
    key = make_key(NODE_ID)
    once = [(b"x-api-key", key.headers["X-API-Key"].encode())]
    assert find_node(once) == compute_fingerprint(key)
    again = [(name.title(), value) for name, value in once]
    text = [(name.decode().upper(), value.decode()) for name, value in once]
    assert [find_node(once + other) for other in (once, again, text)] == [None, None, None]
    assert [find_node(other) for other in (text, {}, tuple(once))] == [None, None, None]


def test_serves_event_loops_of_several_threads() -> None:
    verifier = ScriptedVerifier()
    verdicts: list[NodePrincipal] = []

    async def verify() -> None:
        for _ in range(20):
            verdicts.append(await verifier.verify_node(NODE_HEADERS))

    threads = [threading.Thread(target=lambda: asyncio.run(verify())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts == [NODE] * 80
    verifier.close()


def test_a_cancelled_request_does_not_take_the_answer_from_the_others() -> None:
    transport = ScriptedTransport(is_held=True)
    verifier = ScriptedVerifier(lambda: transport)

    async def play() -> None:
        first = asyncio.create_task(verifier.verify_node(NODE_HEADERS))
        second = asyncio.create_task(verifier.verify_node(NODE_HEADERS))
        while transport.asked.count("/internal/validate-node") == 0:
            await asyncio.sleep(0.01)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        verifier._core._runtime.worker.start(transport.release)  # type: ignore[union-attr]
        assert await second == NODE
        assert transport.asked.count("/internal/validate-node") == 1

    asyncio.run(play())
    verifier.close()


def test_decides_by_its_own_clock_when_its_loop_was_blocked_after_the_answer_arrived() -> None:
    fresh_for_ms = 500
    transport = ScriptedTransport(fresh_for_ms=fresh_for_ms)
    verifier = ScriptedVerifier(lambda: transport)

    async def play() -> None:
        waiting = asyncio.create_task(verifier.verify_node(NODE_HEADERS))
        await asyncio.sleep(0)
        time.sleep(2 * fresh_for_ms / 1_000)
        assert transport.asked.count("/internal/validate-node") == 1
        with pytest.raises(UnavailableError):
            await waiting

    asyncio.run(play())
    verifier.close()


class FailingTransport(ScriptedTransport):
    failure: Exception = ConnectionError("refused")

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        if request.is_poll:
            return await super().send(request)
        raise self.failure


def test_logs_an_error_that_no_rule_foresees_once_for_each_class_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transport = FailingTransport()
    verifier = ScriptedVerifier(lambda: transport)
    secret = NODE_HEADERS["X-API-Key"]

    async def play() -> None:
        for failure in (ConnectionError("an outage"), TypeError(secret), TypeError("again"), KeyError("another")):
            transport.failure = failure
            with pytest.raises(UnavailableError):
                await verifier.verify_node(NODE_HEADERS)

    asyncio.run(play())
    verifier.close()
    failed = [record for record in caplog.records if vars(record).get("event") == "verifier_failed"]
    assert [vars(record)["error"] for record in failed] == ["TypeError", "KeyError"]
    assert secret not in caplog.text


def test_requests_in_flight_are_unavailable_when_the_verifier_is_closed_and_so_are_later_ones() -> None:
    transport = ScriptedTransport(is_held=True)
    verifier = ScriptedVerifier(lambda: transport)

    async def play() -> None:
        waiting = asyncio.create_task(verifier.verify_node(NODE_HEADERS))
        while transport.asked.count("/internal/validate-node") == 0:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(verifier.close)
        with pytest.raises(UnavailableError):
            await waiting
        with pytest.raises(UnavailableError):
            await verifier.verify_node(NODE_HEADERS)

    asyncio.run(play())
    verifier.close()


def test_starts_again_in_a_forked_process() -> None:
    """In a process of its own: pytest has threads that must not be forked."""
    program = """
import asyncio, os
from scripted import NODE_HEADERS, ScriptedVerifier
verifier = ScriptedVerifier()
asyncio.run(verifier.verify_node(NODE_HEADERS))
child = os.fork()
if child == 0:
    asyncio.run(asyncio.wait_for(verifier.verify_node(NODE_HEADERS), 20))
    os._exit(7)
_, status = os.waitpid(child, 0)
asyncio.run(verifier.verify_node(NODE_HEADERS))
print(os.waitstatus_to_exitcode(status))
"""
    assert _run(program).stdout.strip() == "7"


def test_lets_the_process_end_without_being_closed() -> None:
    program = """
from platform_auth import Verifier
print(Verifier(url="http://127.0.0.1:1", app_id="own", app_key="own", service_name="recipes"))
"""
    ended = _run(program)
    assert (ended.returncode, ended.stdout) == (0, "Verifier(url='http://127.0.0.1:1', service_name='recipes')\n")
    lines = [line for line in ended.stderr.splitlines() if "verifier_polls_not_answered" not in line]
    assert lines == []


def _run(program: str) -> "subprocess.CompletedProcess[str]":
    folder = os.path.dirname(__file__)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *sys.path])}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
