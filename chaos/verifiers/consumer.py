"""What consumer.ts does, with the Python verifier."""

import asyncio
import dataclasses
import json
import logging
import os
import random
import sys
import time
from typing import Any

from platform_auth import PlatformEvent, Verifier

_STOP_CODE = 3
_STOP_PROBABILITY = 1 / 300


class NotActedOn(Exception):
    """Makes the event come again after a second."""


def maybe_stop() -> None:
    if random.random() < _STOP_PROBABILITY:
        os._exit(_STOP_CODE)


def append(entry: dict[str, Any]) -> None:
    with open(sys.argv[1], "a", encoding="utf-8") as ledger:
        ledger.write(f"{json.dumps(entry)}\n")


def act(event: PlatformEvent) -> None:
    maybe_stop()
    if random.random() < _STOP_PROBABILITY:
        raise NotActedOn
    append(dataclasses.asdict(event) | {"time": event.time.isoformat()})
    maybe_stop()


async def consume() -> None:
    verifier = Verifier.from_environment()
    while True:
        try:
            async for event in verifier.events(on_reset=lambda: append({"reset": time.time_ns() // 1_000_000})):
                act(event)
        except NotActedOn:
            pass


logging.basicConfig(level=logging.WARNING)
asyncio.run(consume())
