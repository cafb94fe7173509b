"""Every scenario of clients/conformance/events.json, with a simulated clock and a scripted transport."""

import asyncio
import json
import logging
from collections import Counter
from typing import Any

import pytest

from fake_service import FakeService
from platform_auth.runtime import Channel, Runtime
from scenarios import NAMES, read_event_scenarios
from simulation import Simulation
from test_conformance import SimulatedVerifier, SimulatedWorker


class ConsumerFailedError(Exception):
    pass


@pytest.mark.parametrize("scenario", [pytest.param(data, id=data["name"]) for data in read_event_scenarios()])
def test_scenario(scenario: dict[str, Any]) -> None:
    simulation = Simulation()
    service = FakeService(simulation, {"events": scenario["answers"]})
    channel = Channel(SimulatedWorker(simulation), service)
    verifier = SimulatedVerifier(
        Runtime(simulation.clocks, channel, channel, channel),
        url="http://auth.test",
        app_id=NAMES["own_app_id"],
        app_key=NAMES["own_app_key"],
        service_name="recipes",
        logger=logging.Logger("scenario"),
    )
    told: list[str] = []
    failures = Counter(scenario.get("fails", {}))

    def handle(name: str) -> None:
        told.append(name)
        if failures[name] > 0:
            failures[name] -= 1
            raise ConsumerFailedError

    async def follow() -> None:
        """Begins to read again whenever the consumer failed."""
        while True:
            try:
                async for event in verifier.events(on_reset=lambda: handle("reset")):
                    handle(event.id)
            except ConsumerFailedError:
                continue
            return

    async def play() -> None:
        following = asyncio.create_task(follow())
        await simulation.until(scenario["until_ms"])
        verifier.close()
        await following

    simulation.run(play())
    assert told == scenario["told"]
    cursors = [json.loads(request.body).get("after") for request in service.sent("events")]
    assert cursors == [poll.get("after") for poll in scenario["polls"]]
    for at, poll in zip(service.poll_times, scenario["polls"], strict=True):
        assert poll["at"][0] <= at <= poll["at"][1]
