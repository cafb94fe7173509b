"""A guard for services built with FastAPI: asks platform-auth about each request. docs/integrate.md explains the rules."""
import asyncio
import json
import random

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import Response

# What each door forwards, and the codes of a 401 that are verdicts on it. Others are about this service's own request.
DOORS = {
    "user": ({b"authorization"}, {"missing_access_token", "invalid_access_token"}),
    "app": ({b"x-platform-app-id", b"x-platform-app-key"}, {"invalid_app_credentials"}),
    "node": ({b"x-api-key"}, {"invalid_node_credentials"}),
}
TRACING = {b"x-request-id", b"traceparent"}
TIMEOUT_SECONDS = 1.0
UNAVAILABLE = {"type": "/problems/unavailable", "title": "The credential could not be checked", "status": 503, "code": "unavailable"}
MISSING_SCOPE = {"type": "/problems/missing-scope", "title": "A scope is missing", "status": 403, "code": "missing_scope"}


class Refused(Exception):
    def __init__(self, status: int, problem: str | bytes, headers: dict):
        self.response = Response(problem, status, headers, media_type="application/problem+json")


def install(app: FastAPI) -> None:
    """Sends refusals as the problem documents that they are."""
    app.add_exception_handler(Refused, lambda _request, refused: refused.response)


class Guard:
    """A dependency: `caller: dict = Depends(Guard("node", AUTH_URL, "recipes"))` is what platform-auth said about the caller.

    scope, at the door "app": what a restricted key has to be allowed. Without it, every restricted key is refused.
    """

    def __init__(self, door: str, auth_url: str, service_name: str, scope: str | None = None):
        if not service_name:
            raise ValueError("service_name is missing: see SERVICE_NAME in the file of the service.")
        self.scope = scope
        self.forwards, self.verdicts = DOORS[door]
        self.url = f"{auth_url}/internal/validate-{door}"
        self.own = [(b"x-platform-target", service_name.encode())] if door != "user" else []
        if scope is not None:
            self.own.append((b"x-platform-scope", scope.encode()))
        # trust_env: no proxy of the environment sees credentials.
        self.client = httpx.AsyncClient(trust_env=False)

    async def __call__(self, request: Request) -> dict:
        # Raw, because a header may hold any byte.
        sent = [(name, value) for name, value in request.headers.raw if name in self.forwards | TRACING]
        answer = await self.ask(sent + self.own)
        status, body = read(answer)
        code = body["code"] if isinstance(body.get("code"), str) else ""
        if status == 200 and body.get("valid") is True:
            # An answer without scopes is about a key that is not restricted.
            if "scopes" in body and not (isinstance(body["scopes"], list) and self.scope in body["scopes"]):
                raise Refused(403, json.dumps(MISSING_SCOPE), {})
            return body
        is_verdict = (status == 401 and code in self.verdicts) or (status == 403 and code == "missing_scope")
        if is_verdict or (status in (400, 431) and code not in ("", "validation_failed")):
            challenge = answer.headers.get("www-authenticate")
            raise Refused(status, answer.content, {"WWW-Authenticate": challenge} if challenge else {})
        raise Refused(503, json.dumps(UNAVAILABLE), {"Retry-After": "2"})

    async def ask(self, headers: list, is_retry: bool = False) -> httpx.Response | None:
        """Repeats once: after a connection that was refused or broke, or a 503. Never after a time-out, which means overload."""
        try:
            answer = await asyncio.wait_for(self.client.post(self.url, headers=headers, timeout=None), TIMEOUT_SECONDS)
        except asyncio.TimeoutError:
            return None
        except httpx.HTTPError:
            answer = None
        if is_retry or (answer is not None and answer.status_code != 503):
            return answer
        await asyncio.sleep(random.uniform(0.05, 0.15))
        return await self.ask(headers, True)


def read(answer: httpx.Response | None) -> tuple[int, dict]:
    try:
        body = answer.json() if answer is not None else None
    # Not JSON, or nested too deeply.
    except (ValueError, RecursionError):
        body = None
    return (answer.status_code, body) if isinstance(body, dict) else (503, {})
