"""
Servers that fork, thread and spawn, in processes of their own, beside a service that knows one node. Each worker must
verify.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from scripted import HOUSEHOLD_ID, NODE_HEADERS, NODE_ID, OWN_ID
from service import claim_port

PATIENCE_SECONDS = 120
TESTS = Path(__file__).resolve().parent
_CHANGES = {"cursor": "1", "reset": False, "lease_ms": 600, "fresh_for_ms": 500, "changes": []}
_YES = {"valid": True, "node_id": NODE_ID, "household_id": HOUSEHOLD_ID}
# Short, because the worker class of uvicorn does not end at SIGQUIT, and Gunicorn waits for it.
GUNICORN = ["gunicorn", "--preload", "--workers", "2", "--graceful-timeout", "1", "--log-level", "error", "--bind"]
SERVERS = {
    "sync": [*GUNICORN, "{address}", "served:wsgi"],
    "gthread": [*GUNICORN, "{address}", "--worker-class", "gthread", "--threads", "4", "served:wsgi"],
    "uvicorn worker": [*GUNICORN, "{address}", "--worker-class", "uvicorn_worker.UvicornWorker", "served:asgi"],
    "uvicorn": ["uvicorn", "--workers", "2", "--log-level", "warning", "--port", "{port}", "served:asgi"],
}


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps(_CHANGES if self.path == "/internal/changes" else _YES).encode()
        self.send_response(200)
        for name, value in {"Remember": "yes", "Expires-In": "60", "Fresh-For-Ms": "30000"}.items():
            self.send_header(f"X-Platform-{name}", value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    own = {"AUTH_APP_ID": OWN_ID, "AUTH_APP_KEY": "pa_app_own", "SERVICE_NAME": "recipes"}
    variables = {"AUTH_URL": f"http://127.0.0.1:{server.server_port}", "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    yield {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **own, **variables}
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def servers(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """
    Starts all servers at once and yields their addresses. The thread of the verifier already runs when some of them
    fork.
    """
    addresses: dict[str, str] = {}
    processes = []
    for name, words in SERVERS.items():
        port = claim_port()
        addresses[name] = f"http://127.0.0.1:{port}/"
        command = [word.format(address=f"127.0.0.1:{port}", port=port) for word in words]
        started = {"STARTS_BEFORE_FORK": "yes"} if name in ("gthread", "uvicorn worker") else {}
        processes.append(subprocess.Popen([sys.executable, "-m", *command], cwd=TESTS, env={**environment, **started}))
    yield addresses
    for process in processes:
        # This signal stops the server without waiting for its connections.
        process.send_signal(signal.SIGINT)
    for process in processes:
        process.wait()


@pytest.mark.parametrize("name", SERVERS)
def test_every_worker_of_a_server_verifies(servers: dict[str, str], name: str) -> None:
    accepted: set[str] = set()
    end = time.monotonic() + PATIENCE_SECONDS
    while len(accepted) < 2:
        assert time.monotonic() < end, f"{len(accepted)} of 2 workers accepted the node"
        try:
            response = httpx.get(servers[name], headers=NODE_HEADERS, timeout=20)
        except httpx.TransportError:
            time.sleep(0.05)
            continue
        assert response.status_code in (200, 503), response.text
        if response.status_code == 200:
            accepted.add(response.text)


def test_a_gunicorn_with_gevent_does_not_start_and_says_why(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "gunicorn", "--worker-class", "gevent", "--bind", "127.0.0.1:0", "served:wsgi"]
    ended = subprocess.run(
        command, cwd=TESTS, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert ended.returncode != 0
    assert "gevent or eventlet has replaced in this process: start gunicorn with --worker-class gthread" in ended.stderr


def test_answers_503_and_says_why_when_gevent_replaces_the_threads_after_the_verifier_was_created(
    environment: dict[str, str],
) -> None:
    """Forks as gunicorn --preload does."""
    program = """
from platform_auth import UnavailableError, Verifier
from scripted import NODE_HEADERS
auth = Verifier.from_environment()
from gevent import monkey
monkey.patch_all()
for _ in range(2):
    try:
        auth.verify_node_sync(NODE_HEADERS)
    except UnavailableError as error:
        print(error.status)
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(
        command, cwd=TESTS, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert ended.stdout.split() == ["503", "503"], ended.stderr
    assert ended.stderr.count("--worker-class gthread") == 1


PROGRAM = """
import multiprocessing
from platform_auth import UnavailableError, Verifier
from scripted import NODE_HEADERS

auth = Verifier.from_environment()

def verify(queue):
    while True:
        try:
            queue.put(auth.verify_node_sync(NODE_HEADERS).node_id)
            return
        except UnavailableError:
            pass

if __name__ == "__main__":
    verify(multiprocessing.SimpleQueue())
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        processes = [context.Process(target=verify, args=(queue,)) for _ in range(2)]
        for process in processes:
            process.start()
        print(method, {queue.get() for _ in processes})
        for process in processes:
            process.join()
"""


def test_processes_of_multiprocessing_verify(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py"]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert ended.stdout.splitlines() == [f"fork {{'{NODE_ID}'}}", f"spawn {{'{NODE_ID}'}}"], ended.stderr


def test_starts_no_thread_before_the_first_use_and_imports_nothing_at_it(environment: dict[str, str]) -> None:
    """A process that is forked in the middle of an import of another thread can never finish it."""
    program = """
import sys, threading, time
from platform_auth import Verifier, VerificationError
from scripted import NODE_HEADERS
auth = Verifier.from_environment()
threads = threading.active_count()
before = set(sys.modules)
cut_off = Verifier.from_environment({**__import__("os").environ, "AUTH_URL": "http://localhost:1"})
for verifier in (auth, cut_off):
    for headers in (NODE_HEADERS, {"X-API-Key": "malformed"}, {**NODE_HEADERS, "X-Request-Id": "a"}):
        try:
            verifier.verify_node_sync(headers)
        except VerificationError as error:
            error.to_response().content
    verifier.close()
print(threads, sorted(set(sys.modules) - before))
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert ended.stdout == "1 []\n", ended.stderr
