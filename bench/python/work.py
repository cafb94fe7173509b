"""
What a verifier in Python costs: reads the order as a line of JSON on stdin and then seconds, a line each, and answers
each line with a line.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from hmac import compare_digest
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from platform_auth import UnavailableError, Verifier

# The loop yields after this many.
BATCH = 200
Headers = list[tuple[bytes, bytes]]
Once = Callable[[Any], Any]


def to_headers(name: bytes, value: str) -> Headers:
    """The headers of a request behind a proxy, in the form of ASGI."""
    return [
        (b"host", b"recipes.example.org"),
        (b"user-agent", b"recipes-app/4.2.0"),
        (b"accept", b"application/json"),
        (b"accept-encoding", b"gzip"),
        (b"x-forwarded-for", b"192.0.2.1"),
        (name, value.encode()),
    ]


def create_verifier(own: dict[str, str]) -> Verifier:
    return Verifier(
        url=own["url"],
        app_id=own["appId"],
        app_key=own["appKey"],
        service_name=own["serviceName"],
        secret_key=own["secretKey"],
    )


def make_items(kind: str, task: dict[str, Any]) -> tuple[list[Any], Once, bool]:
    """Returns the items, the function that verifies one, and whether it is awaited."""
    if kind == "bareKey":
        pairs = [tuple(key.split(":")) for key in task["nodes"]]
        digests = {node_id: sha256(key.encode()).digest() for node_id, key in pairs}

        def compare(pair: tuple[str, str]) -> None:
            if not compare_digest(digests[pair[0]], sha256(pair[1].encode()).digest()):
                raise AssertionError("The key is not known")

        return pairs, compare, False
    if kind == "es256":
        private = ec.generate_private_key(ec.SECP256R1())
        public = private.public_key()
        claims = {"iss": "platform-auth", "exp": int(time.time()) + 3_600, "sid": "session"}
        signed = [jwt.encode({**claims, "sub": f"user-{index}"}, private, "ES256") for index in range(len(task["tokens"]))]
        return signed, lambda token: jwt.decode(token, public, ["ES256"], issuer="platform-auth"), False
    verifier = create_verifier(task["own"])
    verifier.start()
    if kind == "rememberedToken":
        return [to_headers(b"authorization", f"Bearer {token}") for token in task["tokens"]], verifier.verify_user, True
    return [to_headers(b"x-api-key", key) for key in task["nodes"]], verifier.verify_node, True


async def repeat(items: list[Any], once: Once, is_awaited: bool, seconds: float) -> int:
    """Verifies one item after the other."""
    count = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(BATCH):
            item = items[count % len(items)]
            count += 1
            if is_awaited:
                try:
                    await once(item)
                # Accepts a timeout of a question, which a busy machine may cause.
                except UnavailableError:
                    pass
            else:
                once(item)
        await asyncio.sleep(0)
    return count


async def repeat_at_once(items: list[Any], once: Callable[[Any], Awaitable[Any]], seconds: float) -> int:
    """Verifies all items at once, again and again."""
    end = time.perf_counter() + seconds

    async def repeat_one(item: Any) -> int:
        count = 0
        while time.perf_counter() < end:
            try:
                await once(item)
                count += 1
            except UnavailableError:
                pass
        return count

    return sum(await asyncio.gather(*(repeat_one(item) for item in items)))


async def main(kind: str) -> None:
    items, once, is_awaited = make_items(kind, json.loads(sys.stdin.readline()))
    # Waits for the answer to the first poll, before which nothing is remembered.
    await asyncio.sleep(0.5)
    print(json.dumps({"isReady": True}), flush=True)
    for line in sys.stdin:
        started, cpu = time.perf_counter(), time.process_time()
        seconds = json.loads(line)["seconds"]
        if kind == "askingKey":
            count = await repeat_at_once(items, once, seconds)
        else:
            count = await repeat(items, once, is_awaited, seconds)
        throughput = count / (time.perf_counter() - started)
        microseconds = 1e6 * (time.process_time() - cpu) / count
        print(json.dumps({"throughput": throughput, "cpu": microseconds}), flush=True)


asyncio.run(main(sys.argv[1]))
