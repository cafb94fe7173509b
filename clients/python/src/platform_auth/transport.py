"""Requests to the authentication service."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import httpx

_CONNECT_TIMEOUT_SECONDS = 0.5
# A list of 1,000 changes has 100 KB.
_MAX_ANSWER_BYTES = 1_000_000
_MAX_CONNECTIONS = 64
# In a row, of requests that waited for an answer.
_MAX_CANCELLATIONS = 3
# Below the keep-alive time of most servers, so that a request rarely meets a connection that is being closed.
_KEEPALIVE_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    method: Literal["GET", "POST"]
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    # Polls have a connection of their own.
    is_poll: bool = False


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    status: int
    # Names in lower case.
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Transport(Protocol):
    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        """Raises ConnectionError (refused or broken, with the reason as its text), or TimeoutError (no connection in time)."""

    async def close(self) -> None: ...


class HttpTransport:
    """
    HTTP over kept-alive connections: one for polls, several for questions. Below httpx.AsyncClient, which logs every
    request (five polls a second), keeps cookies and follows the proxies of the environment.
    """

    def __init__(self) -> None:
        # One for all connections, and of the environment's authorities (SSL_CERT_FILE), also when only the JWKS comes by HTTPS.
        trusted = httpx.create_ssl_context()
        self._polls = _Pool(trusted, 1)
        self._questions = _Pool(trusted, _MAX_CONNECTIONS)

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        pool = self._polls if request.is_poll else self._questions
        return await pool.send(request)

    async def close(self) -> None:
        await self._polls.close()
        await self._questions.close()


class _Pool:
    """
    Connections that are replaced after several requests in a row got no answer: a request that is cancelled while its
    connection opens can leave it in the pool, where it is never used again (httpcore 1.0). Requests in flight keep the
    connections that they have: the service may only be slow.
    """

    def __init__(self, trusted: ssl.SSLContext, size: int) -> None:
        self._trusted = trusted
        self._size = size
        self._connections = _Connections(trusted, size)
        self._cancellations = 0

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        connections = self._connections
        connections.requests += 1
        try:
            answer = await _send(connections.transport, request)
        except asyncio.CancelledError:
            self._count_cancellation(connections)
            raise
        finally:
            connections.requests -= 1
            if connections is not self._connections and connections.requests == 0:
                await connections.transport.aclose()
        if connections is self._connections:
            self._cancellations = 0
        return answer

    async def close(self) -> None:
        await self._connections.transport.aclose()

    def _count_cancellation(self, connections: "_Connections") -> None:
        if connections is not self._connections:
            return
        self._cancellations += 1
        if self._cancellations >= _MAX_CANCELLATIONS:
            self._connections = _Connections(self._trusted, self._size)
            self._cancellations = 0


class _Connections:
    """Closed by the last of its requests, once they were replaced."""

    def __init__(self, trusted: ssl.SSLContext, size: int) -> None:
        limits = httpx.Limits(max_connections=size, max_keepalive_connections=size, keepalive_expiry=_KEEPALIVE_SECONDS)
        self.transport = httpx.AsyncHTTPTransport(verify=trusted, trust_env=False, limits=limits)
        # In flight.
        self.requests = 0


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
