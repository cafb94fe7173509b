"""Counts verdicts by door."""

import itertools
import threading
from collections.abc import Callable
from typing import Literal, get_args

from platform_auth.principals import Door

VerdictName = Literal["accepted", "refused", "unavailable"]
# Called at every verdict, in the thread of the request.
VerdictHook = Callable[[Door, VerdictName], object]


class _Counter:
    """Adds one in a single step of the interpreter: requests of several threads count without a lock."""

    def __init__(self) -> None:
        numbers = itertools.count()
        self.add = numbers.__next__
        self._lock = threading.Lock()
        self._reads = 0

    def read(self) -> int:
        with self._lock:
            # Reading takes a number too.
            value = self.add() - self._reads
            self._reads += 1
            return value


class Tally:
    """Of one door."""

    def __init__(self, door: Door, hook: VerdictHook | None, report: Callable[[Exception], None]) -> None:
        """`report` is called when the hook fails, which changes no verdict."""
        self._counters: dict[VerdictName, _Counter] = {name: _Counter() for name in get_args(VerdictName)}

        def create(name: VerdictName) -> Callable[[], object]:
            add = self._counters[name].add
            return add if hook is None else create_telling(name, add, hook)

        def create_telling(name: VerdictName, add: Callable[[], int], tell: VerdictHook) -> Callable[[], object]:
            def add_and_tell() -> None:
                add()
                try:
                    tell(door, name)
                except Exception as error:
                    report(error)

            return add_and_tell

        self.accept = create("accepted")
        self.refuse = create("refused")
        self.miss = create("unavailable")

    def read(self) -> dict[VerdictName, int]:
        return {name: counter.read() for name, counter in self._counters.items()}
