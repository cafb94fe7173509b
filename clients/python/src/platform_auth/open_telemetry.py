"""Tells OpenTelemetry the counts of verdicts, where the service has installed its API."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from platform_auth.principals import Door
from platform_auth.tallies import VerdictName

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

_NAME = "platform_auth.verdicts"


class Counted(Protocol):
    def read_counts(self) -> dict[Door, dict[VerdictName, int]]: ...


class CountsObserver:
    """OpenTelemetry observes one counter of a name: all verifiers of the process share it."""

    def __init__(self) -> None:
        self._verifiers: WeakSet[Counted] = WeakSet()
        self._is_observed = False

    def add(self, verifier: Counted) -> None:
        """Before or after the service has set its provider of meters, which may be after a fork."""
        self._verifiers.add(verifier)
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
        for verifier in list(self._verifiers):
            for door, counts in verifier.read_counts().items():
                for verdict, count in counts.items():
                    sums[door, verdict] += count
        return [Observation(count, {"door": door, "verdict": verdict}) for (door, verdict), count in sums.items()]


COUNTS_OBSERVER = CountsObserver()
