"""Counts verdicts by door."""

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Literal, get_args

from platform_auth.principals import Door

VerdictName = Literal["accepted", "refused", "unavailable"]
# Called at every verdict, in the thread of the request.
VerdictHook = Callable[[Door, VerdictName], object]
# iter(function, sentinel) stops when a call returns its sentinel, and no call returns this one.
_NEVER = object()


class _Counter:
    """Adds one in a single step of the interpreter, so that threads count without a lock."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self._lock = threading.Lock()
        self._reads = 0

    def read(self) -> int:
        with self._lock:
            # Each read takes a number too.
            value = next(self.numbers) - self._reads
            self._reads += 1
            return value


class Tally:
    """The counts of one door. `next(tally.accepted)` counts one without a call in Python, for the hot path."""

    def __init__(self, door: Door, hook: VerdictHook | None, report: Callable[[Exception], None]) -> None:
        """`report` is called when the hook fails, which changes no verdict."""
        self._counters: dict[VerdictName, _Counter] = {name: _Counter() for name in get_args(VerdictName)}

        def create(name: VerdictName) -> Iterator[object]:
            numbers = self._counters[name].numbers
            return numbers if hook is None else iter(create_telling(name, numbers, hook), _NEVER)

        def create_telling(name: VerdictName, numbers: Iterator[int], tell: VerdictHook) -> Callable[[], None]:
            def add_and_tell() -> None:
                next(numbers)
                try:
                    tell(door, name)
                except Exception as error:
                    report(error)

            return add_and_tell

        self.accepted = create("accepted")
        self.refused = create("refused")
        self.unavailable = create("unavailable")

    def read(self) -> dict[VerdictName, int]:
        return {name: counter.read() for name, counter in self._counters.items()}
