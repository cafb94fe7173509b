"""Everything that takes time, chance or a thread, so that the conformance suite can simulate it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import random
from typing import Any, Protocol, TypeVar

from platform_auth.clocks import SYSTEM_CLOCKS, Clocks
from platform_auth.transport import HttpTransport, Transport

Result = TypeVar("Result")


class Worker(Protocol):
    """The event loop of polls and questions."""

    def start(self, work: Callable[[], None]) -> None: ...

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Awaits work on the worker's loop, from any loop. Raises ConnectionError when the worker was closed."""

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None: ...


@dataclass(frozen=True, slots=True)
class Runtime:
    clocks: Clocks
    transport: Transport
    worker: Worker
    # 0 ≤ random < 1, for jitter.
    random: Callable[[], float] = random


class ThreadWorker:
    """
    A thread with an event loop of its own: a verifier is created before the loop of the service runs, serves several loops
    and threads, and keeps its lease while a handler blocks the loop of the service.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="platform-auth-verifier", daemon=True)
        self._thread.start()

    def start(self, work: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(work)

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        with self._lock:
            if self._is_closed:
                work.close()
                raise ConnectionError("The verifier is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The worker cancelled the work, not the caller.
            raise ConnectionError("The verifier was closed") from None

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancels what runs; then awaits `last`, and ends the thread."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._last = last
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end())
        finally:
            self._loop.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._last()


def create_system_runtime() -> Runtime:
    return Runtime(SYSTEM_CLOCKS, HttpTransport(), ThreadWorker())
