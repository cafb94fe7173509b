"""Compares the wall clock of this machine with the service's."""

from email.utils import parsedate_to_datetime
from math import nan

from platform_auth.clocks import Clocks
from platform_auth.events import Misconfigurations

# Equals the tolerance of token times, so that a smaller difference changes no verdict.
CLOCK_TOLERANCE_SECONDS = 60
# The name of this cause in configuration errors.
_CLOCK = "clock"


class ClockCheck:
    def __init__(self, clocks: Clocks, misconfigurations: Misconfigurations) -> None:
        self._clocks = clocks
        self._misconfigurations = misconfigurations
        self._is_off = False
        # Wall clock minus monotonic clock when they were last compared; NaN before.
        self._offset = nan

    @property
    def is_wrong(self) -> bool:
        """While this clock is wrong, what it says about the times of a token is not a verdict.

        After a jump it counts as wrong until the next answer.
        """
        return self._is_off or abs(self._read_offset() - self._offset) > CLOCK_TOLERANCE_SECONDS

    def compare(self, date: str | None) -> None:
        """`date`: the header of an answer that has just arrived; an unreadable one changes nothing."""
        try:
            service_seconds = parsedate_to_datetime(date or "").timestamp()
        except (ValueError, OverflowError):
            return
        off = round(self._clocks.wall() - service_seconds)
        self._offset = self._read_offset()
        self._is_off = abs(off) > CLOCK_TOLERANCE_SECONDS
        if self._is_off:
            self._misconfigurations.report(_CLOCK, f"differs from the service's by {off} s")
        else:
            self._misconfigurations.clear(_CLOCK)

    def _read_offset(self) -> float:
        return self._clocks.wall() - self._clocks.monotonic()
