"""Time, chance and threads, which the conformance suite simulates."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import random
from typing import Any, Protocol

from platform_auth.clocks import SYSTEM_CLOCKS, Clocks
from platform_auth.transport import HttpTransport, Transport


class Worker(Protocol):
    """An event loop, and the thread that runs it."""

    def call(self, work: Callable[[], object]) -> bool:
        """Calls work on the loop, soon and from any thread. Returns False when the worker was closed."""
        ...

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None: ...


@dataclass(frozen=True, slots=True)
class Channel:
    """A worker, and the connections that are used on its loop."""

    worker: Worker
    transport: Transport

    def close(self) -> None:
        self.worker.close(self.transport.close)


@dataclass(frozen=True, slots=True)
class Runtime:
    """
    Polls have a channel of their own, so that questions, which strangers cause, do not delay them; and so have events,
    whose answers the service holds back until something happens.
    """

    clocks: Clocks
    polls: Channel
    questions: Channel
    events: Channel
    # 0 ≤ random < 1, for jitter.
    random: Callable[[], float] = random


class ThreadWorker:
    """
    A thread with an event loop of its own, which goes on while a handler blocks the loop of the service. It starts at
    its first use, because a thread does not survive a fork.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, work: Callable[[], object]) -> bool:
        with self._lock:
            if self._is_closed:
                return False
            loop = self._loop or self._start()
            loop.call_soon_threadsafe(work)
            return True

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancels all work, awaits `last`, and ends the thread."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._last = last
            if self._loop is None or self._thread is None:
                return
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, args=(loop,), name=self._name, daemon=True)
        self._thread.start()
        return loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
            loop.run_until_complete(self._end())
        finally:
            loop.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._last()


def create_system_runtime(trusted: ssl.SSLContext | None) -> Runtime:
    """`trusted`: the authorities whose certificates are accepted; None when no address is https."""
    names = ("polls", "questions", "events")
    polls, questions, events = (Channel(ThreadWorker(f"platform-auth-{name}"), HttpTransport(trusted)) for name in names)
    return Runtime(SYSTEM_CLOCKS, polls, questions, events)
