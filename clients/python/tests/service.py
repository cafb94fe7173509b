"""The real service, as processes on one database."""

import json
import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

ROOT = Path(__file__).resolve().parents[3]
ADMIN_KEY = "python-admin-Kq3vYt8sLw2nXz5rBd7fGh1jMp4cQe6u"
SECRET_KEY = "python-signing-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u"
PASSWORD = "a perfectly fine passphrase"
_START_SECONDS = 120
# As `npm start` runs it: V8 compiles the service again under other flags.
_FLAGS = ["--max-semi-space-size=64", "--no-allocation-site-pretenuring", "--heap-growing-percent=200"]
_TOKENS: list[socket.socket] = []


def _replace_settings(**settings: int) -> str:
    """Replaces fixed settings, with which the service would turn verdicts into 503 on a busy machine."""
    module = (ROOT / "dist/tools/replace-settings.js").as_uri()
    return f"--import={module}?{quote(json.dumps(settings))}"


_VARIABLES = {
    "NODE_ENV": "test",
    "HOST": "127.0.0.1",
    "SECRET_KEY": SECRET_KEY,
    "ADMIN_API_KEY": ADMIN_KEY,
    "BCRYPT_COST": "4",
    "DATABASE_POOL_SIZE": "3",
    "NODE_OPTIONS": _replace_settings(databaseConnectTimeoutMs=20_000, databaseStatementTimeoutMs=20_000),
    # Long enough that a slow machine does not lose the lease between two requests.
    "REVOCATION_LEASE_MS": "1000",
    "SHUTDOWN_DELAY_MS": "0",
    "LOG_LEVEL": "warn",
}


def claim_port() -> int:
    """
    Returns a port below those that the system assigns to connections, so that no connection takes it before the
    service listens. The claim is the UDP port of the same number, as in tools/claim-port.ts.
    """
    while True:
        port = random.randrange(20_000, 32_768)
        token = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            token.bind(("127.0.0.1", port))
            with socket.socket() as free:
                free.bind(("127.0.0.1", port))
        except OSError:
            token.close()
            continue
        _TOKENS.append(token)
        return port


class Replica:
    """A replica of the service, which `npm run test:python` has built beside a database."""

    def __init__(self, **variables: str) -> None:
        self._variables = variables
        self._port = claim_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        # The whole environment, because nothing else is inherited.
        inherited = {name: os.environ[name] for name in ("PATH", "DATABASE_URL")}
        environment = {**inherited, **_VARIABLES, **self._variables, "PORT": str(self._port)}
        self._process = subprocess.Popen(["node", *_FLAGS, "dist/service/main.js"], cwd=ROOT, env=environment)

    def await_ready(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                if httpx.get(f"{self.url}/health").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        raise AssertionError("The service did not start")

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.resume()
        self._process.kill()
        self._process.wait()

    def call(self, method: str, path: str, body: object = None, headers: Any = None) -> httpx.Response:
        headers = {"X-Admin-Key": ADMIN_KEY} if headers is None else headers
        return httpx.request(method, self.url + path, json=body, headers=headers, timeout=30)

    def create(self, path: str, body: object) -> dict[str, Any]:
        response = self.call("POST", path, body)
        assert response.status_code in (200, 201), response.text
        created: dict[str, Any] = response.json()
        return created

    def create_app(self, caller: str, target: str, **fields: Any) -> dict[str, str]:
        created = self.create("/api/v0/admin/app-credentials", {"caller": caller, "target": target, **fields})
        return {"X-Platform-App-Id": created["app_id"], "X-Platform-App-Key": created["app_key"]}

    def create_node(self, **fields: Any) -> dict[str, str]:
        body = {"household_id": "5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10", "room": "hall", "name": "lamp", **fields}
        created = self.create("/api/v0/admin/nodes", body)
        return {"X-API-Key": f"{created['node_id']}:{created['api_key']}"}

    def create_user(self, email: str) -> str:
        user_id: str = self.create("/api/v0/admin/users", {"email": email, "password": PASSWORD})["id"]
        return user_id

    def log_in(self, email: str) -> dict[str, str]:
        tokens = self.create("/api/v0/auth/login", {"email": email, "password": PASSWORD})
        return {"Authorization": f"Bearer {tokens['access_token']}"}
