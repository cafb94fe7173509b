"""
Requests to the authentication service. What httpx imports at the first request is imported here: a process that another thread
forks in the middle of an import can never finish it (gunicorn --preload).
"""

import ssl
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Literal, Protocol

import httpx

for _name in ("anyio._backends._asyncio", "concurrent.futures.thread", "encodings.idna", "httpcore", "sniffio"):
    import_module(_name)

_CONNECT_TIMEOUT_SECONDS = 0.5
# A list of 1,000 changes has 100 KB.
_MAX_ANSWER_BYTES = 1_000_000
# Below the keep-alive time of most servers, so that a request rarely meets a connection that is being closed.
_KEEPALIVE_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    method: Literal["GET", "POST"]
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    status: int
    # Names in lower case.
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Transport(Protocol):
    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        """Raises ConnectionError (refused or broken, with the reason as its text), or TimeoutError (no connection in time)."""
        ...

    async def close(self) -> None: ...


class HttpTransport:
    """
    HTTP over kept-alive connections, each with one request at a time. Below httpx.AsyncClient, which logs every request (five
    polls a second), keeps cookies and follows the proxies of the environment. Each connection is a pool of its own: httpcore
    (1.0) looks at every connection and every waiting request of a pool whenever a request comes or goes, and keeps one for ever
    whose request was cancelled while it opened.
    """

    def __init__(self, trusted: ssl.SSLContext | None = None) -> None:
        """`trusted`: without it no certificate is accepted."""
        self._trusted = trusted or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # The last one used is at the end.
        self._idle: deque[_Connection] = deque()

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        connection = self._idle.pop() if self._idle else _Connection(self._create_pool())
        try:
            answer = await _send(connection.pool, request)
        except BaseException:
            await connection.pool.aclose()
            raise
        connection.used_at = time.monotonic()
        self._idle.append(connection)
        await self._close_unused()
        return answer

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().pool.aclose()

    async def _close_unused(self) -> None:
        end = time.monotonic() - _KEEPALIVE_SECONDS
        while self._idle and self._idle[0].used_at < end:
            await self._idle.popleft().pool.aclose()

    def _create_pool(self) -> httpx.AsyncHTTPTransport:
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_KEEPALIVE_SECONDS)
        return httpx.AsyncHTTPTransport(verify=self._trusted, trust_env=False, limits=limits)


@dataclass(slots=True, eq=False)
class _Connection:
    pool: httpx.AsyncHTTPTransport
    used_at: float = 0.0


async def _send(transport: httpx.AsyncHTTPTransport, request: ServiceRequest) -> ServiceAnswer:
    timeout = {"connect": _CONNECT_TIMEOUT_SECONDS, "read": None, "write": None, "pool": None}
    outgoing = httpx.Request(
        request.method,
        request.url,
        headers=dict(request.headers),
        content=request.body,
        extensions={"timeout": timeout},
    )
    try:
        response = await transport.handle_async_request(outgoing)
        try:
            return ServiceAnswer(response.status_code, dict(response.headers), await _receive(response))
        finally:
            await response.aclose()
    except httpx.TimeoutException:
        raise TimeoutError("No connection in time") from None
    except httpx.TransportError as error:
        raise ConnectionError(_find_reason(error)) from None


def _find_reason(error: BaseException) -> str:
    """The class of what went wrong first, such as SSLCertVerificationError: an operator needs it. Never a message."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    return type(error).__name__


async def _receive(response: httpx.Response) -> bytes:
    """An answer that is too long cannot be read: it is not from the service."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _MAX_ANSWER_BYTES:
            return b""
    return bytes(body)
