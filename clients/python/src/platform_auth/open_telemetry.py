"""Reports the counts of verdicts to OpenTelemetry, if the service has installed its API."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from platform_auth.principals import Door
from platform_auth.tallies import Tally, VerdictName

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

_NAME = "platform_auth.verdicts"


class CountsObserver:
    """OpenTelemetry observes one counter for each name, so all verifiers of the process share it."""

    def __init__(self) -> None:
        # Kept after their verifier is gone, because a counter never decreases.
        self._tallies: list[Mapping[Door, Tally]] = []
        self._is_observed = False

    def add(self, tallies: Mapping[Door, Tally]) -> None:
        """Works before and after the service sets its provider of meters, which may follow a fork."""
        self._tallies.append(tallies)
        if self._is_observed:
            return
        try:
            from opentelemetry.metrics import get_meter
        except ImportError:
            return
        self._is_observed = True
        meter = get_meter("platform_auth")
        meter.create_observable_counter(_NAME, [self._observe], description="Verdicts on credentials, by door")

    def _observe(self, _: "CallbackOptions") -> "Iterable[Observation]":
        from opentelemetry.metrics import Observation

        sums: Counter[tuple[Door, VerdictName]] = Counter()
        for tallies in list(self._tallies):
            for door, tally in tallies.items():
                for verdict, count in tally.read().items():
                    sums[door, verdict] += count
        return [Observation(count, {"door": door, "verdict": verdict}) for (door, verdict), count in sums.items()]


COUNTS_OBSERVER = CountsObserver()
