"""FastAPI, Starlette and plain ASGI, with Verifier.for_tests()."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from threading import Event
from typing import Any
from uuid import UUID, uuid4

import httpx
import jwt
import pytest
from fastapi import Depends, FastAPI, Request, WebSocket
from fastapi.responses import PlainTextResponse
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from platform_auth import (
    App,
    AppPrincipal,
    DelegatedUserPrincipal,
    Membership,
    Node,
    Principal,
    RefusedError,
    TestVerifier,
    UnavailableError,
    User,
    VerificationError,
    Verifier,
    VerifierConfigurationError,
)
from platform_auth.asgi import RequireApp, RequireMember, RequireNode, RequireUser
from platform_auth.starlette import ProblemException

DOORS = ["app", "node", "user"]
CODES = {"app": "invalid_app_credentials", "node": "invalid_node_credentials", "user": "invalid_access_token"}
SCHEMES = {"app": "PlatformApp", "node": "NodeKey", "user": "Bearer"}


@pytest.fixture
def auth() -> Iterator[TestVerifier]:
    verifier = Verifier.for_tests()
    yield verifier
    verifier.close()


def create_fastapi(auth: TestVerifier) -> FastAPI:
    api = FastAPI()

    @api.get("/app")
    async def app(caller: App = Depends(auth.app)) -> dict[str, str]:
        return {"id": caller.app_id, "caller": caller.caller, "target": caller.target}

    @api.get("/node")
    def node(caller: Node = Depends(auth.node)) -> dict[str, str]:
        return {"id": caller.node_id, "household": caller.household_id}

    @api.get("/user")
    async def user(caller: User = Depends(auth.user)) -> dict[str, str]:
        return {"id": caller.user_id, "session": caller.session_id, "email": caller.email}

    @api.get("/delegated")
    async def delegated(
        caller: User | DelegatedUserPrincipal = Depends(auth.user_with(delegated=True, scope="documents:read")),
    ) -> dict[str, str | None]:
        return {"id": caller.user_id, "caller": caller.caller}

    @api.get("/onward")
    async def onward(request: Request, caller: User = Depends(auth.user)) -> dict[str, str]:
        return {"token": await auth.token_for(request.headers, "ocr", scope="documents:read")}

    @api.get("/onward-in-an-outage")
    async def onward_in_an_outage(request: Request, caller: User = Depends(auth.user)) -> dict[str, str]:
        auth.set_available(False)
        return {"token": await auth.token_for(request.headers, "ocr")}

    @api.get("/homes/{home}")
    async def member(home: UUID, caller: User = Depends(auth.member("home"))) -> dict[str, str]:
        return {"id": caller.user_id}

    @api.get("/homes/{home}/nodes")
    def admin(caller: User = Depends(auth.member(household_path="home", role="admin"))) -> dict[str, str]:
        return {"id": caller.user_id}

    @api.websocket("/node")
    async def stream(socket: WebSocket, caller: Node = Depends(auth.node)) -> None:
        await socket.accept()
        await socket.send_text(caller.node_id)
        await socket.close()

    @api.websocket("/late")
    async def late(socket: WebSocket) -> None:
        await socket.accept()
        await auth.node(socket)

    return api


def create_starlette(auth: TestVerifier) -> Starlette:
    async def app(request: Request) -> JSONResponse:
        caller = await auth.app(request)
        return JSONResponse({"id": caller.app_id, "caller": caller.caller, "target": caller.target})

    async def node(request: Request) -> JSONResponse:
        caller = await auth.node(request)
        return JSONResponse({"id": caller.node_id, "household": caller.household_id})

    async def user(request: Request) -> JSONResponse:
        caller = await auth.user(request)
        return JSONResponse({"id": caller.user_id, "session": caller.session_id, "email": caller.email})

    async def member(request: Request) -> JSONResponse:
        return JSONResponse({"id": (await auth.member("home")(request)).user_id})

    async def admin(request: Request) -> JSONResponse:
        return JSONResponse({"id": (await auth.member("home", role="admin")(request)).user_id})

    homes = [Route("/homes/{home}", member), Route("/homes/{home}/nodes", admin)]
    return Starlette(routes=[Route("/app", app), Route("/node", node), Route("/user", user), *homes])


def create_asgi(auth: TestVerifier) -> Any:
    """Creates an application in which each door has its middleware."""

    async def service(scope: Any, receive: Any, send: Any) -> None:
        auth_of = scope["auth"]
        body = {"id": getattr(auth_of, f"{auth_of.door}_id")}
        match auth_of:
            case AppPrincipal():
                body |= {"caller": auth_of.caller, "target": auth_of.target}
            case Node():
                body |= {"household": auth_of.household_id}
            case User():
                body |= {"session": auth_of.session_id, "email": auth_of.email}
        await JSONResponse(body)(scope, receive, send)

    guards = {"/app": RequireApp, "/node": RequireNode, "/user": RequireUser}

    def read_home(scope: Any) -> str:
        return str(scope["path"].split("/")[2])

    async def route(scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        role = "admin" if path.endswith("/nodes") else None
        guard = guards[path](service, auth) if path in guards else RequireMember(service, auth, read_home, role)
        await guard(scope, receive, send)

    return route


FRAMEWORKS = pytest.mark.parametrize("create", [create_fastapi, create_starlette, create_asgi])


def call(app: Any, path: str, headers: Any) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://recipes.test") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(send())


def issue(auth: TestVerifier, door: str) -> Any:
    return {"app": auth.issue_app, "node": auth.issue_node, "user": auth.issue_user}[door]()


def expect_problem(response: httpx.Response, status: int, code: str) -> None:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert (body["status"], body["code"], body["type"]) == (status, code, f"/problems/{code.replace('_', '-')}")
    assert body["instance"] == f"urn:request:{body['request_id']}"


@FRAMEWORKS
def test_hands_over_the_caller(auth: TestVerifier, create: Any) -> None:
    app = create(auth)
    caller = auth.issue_app(caller="meals")
    expected = {"id": caller.principal.app_id, "caller": "meals", "target": "service-under-test"}
    assert call(app, "/app", caller.headers).json() == expected
    node = auth.issue_node(household_id="h1")
    assert call(app, "/node", node.headers).json() == {"id": node.principal.node_id, "household": "h1"}
    user = auth.issue_user(email="bob@example.org")
    expected = {"id": user.principal.user_id, "session": user.principal.session_id, "email": "bob@example.org"}
    assert call(app, "/user", user.headers).json() == expected


@FRAMEWORKS
@pytest.mark.parametrize("door", DOORS)
def test_refuses_with_the_problem_document_of_the_door(auth: TestVerifier, create: Any, door: str) -> None:
    app = create(auth)
    credential = issue(auth, door)
    auth.revoke(credential)
    response = call(app, f"/{door}", credential.headers)
    expect_problem(response, 401, CODES[door])
    assert response.headers["www-authenticate"].startswith(SCHEMES[door])
    missing = call(app, f"/{door}", {})
    expect_problem(missing, 401, "missing_access_token" if door == "user" else CODES[door])


@FRAMEWORKS
@pytest.mark.parametrize("door", DOORS)
def test_answers_503_when_the_service_cannot_be_asked(auth: TestVerifier, create: Any, door: str) -> None:
    credential = issue(auth, door)
    auth.set_available(False)
    app = create(auth)
    response = call(app, f"/{door}", credential.headers)
    expect_problem(response, 503, "unavailable")
    assert response.headers["retry-after"] == "2"
    auth.set_available(True)
    assert call(app, f"/{door}", credential.headers).status_code == 200


@FRAMEWORKS
def test_answers_400_to_a_credential_header_that_arrives_twice(auth: TestVerifier, create: Any) -> None:
    (name, value), = auth.issue_node().headers.items()
    response = call(create(auth), "/node", [(name, value), (name.lower(), value)])
    expect_problem(response, 400, "duplicate_header")
    assert response.json()["errors"] == []


@FRAMEWORKS
def test_admits_members_of_the_household_and_to_what_needs_the_role_its_admins_alone(auth: TestVerifier, create: Any) -> None:
    app, home, other = create(auth), str(uuid4()), str(uuid4())
    alice = auth.issue_user(households=[Membership(home, "admin"), Membership(other.upper(), "member")])
    ask = lambda path, headers=alice.headers: call(app, f"/homes/{path}", headers)  # noqa: E731
    for path in (home, f"{home}/nodes", other):
        assert ask(path).json()["id"] == alice.principal.user_id
    expect_problem(ask(f"{other}/nodes"), 403, "missing_role")
    for household in (str(uuid4()), home.upper(), "home"):
        expect_problem(ask(household), 404, "not_found")
        expect_problem(ask(f"{household}/nodes"), 404, "not_found")
    expect_problem(ask(home, {}), 401, "missing_access_token")
    auth.set_households(alice, [Membership(home, "member")])
    expect_problem(ask(f"{home}/nodes"), 403, "missing_role")
    auth.set_households(alice, [])
    expect_problem(ask(home), 404, "not_found")
    assert call(app, "/user", alice.headers).status_code == 200
    auth.set_available(False)
    expect_problem(ask(home), 503, "unavailable")


def test_tells_a_connection_about_a_household_that_its_user_was_demoted_or_removed(auth: TestVerifier) -> None:
    home, told = str(uuid4()), [Event(), Event()]
    alice = auth.issue_user(households=[Membership(home, "admin")])
    auth.on_ended(alice.headers, told[0].set, household=home, role="admin")
    auth.on_ended(alice.headers, told[1].set, household=home)
    auth.set_households(alice, [Membership(home, "member")])
    assert told[0].wait(60)
    assert not told[1].is_set()
    auth.set_households(alice, [])
    assert told[1].wait(60)
    nowhere = Event()
    auth.on_ended(alice.headers, nowhere.set, household=None)
    assert nowhere.wait(60)


HOSTILE = [
    *(b"", b" ", b"\x00", b"\x7f", b"\xff\xfe\xfd", "clé".encode(), b"a" * 100_000, b"Bearer", b"bearer  ", b":", b"a:"),
    *(b":a", b"a:\xe9", b"Bearer \xff", b"Bearer a b", b"Bearer a\nb", b"Basic YTpi", b"Bearer .", b"Bearer a.b.c"),
    b"Bearer W1tbW1tbW1tbW1tbW1tbW1tbW1tbW1tb.W1tbW1tbW1tb.AA",
    b"Bearer eyJhbGciOiJIUzI1NiIsImNyaXQiOlt7fV19.e30.AA",
    *("Bearer ١.٢.٣".encode(), b"%00", b"{}", b"null", b"\r\nX: y", b"a:b\r\n", b"\n", b"a:b\n"),
]


@FRAMEWORKS
@pytest.mark.parametrize("door", DOORS)
def test_refuses_whatever_the_header_holds(auth: TestVerifier, create: Any, door: str) -> None:
    """Sends below the client, which would refuse some of these headers."""
    app = create(auth)
    names = {"app": b"x-platform-app-key", "node": b"x-api-key", "user": b"authorization"}
    for value in HOSTILE:
        headers = [(b"x-platform-app-id", b"a"), (names[door], value), (b"x-request-id", value), (b"traceparent", value)]
        status, body = asyncio.run(send_raw(app, f"/{door}", headers))
        assert (status, body["status"]) == (401, 401), value


async def send_raw(app: Any, path: str, headers: list[tuple[bytes, bytes]]) -> tuple[int, Any]:
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    server = {"server": ("recipes.test", 80), "scheme": "http", "http_version": "1.1", "asgi": {"version": "3.0"}}
    await app({**scope, **server, "root_path": "", "headers": headers}, receive, send)
    return messages[0]["status"], json.loads(b"".join(message.get("body", b"") for message in messages))


@FRAMEWORKS
def test_answers_503_and_never_500_to_an_error_of_its_own(
    auth: TestVerifier, create: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_headers: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(auth, "verify_node", fail)
    expect_problem(call(create(auth), "/node", {}), 503, "unavailable")


def test_lets_an_application_answer_itself(auth: TestVerifier) -> None:
    app = create_fastapi(auth)

    @app.exception_handler(ProblemException)
    async def answer(_request: Request, exception: ProblemException) -> PlainTextResponse:
        assert isinstance(exception.error, VerificationError)
        return PlainTextResponse(exception.error.code, 418)

    response = call(app, "/node", {})
    assert (response.status_code, response.text) == (418, "invalid_node_credentials")


def test_sends_the_same_status_and_headers_where_the_framework_hides_its_handlers(auth: TestVerifier) -> None:
    app = create_fastapi(auth)

    async def hide(request: Request) -> None:
        request.scope.pop("starlette.exception_handlers")

    @app.get("/hidden", dependencies=[Depends(hide), Depends(auth.node)])
    async def hidden() -> None: ...

    response = call(app, "/hidden", {})
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == 'NodeKey realm="platform-auth"'


async def connect(app: Any, path: str, headers: dict[str, str], extensions: dict[str, Any]) -> list[Any]:
    """Returns every message of the application to a client that connects and then waits."""
    messages: list[Any] = []
    received = iter([{"type": "websocket.connect"}])

    async def receive() -> Any:
        return next(received, {"type": "websocket.disconnect", "code": 1006})

    async def send(message: Any) -> None:
        messages.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "websocket", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": raw}
    server = {"scheme": "ws", "http_version": "1.1", "subprotocols": [], "root_path": "", "asgi": {"version": "3.0"}}
    await app({**scope, **server, "extensions": extensions}, receive, send)
    return messages


@pytest.mark.parametrize("create", [create_fastapi, create_asgi])
def test_refuses_a_websocket_before_it_is_accepted(auth: TestVerifier, create: Any) -> None:
    app = create(auth)
    denial = asyncio.run(connect(app, "/node", {}, {"websocket.http.response": {}}))
    assert [message["type"] for message in denial] == ["websocket.http.response.start", "websocket.http.response.body"]
    assert denial[0]["status"] == 401
    assert json.loads(denial[1]["body"])["code"] == "invalid_node_credentials"
    closed = asyncio.run(connect(app, "/node", {}, {}))
    assert [(message["type"], message["code"]) for message in closed] == [("websocket.close", 1008)]


def test_accepts_a_websocket(auth: TestVerifier) -> None:
    node = auth.issue_node()
    messages = asyncio.run(connect(create_fastapi(auth), "/node", node.headers, {}))
    assert [message["type"] for message in messages] == ["websocket.accept", "websocket.send", "websocket.close"]
    assert messages[1]["text"] == node.principal.node_id


def test_closes_a_websocket_that_was_accepted_before_its_caller_was_verified(auth: TestVerifier) -> None:
    messages = asyncio.run(connect(create_fastapi(auth), "/late", {}, {"websocket.http.response": {}}))
    assert [message["type"] for message in messages] == ["websocket.accept", "websocket.close"]


def test_the_middleware_leaves_other_events_of_the_server_alone(auth: TestVerifier) -> None:
    seen: list[str] = []

    async def service(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(RequireNode(service, auth)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]


def test_a_key_for_another_service_is_refused(auth: TestVerifier) -> None:
    headers = auth.issue_app(target="another").headers
    expect_problem(call(create_fastapi(auth), "/app", headers), 401, "invalid_app_credentials")


def test_a_key_or_token_with_another_secret_is_refused(auth: TestVerifier) -> None:
    for door in DOORS:
        headers = dict(issue(auth, door).headers)
        name = list(headers)[-1]
        headers[name] = headers[name][:-1] + ("A" if headers[name][-1] != "A" else "E")
        assert call(create_fastapi(auth), f"/{door}", headers).status_code == 401


UNREADABLE = [None, 7, "X-API-Key: a:b", {"X-API-Key": None}, {"X-API-Key": ["a:b"]}, [("X-API-Key",)], [7], [("X-API-Key", 7)]]


@pytest.mark.parametrize("headers", UNREADABLE)
def test_gives_no_verdict_on_headers_that_cannot_be_read_and_says_so(auth: TestVerifier, headers: Any) -> None:
    for verify in (auth.verify_app, auth.verify_node, auth.verify_user):
        if verify != auth.verify_node and headers not in UNREADABLE[:3]:
            continue
        with pytest.raises(UnavailableError) as raised:
            asyncio.run(verify(headers))
        assert "headers of the request" in str(raised.value.__cause__)


def test_reads_the_headers_of_the_standard_library_and_ignores_others_of_any_type(auth: TestVerifier) -> None:
    node = auth.issue_node(household_id="H-1")
    message = Message()
    for name, value in node.headers.items():
        message[name] = value.replace(node.principal.node_id, node.principal.node_id.upper())
    assert asyncio.run(auth.verify_node(message)) == node.principal  # type: ignore[arg-type]
    others: Any = {**node.headers, "X-Request-Id": 7, "traceparent": None}
    assert asyncio.run(auth.verify_node(others)).household_id == "h-1"
    alice = auth.issue_user(user_id="ALICE")
    assert asyncio.run(auth.verify_user(alice.headers)) == alice.principal


def test_serves_threads_that_present_one_credential_at_the_same_time(auth: TestVerifier) -> None:
    """A test client that several threads call has an event loop in each."""
    node = auth.issue_node()
    with ThreadPoolExecutor() as threads:
        verified = [threads.submit(asyncio.run, auth.verify_node(node.headers)) for _ in range(20)]
        assert [one.result() for one in verified] == [node.principal] * 20


def test_prints_no_secret(auth: TestVerifier) -> None:
    credential = auth.issue_node()
    (value,) = credential.headers.values()
    assert value not in repr(credential)
    assert repr(auth) == "TestVerifier(url='http://auth.test', service_name='service-under-test')"


def test_asgi_guards_refuse_a_kind_of_connection_that_they_do_not_know(auth: TestVerifier) -> None:
    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        raise AssertionError("the application was called")

    with pytest.raises(RuntimeError, match="webtransport"):
        asyncio.run(RequireNode(app, auth)({"type": "webtransport", "headers": []}, None, None))  # type: ignore[arg-type]


def create_restricted(auth: TestVerifier) -> FastAPI:
    api = FastAPI()

    @api.get("/documents")
    async def documents(caller: App = Depends(auth.app_with("documents:read"))) -> str:
        return caller.caller

    @api.get("/either")
    async def either(caller: Principal = Depends(auth.any("user", "app"))) -> str:
        return caller.door

    @api.get("/anyone")
    async def anyone(caller: User | None = Depends(auth.optional("user"))) -> bool:
        return caller is None

    @api.get("/node")
    async def node(caller: Node = Depends(auth.node)) -> str:
        return caller.node_id

    return api


def test_needs_the_scope_of_the_route_and_names_it(auth: TestVerifier) -> None:
    api = create_restricted(auth)
    unrestricted, reader = auth.issue_app(), auth.issue_app(scopes=["documents:read", "jobs:run"])
    assert (unrestricted.principal.scopes, reader.principal.scopes) == (None, ("documents:read", "jobs:run"))
    assert [call(api, "/documents", app.headers).status_code for app in (unrestricted, reader)] == [200, 200]
    for scopes in ([], ["documents:write"], ["documents"]):
        response = call(api, "/documents", auth.issue_app(scopes=scopes).headers)
        expect_problem(response, 403, "missing_scope")
        assert response.json()["scopes"] == ["documents:read"]
        assert "www-authenticate" not in response.headers
    expect_problem(call(api, "/documents", {}), 401, "invalid_app_credentials")


def test_admits_by_one_of_several_doors_or_without_a_credential(auth: TestVerifier) -> None:
    api = create_restricted(auth)
    app, user = auth.issue_app(), auth.issue_user()
    assert call(api, "/either", app.headers).json() == "app"
    assert call(api, "/either", user.headers).json() == "user"
    assert call(api, "/either", {**app.headers, **user.headers}).json() == "user"
    # The first door decides, and its credential is not valid.
    expect_problem(call(api, "/either", {**app.headers, "Authorization": "Bearer forged"}), 401, "invalid_access_token")
    # Another scheme of Authorization belongs to another program.
    assert call(api, "/either", {**app.headers, "Authorization": "Basic YTpi"}).json() == "app"
    nothing = call(api, "/either", {})
    expect_problem(nothing, 401, "missing_access_token")
    assert nothing.headers["www-authenticate"] == 'Bearer realm="platform-auth", PlatformApp realm="platform-auth"'
    assert [call(api, "/anyone", headers).json() for headers in ({}, user.headers)] == [True, False]
    expect_problem(call(api, "/anyone", {"Authorization": "Bearer forged"}), 401, "invalid_access_token")
    auth.set_available(False)
    expect_problem(call(api, "/anyone", user.headers), 503, "unavailable")
    with pytest.raises(VerifierConfigurationError):
        auth.any()
    with pytest.raises(VerifierConfigurationError):
        auth.optional("users")  # type: ignore[arg-type]


def test_names_its_credentials_in_the_openapi_document(auth: TestVerifier) -> None:
    document = create_restricted(auth).openapi()
    schemes = document["components"]["securitySchemes"]
    assert {name: (scheme["type"], scheme.get("name")) for name, scheme in schemes.items()} == {
        "PlatformAppId": ("apiKey", "X-Platform-App-Id"),
        "PlatformAppKey": ("apiKey", "X-Platform-App-Key"),
        "NodeKey": ("apiKey", "X-API-Key"),
        "AccessToken": ("http", None),
    }
    needed = {path: [name for one in item["get"]["security"] for name in one] for path, item in document["paths"].items()}
    assert needed == {
        "/documents": ["PlatformAppId", "PlatformAppKey"],
        "/either": ["AccessToken", "PlatformAppId", "PlatformAppKey"],
        "/anyone": ["AccessToken"],
        "/node": ["NodeKey"],
    }
    # No parameter of the dependency becomes a parameter of the caller.
    assert all("parameters" not in item["get"] for item in document["paths"].values())


@FRAMEWORKS
def test_refuses_under_the_request_id_of_the_caller_unless_it_may_be_a_secret(auth: TestVerifier, create: Any) -> None:
    app = create(auth)
    for headers, is_available in (({}, True), ({"X-API-Key": "malformed"}, True), ({"X-API-Key": "a:b"}, False)):
        auth.set_available(is_available)
        body = call(app, "/node", {**headers, "X-Request-Id": "of-the-caller"}).json()
        assert (body["request_id"], body["instance"]) == ("of-the-caller", "urn:request:of-the-caller")
    secret = call(app, "/node", {"X-Request-Id": "pa_node_secret"}).json()
    assert "pa_node_secret" not in json.dumps(secret)


def test_a_service_on_behalf_of_a_user_is_admitted_where_the_route_says_so(auth: TestVerifier) -> None:
    asyncio.run(check_delegated_routes(auth))


async def check_delegated_routes(auth: TestVerifier) -> None:
    alice = auth.issue_user()
    reader = auth.issue_delegated("meals", ["documents:read"], alice.principal)
    writer = auth.issue_delegated("meals", ["documents:write"])
    transport = httpx.ASGITransport(app=create_fastapi(auth))
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as client:
        by_reader = await client.get("/delegated", headers=reader.headers)
        assert by_reader.json() == {"id": alice.principal.user_id, "caller": "meals"}
        by_alice = await client.get("/delegated", headers=alice.headers)
        assert by_alice.json() == {"id": alice.principal.user_id, "caller": None}
        lacking = await client.get("/delegated", headers=writer.headers)
        assert (lacking.status_code, lacking.json()["code"]) == (403, "missing_scope")
        elsewhere = await client.get("/user", headers=reader.headers)
        assert (elsewhere.status_code, elsewhere.json()["code"]) == (403, "delegation_not_accepted")
        auth.revoke(reader)
        assert (await client.get("/delegated", headers=reader.headers)).status_code == 401
        auth.revoke(alice)
        assert (await client.get("/delegated", headers=alice.headers)).status_code == 401


def test_a_token_for_another_service_is_got_for_the_user_of_the_request(auth: TestVerifier) -> None:
    asyncio.run(check_tokens_for_others(auth))


async def check_tokens_for_others(auth: TestVerifier) -> None:
    alice = auth.issue_user()
    transport = httpx.ASGITransport(app=create_fastapi(auth))
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as client:
        token = (await client.get("/onward", headers=alice.headers)).json()["token"]
        claims = jwt.decode(token, options={"verify_signature": False})
        assert (claims["sub"], claims["aud"], claims["scope"]) == (alice.principal.user_id, "ocr", "documents:read")
        assert claims["act"]["sub"] == "service-under-test"
        outage = await client.get("/onward-in-an-outage", headers=alice.headers)
        assert (outage.status_code, outage.json()["code"]) == (503, "unavailable")
        auth.set_available(True)
    auth.revoke(alice)
    with pytest.raises(RefusedError):
        await auth.token_for(alice.headers, "ocr")
    auth.set_available(False)
    with pytest.raises(UnavailableError):
        await auth.token_for(alice.headers, "ocr")


@pytest.mark.parametrize("demands", [{"delegated": "yes"}, {"delegated": None}, {"delegated": False, "scope": "read"}])
def test_a_route_with_unclear_demands_of_delegation_is_not_made(auth: TestVerifier, demands: dict[str, Any]) -> None:
    with pytest.raises(VerifierConfigurationError):
        auth.user_with(**demands)


def test_a_connection_on_behalf_of_a_user_ends_with_the_pair_of_its_caller(auth: TestVerifier) -> None:
    delegated, ended = auth.issue_delegated("meals", ["read"]), Event()
    auth.on_ended(delegated.headers, ended.set, delegated=True, scope="read")
    assert not ended.wait(0.2)
    auth.revoke(delegated)
    assert ended.wait(5)


def test_a_connection_on_behalf_of_a_user_ends_at_once_where_nothing_says_that_it_is_accepted(auth: TestVerifier) -> None:
    ended = Event()
    auth.on_ended(auth.issue_delegated().headers, ended.set)
    assert ended.wait(5)
