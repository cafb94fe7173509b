"""Rule V4 with threads, and the thread of a verifier."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from math import inf

import pytest

from platform_auth import UnavailableError, UserPrincipal
from platform_auth.caches import KeyCache, TokenCache
from platform_auth.clocks import Clocks, Instant
from platform_auth.credentials import Credential, Headers, compute_fingerprint, find_app, read_node
from platform_auth.lease import Change, Lease, Renewal
from platform_auth.principals import NodePrincipal
from platform_auth.transport import ServiceAnswer, ServiceRequest
from platform_auth.uses import Use, Uses
from scripted import HOUSEHOLD_ID, NODE_HEADERS, NODE_ID, ScriptedTransport, ScriptedVerifier

ALICE = UserPrincipal("alice", "session", "alice@example.org")
NODE = NodePrincipal(NODE_ID, HOUSEHOLD_ID)
START = Instant(0, 0)
# The lease of QUIET has ended by then.
LAPSED = 0.6
QUIET = Renewal("1", False, 0.5, 0.5, [])
CHANGED = Renewal("2", False, 0.5, 0.5, [Change("node", NODE_ID), Change("user", "alice")])
RESET = Renewal("3", True, 0.5, 0.5, [])
# Time for a fault to show itself: a correct lock lets the other thread pass only afterwards.
PATIENCE_SECONDS = 0.2
# Rounds of remembering and evicting. The upper bound ends a test whose recalls find nothing.
MIN_ROUNDS = 300
MAX_ROUNDS = 1_000


def make_key(name: str) -> Credential:
    return Credential("node", name, b"digest", {"X-API-Key": f"{name}:key"})


def make_token(name: str) -> Credential:
    return Credential("user", "", b"digest", {"Authorization": f"Bearer {name}"})


def create_keys(lease: Lease, max_entries: int = 10) -> KeyCache[NodePrincipal]:
    return KeyCache("node", lease, Uses(), max_entries)


def create_tokens(lease: Lease, max_entries: int = 10) -> TokenCache:
    return TokenCache(lease, max_entries)


def recall_from(cache: KeyCache[NodePrincipal] | TokenCache, credential: Credential) -> NodePrincipal | UserPrincipal | None:
    return cache.recall([], None, compute_fingerprint(credential))


class Intruder:
    """Applies a change in another thread, in the middle of what the test does."""

    def __init__(self) -> None:
        self.now = 0.0
        self.at_clock: Callable[[], None] = lambda: None
        self.lease = Lease(Clocks(self._read_clock, lambda: self.now), 0)
        self.threads: list[threading.Thread] = []
        self.lease.renew(QUIET, Instant(0, 0))

    def _read_clock(self) -> float:
        work, self.at_clock = self.at_clock, lambda: None
        work()
        return self.now

    def renew(self) -> None:
        thread = threading.Thread(target=self.lease.renew, args=(CHANGED, Instant(self.now, self.now)))
        self.threads.append(thread)
        thread.start()
        thread.join(PATIENCE_SECONDS)

    def join(self) -> None:
        for thread in self.threads:
            thread.join()


class InterruptedTicket(int):
    """Interrupts the caller between the check of the ticket and its next step."""

    intruder: Intruder

    def __eq__(self, other: object) -> bool:
        is_same = int(self) == other
        self.intruder.renew()
        return is_same

    __hash__ = int.__hash__


def remember_both(lease: Lease) -> list[Callable[[], object]]:
    """Remembers a key and a token under this lease, and returns functions that recall them."""
    keys, tokens = create_keys(lease), create_tokens(lease)
    key, token = make_key(NODE_ID), make_token("alice")
    keys.remember(key, NODE, START, inf, lease.take_ticket())
    tokens.remember(token, ALICE, START, inf, lease.take_ticket())
    return [lambda: recall_from(keys, key), lambda: recall_from(tokens, token)]


def test_uses_nothing_found_before_a_change_under_the_lease_that_came_with_it() -> None:
    for number, principal in enumerate((NODE, ALICE)):
        intruder = Intruder()
        recall = remember_both(intruder.lease)[number]
        assert recall() == principal
        intruder.now = LAPSED
        intruder.at_clock = intruder.renew
        assert recall() is None
        intruder.join()
        assert intruder.lease.cursor == "2"


def test_evicts_before_it_renews_the_lease() -> None:
    found: list[object] = []

    class Witness:
        """A listener of the lease that is called before the caches."""

        def evict(self, change: Change) -> None:
            found.extend(recall() for recall in recalls)

        def evict_all(self) -> None:
            found.extend(recall() for recall in recalls)

    for renewal in (CHANGED, RESET):
        intruder = Intruder()
        intruder.lease.add_listener(Witness())
        recalls = remember_both(intruder.lease)
        assert [recall() for recall in recalls] == [NODE, ALICE]
        intruder.now = LAPSED
        intruder.lease.renew(renewal, Instant(LAPSED, LAPSED))
        found.extend(recall() for recall in recalls)
    assert found
    assert set(found) == {None}


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Switches threads often, because CPython's interval of 5 ms would show few interleavings."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("frequent_switches")
def test_no_thread_recalls_a_key_after_its_change_was_taken_over() -> None:
    lease = Lease(Clocks(lambda: 0.0, lambda: 0.0), 0)
    lease.renew(QUIET, Instant(0, 0))
    keys = create_keys(lease)
    key = make_key(NODE_ID)
    is_over = threading.Event()
    remembered = evicted = 0
    recalled: set[NodePrincipal | None] = set()
    recalled_after_eviction: set[NodePrincipal | None] = set()

    def recall() -> None:
        while not is_over.is_set():
            rounds_before = evicted
            found = recall_from(keys, key)
            # The next round may have begun in between.
            is_evicted = remembered == rounds_before
            (recalled_after_eviction if is_evicted else recalled).add(found)

    threads = [threading.Thread(target=recall) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        while remembered < MAX_ROUNDS:
            if remembered >= MIN_ROUNDS and NODE in recalled and recalled_after_eviction:
                break
            remembered += 1
            keys.remember(key, NODE, START, inf, lease.take_ticket())
            time.sleep(0)
            lease.renew(CHANGED, Instant(0, 0))
            evicted += 1
            time.sleep(0)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert NODE in recalled
    assert recalled_after_eviction == {None}


def test_evicts_nothing_between_the_look_at_a_ticket_and_remembering() -> None:
    intruder = Intruder()
    keys, tokens = create_keys(intruder.lease), create_tokens(intruder.lease)
    key, token = make_key(NODE_ID), make_token("alice")
    for remember in (
        lambda ticket: keys.remember(key, NODE, START, inf, ticket),
        lambda ticket: tokens.remember(token, ALICE, START, inf, ticket),
    ):
        ticket = InterruptedTicket(intruder.lease.take_ticket())
        ticket.intruder = intruder
        remember(ticket)
        intruder.join()
    assert recall_from(keys, key) is None
    assert recall_from(tokens, token) is None


def test_evicts_what_was_not_recalled_beyond_the_limit() -> None:
    lease = Lease(Clocks(lambda: 0.0, lambda: 0.0), 0)
    lease.renew(QUIET, Instant(0, 0))
    keys, tokens = create_keys(lease, 2), create_tokens(lease, 2)

    def remember(name: str) -> None:
        keys.remember(make_key(name), NODE, START, inf, lease.take_ticket())
        tokens.remember(make_token(name), ALICE, START, inf, lease.take_ticket())

    def recall(name: str) -> tuple[bool, bool]:
        return bool(recall_from(keys, make_key(name))), bool(recall_from(tokens, make_token(name)))

    remember("1")
    remember("2")
    assert recall("1") == (True, True)
    remember("3")
    assert [recall(name) for name in ("1", "2", "3")] == [(True, True), (False, False), (True, True)]
    # All entries were recalled, so the oldest is evicted.
    remember("4")
    assert [recall(name) for name in ("1", "3", "4")] == [(False, False), (True, True), (True, True)]
    # Remembering an entry again evicts none.
    remember("4")
    assert [recall(name) for name in ("3", "4")] == [(True, True), (True, True)]


def test_recalls_two_keys_of_an_id_by_their_headers_until_they_are_evicted_or_a_third_replaces_the_older() -> None:
    lease = Lease(Clocks(lambda: 0.0, lambda: 0.0), 0)
    lease.renew(QUIET, Instant(0, 0))
    keys = create_keys(lease)
    key, other, third = (
        make_key(NODE_ID),
        *(Credential("node", NODE_ID, name.encode(), {"X-API-Key": f"{NODE_ID}:{name}"}) for name in ("other", "third")),
    )

    def recall(credential: Credential) -> list[NodePrincipal | None]:
        by_headers = recall_from(keys, credential)
        return [by_headers, keys.recall_by_id(credential.id, credential.digest)]

    keys.remember(key, NODE, START, 50, lease.take_ticket())
    assert [recall(key), recall(other)] == [[NODE, NODE], [None, None]]
    for _ in range(2):
        keys.remember(other, NODE, START, 60, lease.take_ticket())
        assert [recall(key), recall(other)] == [[NODE, NODE], [NODE, NODE]]
    keys.remember(third, NODE, START, 60, lease.take_ticket())
    assert [recall(key), recall(other), recall(third)] == [[None, None], [NODE, NODE], [NODE, NODE]]
    lease.renew(CHANGED, Instant(0, 0))
    assert [recall(key), recall(other)] == [[None, None], [None, None]]


def test_forgets_a_key_that_was_refused_in_any_spelling_of_its_id_and_no_other_key_of_that_id() -> None:
    lease = Lease(Clocks(lambda: 0.0, lambda: 0.0), 0)
    lease.renew(QUIET, START)
    keys = create_keys(lease)

    def present(node_id: str, secret: str) -> Credential:
        return read_node({"X-API-Key": f"{node_id}:{secret}"})

    keys.remember(present(NODE_ID, "current"), NODE, START, inf, lease.take_ticket())
    keys.forget(present(NODE_ID, "wrong"))
    assert recall_from(keys, present(NODE_ID, "current")) == NODE
    keys.forget(present(NODE_ID.upper(), "current"))
    assert recall_from(keys, present(NODE_ID, "current")) is None


def test_reports_the_last_use_of_a_key_once_also_when_it_was_remembered_again_or_the_poll_failed() -> None:
    now = 0.0
    lease = Lease(Clocks(lambda: now, lambda: now), 0)
    lease.renew(QUIET, Instant(0, 0))
    uses = Uses()
    keys: KeyCache[NodePrincipal] = KeyCache("node", lease, uses, 10)
    key = make_key(NODE_ID)

    def use_at(moment: float) -> None:
        nonlocal now
        now = moment
        assert keys.recall_by_id(NODE_ID, b"wrong") is None
        assert recall_from(keys, key) == NODE

    def to_moments(taken: list[Use]) -> list[tuple[str, str, float]]:
        return [(use.kind, use.id, use.at) for use in taken]

    keys.remember(key, NODE, START, inf, lease.take_ticket())
    use_at(0.1)
    use_at(0.2)
    assert to_moments(uses.take()) == [("node", NODE_ID, 0.2)]
    assert uses.take() == []
    use_at(0.25)
    taken = uses.take()
    keys.remember(key, NODE, START, inf, lease.take_ticket())
    uses.put_back(taken)
    assert to_moments(uses.take()) == [("node", NODE_ID, 0.25)]
    use_at(0.3)
    uses.put_back(taken)
    assert to_moments(uses.take()) == [("node", NODE_ID, 0.3)]


def test_reports_every_use_of_a_key_that_was_remembered_again_while_a_thread_used_it() -> None:
    intruder = Intruder()
    uses = Uses()
    keys: KeyCache[NodePrincipal] = KeyCache("node", intruder.lease, uses, 10)
    key = make_key(NODE_ID)

    def remember() -> None:
        keys.remember(key, NODE, START, inf, intruder.lease.take_ticket())

    def use_at(moment: float) -> None:
        intruder.now = moment
        assert recall_from(keys, key) == NODE

    def take_moments() -> list[float]:
        return [use.at for use in uses.take()]

    def preempt() -> None:
        """Runs after the thread has found the entry, and before it reads the clock."""
        remember()
        use_at(0.2)
        intruder.now = 0.1

    remember()
    for later, reported in (([], [0.2]), ([0.3], [0.3])):
        intruder.at_clock = preempt
        use_at(0.1)
        for moment in later:
            use_at(moment)
        assert take_moments() == reported
        use_at(0.4)
        assert take_moments() == [0.4]


def test_takes_no_headers_that_arrived_twice_for_remembered_ones() -> None:
    lease = Lease(Clocks(lambda: 0.0, lambda: 0.0), 0)
    lease.renew(QUIET, Instant(0, 0))
    keys = create_keys(lease)
    key = make_key(NODE_ID)
    keys.remember(key, NODE, START, inf, lease.take_ticket())

    def recall(headers: Headers) -> NodePrincipal | None:
        return keys.recall(headers, None, None)

    once = [(b"x-api-key", key.headers["X-API-Key"].encode())]
    again = [(name.title(), value) for name, value in once]
    text = [(name.decode().upper(), value.decode()) for name, value in once]
    rest = [(b"accept", b"*/*"), (b"x-api-kez", b"other")]
    assert [recall([*rest, *headers]) for headers in (once, again)] == [NODE, NODE]
    assert [recall([*once, *rest, *other]) for other in (once, again, text)] == [None, None, None]
    assert [recall(other) for other in (text, {}, tuple(once), [], [b"x-api-key"], [(None, b"")])] == [None] * 6


def test_takes_no_headers_of_an_app_for_remembered_ones_unless_both_arrived_once() -> None:
    forwarded = {"X-Platform-App-Id": "1", "X-Platform-App-Key": "pa_app_of-a-test"}
    remembered = compute_fingerprint(Credential("app", "1", b"digest", forwarded))
    app_id, key = [(name.lower().encode(), value.encode()) for name, value in forwarded.items()]
    joined = (app_id[0], b"\n".join((app_id[1], key[1])))
    text = [(name.decode(), value.decode()) for name, value in (app_id, key)]
    rest = [(b"accept", b"*/*"), (b"x-forwarded-proto", b"https"), (b"x-forwarded-server", b"a")]
    titles = [(name.title(), value) for name, value in (app_id, key)]
    for same in ([app_id, *rest, key], [key, *rest, app_id], titles):
        assert find_app(same) == remembered
    others = ([app_id], [key], [joined], [app_id, key, key], [app_id, app_id, key], [app_id, app_id], [joined, key], text, {})
    id_twice = [app_id, (app_id[0], key[1])]
    key_twice = [(key[0], app_id[1]), key]
    swapped = [(key[0], app_id[1]), (app_id[0], key[1])]
    misnamed = (id_twice, key_twice, swapped, swapped[::-1], [*id_twice, key], [*key_twice, app_id])
    assert [other for other in (*others, *misnamed) if find_app(other) == remembered] == []


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


@pytest.mark.usefixtures("patient")
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
        transport.release()
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
        # Blocks the loop until the question was sent.
        while transport.asked.count("/internal/validate-node") == 0:
            time.sleep(0.01)
        time.sleep(2 * fresh_for_ms / 1_000)
        assert transport.asked.count("/internal/validate-node") == 1
        with pytest.raises(UnavailableError):
            await waiting

    asyncio.run(play())
    verifier.close()


class FailingTransport(ScriptedTransport):
    failure: Exception = ConnectionError("refused")

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        if request.url.endswith("/changes"):
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


@pytest.mark.usefixtures("patient")
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
    """Runs in a process of its own, because pytest has threads that must not be forked."""
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


def test_stays_closed_in_a_forked_process_and_may_be_closed_there_before_its_first_use() -> None:
    program = """
