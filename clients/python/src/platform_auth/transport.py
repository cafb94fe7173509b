"""
Requests to the authentication service. What asyncio would import at the first request is imported here, because a
process that is forked in the middle of an import can never finish it (gunicorn --preload).
"""

import asyncio
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Literal, Protocol, cast
from urllib.parse import SplitResult, urlsplit

import certifi
import h11

for _name in ("concurrent.futures.thread", "encodings.idna"):
    import_module(_name)

_CONNECT_TIMEOUT_SECONDS = 0.5
# The next address of a host is tried after this time, beside the first one (RFC 8305 §5).
_NEXT_ADDRESS_SECONDS = 0.25
# Ten times the size of a list of 1,000 changes.
_MAX_ANSWER_BYTES = 1_000_000
# Below the keep-alive time of most servers, so that a request rarely meets a connection that is being closed.
_KEEPALIVE_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    method: Literal["GET", "POST"]
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    # Whether this service's own key is sent with the request.
    presents_own_key: bool = False
    # Longer than the usual second when the service may wait before it answers.
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    status: int
    # Names in lower case.
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Transport(Protocol):
    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        """Raises ConnectionError (refused or broken, with the reason as its text), or TimeoutError."""
        ...

    async def close(self) -> None: ...


def create_ssl_context() -> ssl.SSLContext:
    """Trusts the authorities of the environment (SSL_CERT_FILE, SSL_CERT_DIR) or of certifi. Raises OSError."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or folder:
        return ssl.create_default_context(cafile=file or None, capath=folder or None)
    return ssl.create_default_context(cafile=certifi.where())


class HttpTransport:
    """
    HTTP/1.1 over keep-alive connections, each with one request at a time. It uses no proxy of the environment, no
    cookie and no redirect, and logs nothing; httpx would take twice the CPU for a poll.
    """

    def __init__(self, trusted: ssl.SSLContext | None = None) -> None:
        """`trusted`: None accepts no certificate."""
        self._trusted = trusted or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # The connection that was used last is at the end.
        self._idle: list[_Connection] = []

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        url = urlsplit(request.url)
        self._close_unused()
        connection = self._take_idle(url) or await self._connect(url)
        try:
            answer = await connection.send(request)
        except (OSError, h11.ProtocolError) as error:
            raise ConnectionError(type(error).__name__) from None
        finally:
            if connection.is_reusable():
                self._idle.append(connection)
            else:
                connection.abort()
        return answer

    async def close(self) -> None:
        closing, self._idle = self._idle, []
        for connection in closing:
            connection.abort()
        # Cancelled requests end in the next round of the loop.
        await asyncio.gather(asyncio.sleep(0), *(connection.lost for connection in closing))

    def _take_idle(self, url: SplitResult) -> "_Connection | None":
        for index in reversed(range(len(self._idle))):
            if self._idle[index].is_to(url):
                return self._idle.pop(index)
        return None

    def _close_unused(self) -> None:
        end = time.monotonic() - _KEEPALIVE_SECONDS
        kept = [connection for connection in self._idle if connection.used_at >= end and connection.is_reusable()]
        for connection in self._idle:
            if connection not in kept:
                connection.abort()
        self._idle = kept

    async def _connect(self, url: SplitResult) -> "_Connection":
        is_secure = url.scheme == "https"
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(url),
                    url.hostname or "",
                    url.port or (443 if is_secure else 80),
                    ssl=self._trusted if is_secure else None,
                    happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
                )
                return connection
        except TimeoutError:
            raise TimeoutError("No connection in time") from None
        except (OSError, UnicodeError) as error:
            # The class tells an operator what went wrong, such as SSLCertVerificationError. The message is left out.
            raise ConnectionError(type(error).__name__) from None


class _Connection(asyncio.Protocol):
    def __init__(self, url: SplitResult) -> None:
        self.used_at = 0.0
        # Done when the connection has ended.
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._origin = _get_origin(url)
        self._http = h11.Connection(h11.CLIENT)
        self._response: h11.Response | None = None
        self._body = bytearray()
        self._answer: asyncio.Future[ServiceAnswer] | None = None

    def is_to(self, url: SplitResult) -> bool:
        return self._origin == _get_origin(url)

    def is_reusable(self) -> bool:
        return self._http.our_state is h11.IDLE and not self._transport.is_closing()

    async def send(self, request: ServiceRequest) -> ServiceAnswer:
        """Raises OSError or h11.ProtocolError when the connection is broken."""
        url = urlsplit(request.url)
        headers = [("Host", _to_authority(url)), *request.headers.items()]
        if request.method == "POST":
            headers.append(("Content-Length", str(len(request.body))))
        head = self._http.send(h11.Request(method=request.method, target=url.path or "/", headers=headers))
        self._http.send(h11.Data(data=request.body))
        self._http.send(h11.EndOfMessage())
        self._response, self._body = None, bytearray()
        self._answer = asyncio.get_running_loop().create_future()
        # Head and body are sent in one packet.
        self._transport.write((head or b"") + request.body)
        try:
            return await self._answer
        finally:
            self._answer = None
            self.used_at = time.monotonic()

    def abort(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            # More bytes than the answer must not count as the next one.
            self.abort()
            return
        try:
            self._http.receive_data(data)
            self._read()
        except h11.ProtocolError as error:
            self._fail(error)

    def eof_received(self) -> None:
        if self._answer is not None:
            self.data_received(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionResetError())
        if not self.lost.done():
            self.lost.set_result(None)

    def _read(self) -> None:
        while isinstance(event := self._http.next_event(), h11.Event):
            if isinstance(event, h11.Response):
                self._response = event
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > _MAX_ANSWER_BYTES:
                    # An unreadable body is not from the service.
                    self._body.clear()
                    self._finish()
                    self.abort()
                    return
            elif isinstance(event, h11.EndOfMessage):
                self._finish()
                if self._http.our_state is self._http.their_state is h11.DONE and not self._http.trailing_data[0]:
                    self._http.start_next_cycle()
                return
            elif isinstance(event, h11.ConnectionClosed):
                raise h11.RemoteProtocolError("closed before the answer was complete")

    def _finish(self) -> None:
        if self._answer is not None and self._response is not None and not self._answer.done():
            status, headers = self._response.status_code, _join(self._response)
            self._answer.set_result(ServiceAnswer(status, headers, bytes(self._body)))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


def _get_origin(url: SplitResult) -> tuple[str, str]:
    return url.scheme, url.netloc


def _to_authority(url: SplitResult) -> str:
    host = (url.hostname or "").encode("idna").decode("ascii")
    if ":" in host:
        host = f"[{host}]"
    return host if url.port is None else f"{host}:{url.port}"


def _join(response: h11.Response) -> dict[str, str]:
    """Headers that arrived twice are one list (RFC 9110 §5.3)."""
    joined: dict[str, str] = {}
    for name, value in response.headers:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        joined[key] = f"{joined[key]}, {text}" if key in joined else text
    return joined
