"""HTTP on real connections."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from platform_auth.clocks import SYSTEM_CLOCKS
from platform_auth.own_key import OwnKey
from platform_auth.runtime import Runtime
from platform_auth.service_client import ServiceClient
from platform_auth.transport import HttpTransport, ServiceRequest, create_ssl_context

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEADERS = {"X-API-Key": "node:pa_node_of-a-test"}


def respond(head: str, body: bytes = b"{}") -> bytes:
    return f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Server:
    """Answers every request with the same bytes, after `release` if the test holds answers back; None breaks the connection."""

    def __init__(self, answer: bytes | None, is_held: bool = False, closes: bool = False) -> None:
        self._answer = answer
        self._closes = closes
        self.connections = 0
        self.open = 0
        self.requests: list[bytes] = []
        self._may_answer = asyncio.Event()
        if not is_held:
            self._may_answer.set()

    def release(self) -> None:
        self._may_answer.set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head)
                await self._may_answer.wait()
                if self._answer is None:
                    break
                writer.write(self._answer)
                await writer.drain()
                if self._closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            writer.close()


async def eventually(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_true():
            await asyncio.sleep(0.01)


def play(server: Server, work: Callable[[HttpTransport, str], Awaitable[None]]) -> None:
    async def run() -> None:
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        transport = HttpTransport()
        try:
            await work(transport, f"http://127.0.0.1:{port}/internal/validate-node")
        finally:
            await transport.close()
            listening.close()

    asyncio.run(run())


def test_keeps_its_connections() -> None:
    server = Server(respond("200 OK\r\nSet-Cookie: a=b\r\nX-Platform-Remember: yes"))

    async def work(transport: HttpTransport, url: str) -> None:
        for _ in range(3):
            answer = await transport.send(ServiceRequest("POST", url, HEADERS))
            assert (answer.status, answer.body, answer.headers["x-platform-remember"]) == (200, b"{}", "yes")
            await transport.send(ServiceRequest("POST", url, {}, b""))

    play(server, work)
    assert server.connections == 1
    assert len(server.requests) == 6
    assert sum(b"pa_node_of-a-test" in head for head in server.requests) == 3
    assert not any(b"cookie" in head.lower() for head in server.requests)


def test_names_the_host_in_ascii_beside_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(respond("200 OK"))

    async def work(transport: HttpTransport, url: str) -> None:
        loop = asyncio.get_running_loop()

        async def resolve(_host: object, port: int, **_options: object) -> object:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        await transport.send(ServiceRequest("POST", url.replace("127.0.0.1", "auth.рф"), {}))

    play(server, work)
    assert b"\r\nHost: auth.xn--p1ai:" in server.requests[0]


def test_follows_no_redirect() -> None:
    server = Server(respond("302 Found\r\nLocation: http://127.0.0.1:1/"))

    async def work(transport: HttpTransport, url: str) -> None:
        assert (await transport.send(ServiceRequest("POST", url, HEADERS))).status == 302

    play(server, work)
    assert len(server.requests) == 1


def test_reads_nothing_of_an_answer_that_is_too_long() -> None:
    async def work(transport: HttpTransport, url: str) -> None:
        assert (await transport.send(ServiceRequest("POST", url, HEADERS))).body == b""

    play(Server(respond("200 OK", b" " * 1_000_001)), work)


@pytest.mark.parametrize("answer", [None, b"SSH-2.0-OpenSSH_9.9\r\n\r\n"])
def test_tells_a_broken_connection(answer: bytes | None) -> None:
    async def work(transport: HttpTransport, url: str) -> None:
        with pytest.raises(ConnectionError):
            await transport.send(ServiceRequest("POST", url, HEADERS))

    play(Server(answer), work)


@pytest.mark.parametrize("extra", [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", b"\r\n"])
def test_takes_nothing_that_arrived_before_its_request_for_the_answer_to_it(extra: bytes) -> None:
    server = Server(respond("200 OK") + extra)

    async def work(transport: HttpTransport, url: str) -> None:
        for _ in range(3):
            assert (await transport.send(ServiceRequest("POST", url, HEADERS))).body == b"{}"

    play(server, work)
    assert server.connections == 3


@pytest.mark.parametrize("head", ["HTTP/1.1 200 OK\r\nConnection: close", "HTTP/1.0 200 OK"])
def test_reads_an_answer_that_ends_with_its_connection(head: str) -> None:
    server = Server(f"{head}\r\n\r\n{{}}".encode(), closes=True)

    async def work(transport: HttpTransport, url: str) -> None:
        for _ in range(2):
            assert (await transport.send(ServiceRequest("POST", url, HEADERS))).body == b"{}"

    play(server, work)
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-A: 1\r\nX-a: 2\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\nX-a: 2\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_reads_answers_of_every_form(answer: bytes) -> None:
    server = Server(answer)

    async def work(transport: HttpTransport, url: str) -> None:
        for _ in range(2):
            read = await transport.send(ServiceRequest("POST", url, HEADERS, b"[]"))
            assert (read.status, read.body, read.headers["x-a"]) == (200, b"{}", "1, 2")

    play(server, work)
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000,
    ],
)
def test_tells_an_answer_that_is_not_complete_or_not_http(answer: bytes) -> None:
    async def work(transport: HttpTransport, url: str) -> None:
        with pytest.raises(ConnectionError):
            await transport.send(ServiceRequest("POST", url, HEADERS))

    play(Server(answer, closes=True), work)


def test_tells_a_refused_connection() -> None:
    async def work(transport: HttpTransport, _url: str) -> None:
        with pytest.raises(ConnectionError):
            await transport.send(ServiceRequest("POST", "http://127.0.0.1:1/", HEADERS))

    play(Server(None), work)


def test_uses_no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    async def work(transport: HttpTransport, url: str) -> None:
        assert (await transport.send(ServiceRequest("POST", url, HEADERS))).status == 200

    play(Server(respond("200 OK")), work)


def test_trusts_the_authorities_of_the_environment_also_when_only_the_keys_come_by_https(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate, key = write_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = Server(respond("200 OK"))

    async def run() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=context)
        transport = HttpTransport(create_ssl_context())
        port = listening.sockets[0].getsockname()[1]
        answer = await transport.send(ServiceRequest("GET", f"https://127.0.0.1:{port}/.well-known/jwks.json", {}))
        assert answer.status == 200
        await transport.close()
        listening.close()

    asyncio.run(run())


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Writes a self-signed certificate of 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    key_bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key_bytes)
    return folder / "certificate.pem", folder / "key.pem"


def test_logs_nothing_at_info_and_no_credential_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def work(transport: HttpTransport, url: str) -> None:
        await transport.send(ServiceRequest("POST", url, HEADERS))

    play(Server(respond("200 OK")), work)
    assert [record.name for record in caplog.records if record.levelno >= logging.INFO] == []
    assert "pa_node_of-a-test" not in caplog.text


@pytest.mark.usefixtures("patient")
def test_has_a_connection_for_each_request_in_flight_and_none_of_one_that_was_cancelled() -> None:
    """A cancelled request must not break the others, because a broken question is repeated."""
    server = Server(respond("200 OK"), is_held=True)
    count = 10

    async def work(transport: HttpTransport, url: str) -> None:
        runtime = Runtime(SYSTEM_CLOCKS, polls=None, questions=None, events=None)  # type: ignore[arg-type]
        client = ServiceClient(runtime, transport, OwnKey("01985f4e-7c3a-7b52-9d1e-000000000c01", "pa_app_own"))
        request = ServiceRequest("POST", url, HEADERS)
        deadline = SYSTEM_CLOCKS.monotonic() + 120
        questions = [asyncio.create_task(client.send_with_retry(request, deadline)) for _ in range(count)]
        await eventually(lambda: len(server.requests) == count)
        assert server.connections == count
        for question in questions[:3]:
            question.cancel()
        await asyncio.wait(questions[:3])
        server.release()
        answered = await asyncio.gather(*questions[3:])
        assert [timed.answer.status for timed in answered] == [200] * (count - 3)
        await eventually(lambda: server.open == count - 3)
        assert (await transport.send(request)).status == 200
        assert server.connections == count

    play(server, work)
    assert len(server.requests) == count + 1


def test_closes_connections_that_nothing_used_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(respond("200 OK"), is_held=True)
    later = 0.0
    monkeypatch.setattr("platform_auth.transport.time", SimpleNamespace(monotonic=lambda: time.monotonic() + later))

    async def work(transport: HttpTransport, url: str) -> None:
        nonlocal later
        request = ServiceRequest("POST", url, HEADERS)
        sent = [asyncio.create_task(transport.send(request)) for _ in range(5)]
        await eventually(lambda: len(server.requests) == 5)
        server.release()
        await asyncio.gather(*sent)
        assert server.open == 5
        later = 10
        await transport.send(request)
        await eventually(lambda: server.open == 1)

    play(server, work)