import asyncio, os
from platform_auth import UnavailableError
from scripted import NODE_HEADERS, ScriptedTransport, ScriptedVerifier

transports = []

def create_transport():
    transports.append(ScriptedTransport())
    return transports[-1]

def is_refused_when_forked(verifier, prepare):
    child = os.fork()
    if child == 0:
        prepare()
        try:
            asyncio.run(asyncio.wait_for(verifier.verify_node(NODE_HEADERS), 20))
        except UnavailableError:
            os._exit(len(transports))
        os._exit(9)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)

closed, used = ScriptedVerifier(create_transport), ScriptedVerifier(create_transport)
asyncio.run(used.verify_node(NODE_HEADERS))
closed.close()
print(is_refused_when_forked(closed, lambda: None), is_refused_when_forked(used, used.close))
asyncio.run(used.verify_node(NODE_HEADERS))
"""
    ended = _run(program)
    assert (ended.stdout.strip(), ended.returncode) == ("1 1", 0), ended.stderr


def test_lets_the_process_end_without_being_closed() -> None:
    program = """
from platform_auth import Verifier
print(Verifier(url="http://127.0.0.1:1", app_id="01985f4e-7c3a-7b52-9d1e-000000000c01", app_key="pa_app_own", service_name="recipes"))
"""
    ended = _run(program)
    assert (ended.returncode, ended.stdout) == (0, "Verifier(url='http://127.0.0.1:1', service_name='recipes')\n")
    lines = [line for line in ended.stderr.splitlines() if "verifier_polls_not_answered" not in line]
    assert lines == []


def _run(program: str) -> "subprocess.CompletedProcess[str]":
    folder = os.path.dirname(__file__)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *sys.path])}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
