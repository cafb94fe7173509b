"""Compares the wall clock of this machine with the service's."""

from email.utils import parsedate_to_datetime

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
        # While this clock is wrong, what it says about the times of a token is not a verdict.
        self.is_wrong = False

    def compare(self, date: str | None) -> None:
        """`date`: the header of an answer that has just arrived; an unreadable one changes nothing."""
        try:
            service_seconds = parsedate_to_datetime(date or "").timestamp()
        except (ValueError, OverflowError):
            return
        off = round(self._clocks.wall() - service_seconds)
        self.is_wrong = abs(off) > CLOCK_TOLERANCE_SECONDS
        if self.is_wrong:
            self._misconfigurations.report(_CLOCK, f"differs from the service's by {off} s")
        else:
            self._misconfigurations.clear(_CLOCK)
