"""The two clocks of a verifier, in seconds."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment by both clocks."""

    # Never jumps; may stand still while the machine is suspended.
    monotonic: float
    # May jump; goes on while the machine is suspended.
    wall: float

    def plus(self, seconds: float) -> "Instant":
        return Instant(self.monotonic + seconds, self.wall + seconds)

    def is_before(self, end: "Instant") -> bool:
        """Compares both clocks, so that a jump of the wall clock can only shorten a term."""
        return self.monotonic < end.monotonic and self.wall < end.wall


NEVER = Instant(-inf, -inf)


@dataclass(frozen=True, slots=True)
class Clocks:
    monotonic: Callable[[], float]
    wall: Callable[[], float]

    def now(self) -> Instant:
        return Instant(self.monotonic(), self.wall())


SYSTEM_CLOCKS = Clocks(time.monotonic, time.time)
