"""
Reads what happened (`POST /internal/events`), each event at least once. Terms: cursor, reset (events may have been missed),
acknowledged (the next one was asked for). Invariants: a cursor is sent only when its event, or the comparison after its
reset, is done, so what fails comes again; the state changes on the loop of the events only, so it needs no lock.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from inspect import isawaitable, iscoroutinefunction
from math import inf
from typing import Any, cast
from uuid import uuid4

from platform_auth.answers import describe_answer, is_unavailable, parse_object, to_whole_number
from platform_auth.errors import VerifierConfigurationError
from platform_auth.options import Settings
from platform_auth.poller import Checks, to_reason
from platform_auth.runtime import Runtime
from platform_auth.service_client import ServiceClient
from platform_auth.transport import ServiceAnswer, ServiceRequest
from platform_auth.waiting import Steps, take_steps, take_steps_sync

_PATH = "/internal/events"
# An answer with as many events stays far below the size that the transport accepts.
_BATCH_SIZE = 250
_WAIT_SECONDS = 20
# Longer than the wait. No lease depends on the answer.
_ATTEMPT_TIMEOUT_SECONDS = 30.0
# The service hands the subscription to another process 30 s after the last poll.
_MAX_POLL_AGE_SECONDS = 10
_MIN_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 60.0
_MAX_DOUBLINGS = 10
_JITTER = 0.2
# Longer than a step: a poll, which is repeated with a rotated key, and a pause. Without an answer its thread has died.
_STEP_SECONDS = 2 * _ATTEMPT_TIMEOUT_SECONDS + _MAX_PAUSE_SECONDS + 60


@dataclass(frozen=True, slots=True)
class EventSubject:
    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class PlatformEvent:
    """A reason to look, not the state: what it tells may have changed again."""

    # The same when the event comes again.
    id: str
    # Such as `user.deleted`.
    type: str
    time: datetime
    subject: EventSubject
    # Ids, names and reasons.
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Item:
    cursor: str
    # None: a reset.
    event: PlatformEvent | None


@dataclass(frozen=True, slots=True)
class _Batch:
    items: Sequence[_Item]
    has_more: bool


class EventReader:
    """Safe with threads."""

    def __init__(self, settings: Settings, runtime: Runtime, client: ServiceClient, checks: Checks) -> None:
        self._settings = settings
        self._runtime = runtime
        self._client = client
        self._checks = checks
        # The next iterator of this process goes on at once, because it reads under the same name.
        self._consumer = str(uuid4())
        # The last iterator, which is the one that may read.
        self._iterator: object = None
        self._after: str | None = None
        self._items: deque[_Item] = deque()
        self._polled_at = -inf
        # Whether an item was handed out and is not acknowledged.
        self._is_pending = False
        self._failures = 0
        self._unanswered_polls = 0
        self._is_closed = False
        # Referenced here, because the event loop holds its tasks only weakly.
        self._tasks: set[asyncio.Task[_Item | None]] = set()

    def read(self, on_reset: Callable[[], object]) -> AsyncGenerator[PlatformEvent, None]:
        _check_callable(on_reset)
        return self._read(on_reset)

    def read_sync(self, on_reset: Callable[[], object]) -> Generator[PlatformEvent, None, None]:
        """In a thread without an event loop."""
        _check_callable(on_reset)
        if iscoroutinefunction(on_reset):
            raise VerifierConfigurationError("on_reset must not be async: a thread without an event loop calls it")
        return self._read_sync(on_reset)

    def close(self) -> None:
        """Ends the loops of the consumers. Called before the channel is closed."""
        self._is_closed = True
        if self._tasks:
            self._runtime.events.worker.call(self._cancel_tasks)

    async def _read(self, on_reset: Callable[[], object]) -> AsyncGenerator[PlatformEvent, None]:
        iterator, item = object(), None
        while (item := await take_steps(self._take(iterator, item), _STEP_SECONDS)) is not None:
            if item.event is not None:
                yield item.event
                continue
            outcome = on_reset()
            if isawaitable(outcome):
                await outcome

    def _read_sync(self, on_reset: Callable[[], object]) -> Generator[PlatformEvent, None, None]:
        iterator, item = object(), None
        while (item := take_steps_sync(self._take(iterator, item), _STEP_SECONDS)) is not None:
            if item.event is not None:
                yield item.event
            else:
                on_reset()

    def _take(self, iterator: object, done: _Item | None) -> Steps[_Item | None, _Item | None]:
        """`done`: what the iterator was handed before, and acknowledges. Returns None when the verifier is closed."""
        if done is None:
            yield self._run(lambda: self._take_over(iterator))
        while not self._is_closed:
            item = yield self._run(lambda: self._advance(iterator, done))
            if item is not None:
                return item
            done = None
        return None

    def _run(self, create: Callable[[], Coroutine[Any, Any, _Item | None]]) -> "Future[_Item | None]":
        """Returns a future that is None when the work was cancelled."""
        ended: Future[_Item | None] = Future()

        def start() -> None:
            if self._is_closed:
                ended.set_result(None)
                return
            task = asyncio.create_task(create())
            self._tasks.add(task)
            task.add_done_callback(end)

        def end(task: "asyncio.Task[_Item | None]") -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None:
                ended.set_exception(error)
            else:
                ended.set_result(None if task.cancelled() else task.result())

        if not self._runtime.events.worker.call(start):
            ended.set_result(None)
        return ended

    def _cancel_tasks(self) -> None:
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    async def _take_over(self, iterator: object) -> None:
        """What the last iterator was handed and did not acknowledge comes again, but not at once."""
        self._iterator = iterator
        self._cancel_tasks()
        if not self._is_pending:
            return
        self._is_pending = False
        self._items.clear()
        self._failures += 1
        await asyncio.sleep(_compute_pause(self._failures))

    async def _advance(self, iterator: object, done: _Item | None) -> _Item | None:
        """Returns None after a poll, of which the next call takes the items."""
        if iterator is not self._iterator:
            raise RuntimeError("A later iterator of this verifier reads the events")
        if done is not None:
            self._is_pending = False
            self._failures = 0
            self._after = done.cursor
        if not self._items or self._runtime.clocks.monotonic() >= self._polled_at + _MAX_POLL_AGE_SECONDS:
            await self._poll()
            return None
        self._is_pending = True
        return self._items.popleft()

    async def _poll(self) -> None:
        sent_at = self._runtime.clocks.monotonic()
        try:
            answer = await self._ask()
        # Any error is survived, because the next poll may succeed.
        except Exception as error:
            await self._back_off(to_reason(error))
            return
        code = (parse_object(answer.body) or {}).get("code")
        if answer.status == 403 and code == "not_subscribed":
            raise self._create_not_subscribed()
        if answer.status == 409 and code == "events_busy":
            await self._stand_by(answer)
            return
        batch = _read_batch(answer) if answer.status == 200 else None
        if batch is None:
            if not is_unavailable(answer.status):
                self._checks.misconfigurations.report(_PATH, describe_answer(answer))
            await self._back_off(f"status {answer.status}", _read_retry_after(answer))
            return
        if self._unanswered_polls > 0:
            self._settings.log.warn("verifier_events_answered_again", failures=self._unanswered_polls)
        self._unanswered_polls = 0
        self._checks.misconfigurations.clear(_PATH)
        self._items = deque(batch.items)
        self._polled_at = self._runtime.clocks.monotonic()
        # The service answers a poll early when it stops, or when the process sends another.
        is_early = self._polled_at - sent_at < _MIN_PAUSE_SECONDS
        if is_early and not batch.items and not batch.has_more:
            await asyncio.sleep(_MIN_PAUSE_SECONDS)

    async def _ask(self) -> ServiceAnswer:
        if self._checks.service_name.is_wrong:
            # The key belongs to another service, and so would the events.
            raise ConnectionError("the key of another service")
        body: dict[str, object] = {"consumer": self._consumer, "limit": _BATCH_SIZE, "wait_seconds": _WAIT_SECONDS}
        if self._after is not None:
            body["after"] = self._after
        request = ServiceRequest(
            "POST",
            self._settings.url + _PATH,
            {"Content-Type": "application/json"},
            json.dumps(body).encode(),
            presents_own_key=True,
            timeout_seconds=_ATTEMPT_TIMEOUT_SECONDS,
        )
        return (await self._client.send(request)).answer

    async def _stand_by(self, answer: ServiceAnswer) -> None:
        """Another process of this service reads, from the stored position on."""
        self._after = None
        self._items.clear()
        await asyncio.sleep(max(_MIN_PAUSE_SECONDS, _read_retry_after(answer)))

    async def _back_off(self, reason: str, retry_after: float = 0) -> None:
        if self._unanswered_polls == 0:
            self._settings.log.warn("verifier_events_not_answered", url=self._settings.url, reason=reason)
        self._unanswered_polls += 1
        pause = _compute_pause(self._unanswered_polls) * (1 - _JITTER * self._runtime.random())
        await asyncio.sleep(max(pause, retry_after))

    def _create_not_subscribed(self) -> VerifierConfigurationError:
        name = self._settings.service_name
        return VerifierConfigurationError(
            f"{name} has no subscription to events. Name the types that it reads in the map of the platform, "
            f"{name}: {{ events: [user.deleted] }}, and run platform-auth apply"
        )


def _check_callable(on_reset: object) -> None:
    """Types do not bind callers."""
    if not callable(on_reset):
        raise VerifierConfigurationError("on_reset must be a function: it compares users after a reset")


def _compute_pause(failures: int) -> float:
    """1 s, doubling to 60 s."""
    return float(min(_MAX_PAUSE_SECONDS, _MIN_PAUSE_SECONDS * 2 ** min(failures - 1, _MAX_DOUBLINGS)))


def _read_retry_after(answer: ServiceAnswer) -> float:
    return min(_MAX_PAUSE_SECONDS, to_whole_number(answer.headers.get("retry-after")) or 0)


def _read_batch(answer: ServiceAnswer) -> _Batch | None:
    """Returns None when this is not an answer with events."""
    body = parse_object(answer.body) or {}
    events, more, reset, cursor = (body.get(name) for name in ("events", "more", "reset", "cursor"))
    if reset is True:
        return _Batch([_Item(cursor, None)], has_more=False) if isinstance(cursor, str) else None
    if reset is not False or not isinstance(more, bool) or not isinstance(events, list):
        return None
    read = [_to_item(event) for event in cast("list[object]", events)]
    items = [item for item in read if item is not None]
    return _Batch(items, more) if len(items) == len(read) else None


def _to_item(value: object) -> _Item | None:
    match value:
        case {
            "id": str(name),
            "type": str(kind),
            "time": str(time),
            "subject": {"kind": str(subject_kind), "id": str(subject_id)},
            "data": dict(data),
            "cursor": str(cursor),
        }:
            try:
                moment = datetime.fromisoformat(time)
            except ValueError:
                return None
            fields = cast("dict[str, Any]", data)
            return _Item(cursor, PlatformEvent(name, kind, moment, EventSubject(subject_kind, subject_id), fields))
        case _:
            return None
