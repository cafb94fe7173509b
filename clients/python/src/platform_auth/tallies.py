"""Counts verdicts by door."""

import itertools
import threading
from collections.abc import Callable, Mapping
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

    def __init__(self, door: Door, hook: VerdictHook | None) -> None:
        self._counters = {name: _Counter() for name in get_args(VerdictName)}

        def create(name: VerdictName) -> Callable[[], object]:
            add = self._counters[name].add
            return add if hook is None else lambda: (add(), hook(door, name))

        self.accept = create("accepted")
        self.refuse = create("refused")
        self.miss = create("unavailable")

    def read(self) -> Mapping[VerdictName, int]:
        return {name: counter.read() for name, counter in self._counters.items()}
