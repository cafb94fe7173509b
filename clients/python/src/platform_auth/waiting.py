"""Waits for the outcome of another thread, on an event loop or in a thread without one."""

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")
Returned = TypeVar("Returned")
# A step yields a future to wait for, and gets its outcome.
Steps = Generator["Future[Result]", Result, Returned]


async def wait_for(future: "Future[Result]", seconds: float) -> Result:
    """
    Cancelling a caller does not cancel the future, which others may wait for. Raises TimeoutError when the other
    thread has died, as in a process that was forked while this one waited.
    """
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake_from_other_thread(_: "Future[Result]") -> None:
        # The loop may have ended, and the waiting request with it.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(wake)

    future.add_done_callback(wake_from_other_thread)
    timer = loop.call_later(max(0.0, seconds), wake)
    try:
        await waiter
    finally:
        timer.cancel()
    return future.result(0)


def call_on_this_loop(callback: Callable[[], object]) -> Callable[[], object]:
    """
    Returns a function that calls the callback on this loop from any thread, or, without a running loop, in the
    calling thread.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return callback

    def call() -> None:
        # The loop may have ended, and the connection with it.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(callback)

    return call


async def take_steps(steps: "Steps[Result, Returned]", seconds: float) -> Returned:
    """`seconds`: the limit of each step."""
    try:
        future = next(steps)
        while True:
            future = steps.send(await wait_for(future, seconds))
    except StopIteration as end:
        returned: Returned = end.value
        return returned


def take_steps_sync(steps: "Steps[Result, Returned]", seconds: float) -> Returned:
    """As `take_steps`, in a thread without an event loop."""
    try:
        future = next(steps)
        while True:
            future = steps.send(future.result(seconds))
    except StopIteration as end:
        returned: Returned = end.value
        return returned
