"""Frameworks without an adapter of their own, with the adapters that docs/verifiers.md shows."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient as AiohttpClient
from aiohttp.test_utils import TestServer
from litestar import Litestar, Request, Response, get
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.testing import TestClient

from platform_auth import User, VerificationError, Verifier


def test_aiohttp() -> None:
    asyncio.run(play_aiohttp())


async def play_aiohttp() -> None:
    auth = Verifier.for_tests()
    alice = auth.issue_user()
    user = web.RequestKey("user", User)

    @web.middleware
    async def require_user(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            request[user] = await auth.verify_user(request.raw_headers, address=request.remote)
        except VerificationError as error:
            problem = error.to_response()
            return web.Response(status=problem.status, headers=problem.headers, body=problem.content)
        return await handler(request)

    async def read_email(request: web.Request) -> web.Response:
        return web.json_response(request[user].email)

    app = web.Application(middlewares=[require_user])
    app.router.add_get("/", read_email)
    async with AiohttpClient(TestServer(app)) as client:
        accepted = await client.get("/", headers=alice.headers)
        assert (accepted.status, await accepted.json()) == (200, "user@example.org")
        refused = await client.get("/")
        assert (refused.status, refused.content_type) == (401, "application/problem+json")
        assert refused.headers["WWW-Authenticate"].startswith("Bearer")
        assert (await refused.json())["code"] == "missing_access_token"
        doubled = await client.get("/", headers=[*alice.headers.items(), *alice.headers.items()])
        assert doubled.status == 400
        auth.set_available(False)
        unavailable = await client.get("/", headers=alice.headers)
        assert (unavailable.status, unavailable.headers["Retry-After"]) == (503, "2")


def test_litestar() -> None:
    auth = Verifier.for_tests()
    alice = auth.issue_user()

    async def require_user(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        connection.scope["user"] = await auth.verify_user(connection.scope["headers"])

    def to_response(_request: Request[Any, Any, Any], error: VerificationError) -> Response[bytes]:
        problem = error.to_response()
        return Response(problem.content, status_code=problem.status, headers=problem.headers)

    @get("/", guards=[require_user])
    async def read_email(request: Request[Any, Any, Any]) -> str:
        return str(request.user.email)

    app = Litestar([read_email], exception_handlers={VerificationError: to_response})
    with TestClient(app) as client:
        accepted = client.get("/", headers=alice.headers)
        assert (accepted.status_code, accepted.text) == (200, "user@example.org")
        refused = client.get("/")
        assert (refused.status_code, refused.headers["content-type"]) == (401, "application/problem+json")
        assert refused.headers["WWW-Authenticate"].startswith("Bearer")
        auth.set_available(False)
        unavailable = client.get("/", headers=alice.headers)
        assert (unavailable.status_code, unavailable.json()["code"]) == (503, "unavailable")
