"""True time, the clocks of one process, and an event loop whose timers run by them, so that no test waits."""

import asyncio
import contextvars
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from platform_auth.clocks import Clocks

_START_WALL_SECONDS = 1_767_225_600  # 2026-01-01T00:00:00Z
Result = TypeVar("Result")


@dataclass(eq=False)
class _Event:
    due_ms: float
    work: Callable[[], object]
    # The monotonic clock drives the timers of the process, and true time everything else.
    is_monotonic: bool
    # Whether it happens outside of the process, so that a pause does not delay it.
    is_outside: bool


class Simulation:
    def __init__(self) -> None:
        self.now_ms = 0.0
        self._suspended_ms = 0.0
        self._jumped_ms = 0.0
        self._stopped_until_ms = 0.0
        self._events: list[_Event] = []
        self.loop = _SimulatedLoop(self)
        self.clocks = Clocks(
            lambda: (self.now_ms - self._suspended_ms) / 1_000,
            lambda: _START_WALL_SECONDS + (self.now_ms + self._jumped_ms) / 1_000,
        )

    def at(
        self, due_ms: float, work: Callable[[], object], *, is_monotonic: bool = False, is_outside: bool = False
    ) -> None:
        self._events.append(_Event(due_ms, work, is_monotonic, is_outside))

    def jump(self, ms: float) -> None:
        self._jumped_ms += ms

    def stop(self, ms: float) -> None:
        """Pauses the process, while its clocks go on."""
        self._stopped_until_ms = self.now_ms + ms

    def suspend(self, ms: float) -> None:
        """Suspends the machine, and with it the monotonic clock."""
        self.stop(ms)
        self._suspended_ms += ms

    async def until(self, ms: float) -> None:
        """Returns after everything that is due until this time."""
        reached = self.loop.create_future()
        self.at(ms, lambda: reached.set_result(None), is_outside=True)
        await reached

    def run(self, main: Coroutine[Any, Any, Result]) -> Result:
        try:
            result = self.loop.run_until_complete(main)
            self.loop.run_until_complete(_cancel_others())
            return result
        finally:
            self.loop.close()

    def deliver_next(self) -> None:
        """Moves the clocks to the earliest event, and delivers it. The loop calls it when it has nothing else to do."""
        event = min(self._events, key=lambda event: (self._to_true_ms(event), event.due_ms))
        self._events.remove(event)
        self.now_ms = max(self.now_ms, self._to_true_ms(event))
        self.loop.call_soon(event.work)

    def _to_true_ms(self, event: _Event) -> float:
        true_ms = event.due_ms + self._suspended_ms if event.is_monotonic else event.due_ms
        return true_ms if event.is_outside else max(true_ms, self._stopped_until_ms)


async def _cancel_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self, simulation: Simulation) -> None:
        super().__init__(_IdleSelector(simulation))
        self._simulation = simulation

    def time(self) -> float:
        return self._simulation.clocks.monotonic()

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        context = context or contextvars.copy_context()
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def fire() -> None:
            if not handle.cancelled():
                context.run(callback, *args)

        self._simulation.at(when * 1_000, fire, is_monotonic=True)
        return handle


class _IdleSelector(selectors.SelectSelector):
    """
    Never waits: a loop waits without a limit when nothing is ready, and every timer is an event of the simulation.
    """

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            self._simulation.deliver_next()
        return super().select(0)
