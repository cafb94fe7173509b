"""
A service that embeds the Python verifier, reduced to its verdicts: for each question on a line of stdin it writes the
status that its guard would answer. The variables that `platform-auth init` writes configure it.
"""

import asyncio
import json
import logging
import sys
from typing import Any

from platform_auth import VerificationError, Verifier

_MAX_LINE_BYTES = 1_000_000


async def answer(verifier: Verifier, question: dict[str, Any]) -> None:
    door, headers = question["door"], question["headers"]
    status, code = 200, ""
    try:
        if door == "app":
            await verifier.verify_app(headers, scope=headers.get("x-platform-scope"))
        elif door == "node":
            await verifier.verify_node(headers)
        elif "member" in question:
            member = question["member"]
            await verifier.verify_member(headers, member["household"], role=member.get("role"))
        else:
            await verifier.verify_user(headers)
    except VerificationError as error:
        status, code = error.status, error.code
    except Exception as error:
        status, code = 500, repr(error)
    sys.stdout.write(json.dumps({"id": question["id"], "status": status, "code": code}) + "\n")
    sys.stdout.flush()


async def serve() -> None:
    verifier = Verifier.from_environment()
    lines = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    running: set[asyncio.Task[None]] = set()
    while line := await lines.readline():
        task = asyncio.create_task(answer(verifier, json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)
    verifier.close()


logging.basicConfig(level=logging.WARNING)
asyncio.run(serve())
