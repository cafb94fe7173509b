"""The synchronous API, Flask and Django, with Verifier.for_tests()."""

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import django
import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from flask import Flask, g

from platform_auth import (
    Membership,
    MissingRoleError,
    MissingScopeError,
    NotAMemberError,
    RefusedError,
    TestVerifier,
    UnavailableError,
    Verifier,
    VerifierConfigurationError,
)
from platform_auth import django as django_adapter
from platform_auth.flask import accept_optional, require_any, require_app, require_member, require_node, require_user
from scripted import NODE_HEADERS, NODE_ID, ScriptedTransport, ScriptedVerifier

auth = Verifier.for_tests()
HOME, OTHER_HOME = str(uuid.uuid4()), str(uuid.uuid4())
LATIN = {"X-Api-Key": "clé:clé"}


@pytest.fixture(autouse=True)
def available() -> Iterator[None]:
    yield
    auth.set_available(True)


def test_verifies_in_threads_without_an_event_loop() -> None:
    app, node, user = auth.issue_app(scopes=["documents:read"]), auth.issue_node(), auth.issue_user()
    assert auth.verify_app_sync(app.headers, scope="documents:read") == app.principal
    assert auth.verify_node_sync(node.headers) == node.principal
    assert auth.verify_user_sync(user.headers) == user.principal
    assert auth.verify_any_sync(node.headers, "user", "node") == node.principal
    assert auth.verify_optional_sync({}, "user", "node") is None
    with pytest.raises(MissingScopeError):
        auth.verify_app_sync(app.headers, scope="documents:write")
    auth.set_households(user, [Membership(HOME, "member")])
    assert auth.verify_member_sync(user.headers, uuid.UUID(HOME)).households == (Membership(HOME, "member"),)
    with pytest.raises(MissingRoleError):
        auth.verify_member_sync(user.headers, HOME, role="admin")
    with pytest.raises(NotAMemberError):
        auth.verify_member_sync(user.headers, None)
    auth.revoke(node)
    with pytest.raises(RefusedError):
        auth.verify_node_sync(node.headers)
    auth.set_available(False)
    with pytest.raises(UnavailableError):
        auth.verify_user_sync(user.headers)


@pytest.mark.usefixtures("patient")
def test_creates_no_event_loop_per_call_and_shares_what_is_asked_with_other_threads() -> None:
    transport = ScriptedTransport(is_held=True)
    verifier = ScriptedVerifier(lambda: transport)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(verifier.verify_node_sync(NODE_HEADERS).node_id)) for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    while transport.asked.count("/internal/validate-node") == 0:
        threading.Event().wait(0.01)
    # The verifier has two threads, however many callers there are.
    own = [thread.name for thread in threading.enumerate() if thread.name.endswith(" of a test")]
    assert sorted(own) == ["polls of a test", "questions of a test"]
    transport.release()
    for thread in threads:
        thread.join()
    assert found == [NODE_ID] * 10
    verifier.close()


def create_flask() -> Any:
    app = Flask(__name__)

    @app.get("/app")
    @require_app(auth, scope="documents:read")
    def by_app() -> str:
        return str(g.auth.caller)

    @app.get("/node/<room>")
    @require_node(auth)
    def by_node(room: str) -> str:
        return f"{room} {g.auth.node_id}"

    @app.get("/user")
    @require_user(auth)
    def by_user() -> str:
        return str(g.auth.user_id)

    @app.get("/homes/<household>")
    @require_member(auth, "household")
    def by_member(household: str) -> str:
        return f"{household} {g.auth.user_id}"

    @app.get("/homes/<household>/nodes")
    @require_member(auth, "household", role="admin")
    def by_admin(household: str) -> str:
        return f"{household} {g.auth.user_id}"

    @app.get("/any")
    @require_any(auth, "user", "node")
    def by_any() -> str:
        return str(g.auth.door)

    @app.get("/optional")
    @accept_optional(auth, "user")
    def by_optional() -> str:
        return "nobody" if g.auth is None else str(g.auth.door)

    return app.test_client()


@django_adapter.require("app", scope="documents:read")
def by_app(request: Any) -> HttpResponse:
    return HttpResponse(request.auth.caller)


@django_adapter.require("node")
def by_node(request: Any, room: str) -> HttpResponse:
    return HttpResponse(f"{room} {request.auth.node_id}")


def by_user(request: Any) -> HttpResponse:
    return HttpResponse(request.auth.user_id)


@django_adapter.require_member("household")
def by_member(request: Any, household: str) -> HttpResponse:
    return HttpResponse(f"{household} {request.auth.user_id}")


@django_adapter.require_member("household", role="admin")
def by_admin(request: Any, household: str) -> HttpResponse:
    return HttpResponse(f"{household} {request.auth.user_id}")


@django_adapter.require("user", "node")
def by_any(request: Any) -> HttpResponse:
    return HttpResponse(request.auth.door)


@django_adapter.optional("user")
def by_optional(request: Any) -> HttpResponse:
    return HttpResponse("nobody" if request.auth is None else request.auth.door)


@django_adapter.public
def by_nobody(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(hasattr(request, "auth")))


views = {"app": by_app, "node/<room>": by_node, "user": by_user, "any": by_any, "optional": by_optional, "public": by_nobody}
views |= {"homes/<household>": by_member, "homes/<household>/nodes": by_admin}
urlpatterns = [path(name, view) for name, view in views.items()]


def create_django() -> Any:
    if not settings.configured:
        middleware = ["platform_auth.django.PlatformAuthMiddleware"]
        verifier = f"{__name__}.auth"
        settings.configure(
            ROOT_URLCONF=__name__, MIDDLEWARE=middleware, PLATFORM_AUTH_VERIFIER=verifier, ALLOWED_HOSTS=["*"]
        )
        django.setup()
    return Client()


FRAMEWORKS = pytest.mark.parametrize("create", [create_flask, create_django])


def get(client: Any, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any, Any]:
    response = client.get(path, headers=headers or {})
    # Django calls it content, Flask data.
    body = response.content if hasattr(response, "content") else response.data
    return response.status_code, body.decode(), response.headers


def expect_problem(answer: tuple[int, str, Any], status: int, code: str, request_id: str | None = None) -> Any:
    body = json.loads(answer[1])
    assert (answer[0], body["status"], body["code"]) == (status, status, code)
    assert answer[2]["Content-Type"] == "application/problem+json"
    if request_id is not None:
        assert (body["request_id"], body["instance"]) == (request_id, f"urn:request:{request_id}")
    return body


@FRAMEWORKS
def test_hands_the_caller_over(create: Any) -> None:
    client = create()
    app, node, user = auth.issue_app(caller="meals", scopes=["documents:read"]), auth.issue_node(), auth.issue_user()
    assert get(client, "/app", app.headers)[:2] == (200, "meals")
    assert get(client, "/node/hall", node.headers)[:2] == (200, f"hall {node.principal.node_id}")
    assert get(client, "/user", user.headers)[:2] == (200, user.principal.user_id)
    assert get(client, "/any", node.headers)[:2] == (200, "node")
    assert get(client, "/any", {**node.headers, **user.headers})[:2] == (200, "user")
    assert get(client, "/optional")[:2] == (200, "nobody")
    assert get(client, "/optional", user.headers)[:2] == (200, "user")


@FRAMEWORKS
def test_answers_with_problem_documents(create: Any) -> None:
    client = create()
    app, node = auth.issue_app(scopes=["documents:write"]), auth.issue_node()
    body = expect_problem(get(client, "/app", {**app.headers, "X-Request-Id": "r-1"}), 403, "missing_scope", "r-1")
    assert body["scopes"] == ["documents:read"]
    missing = get(client, "/node/hall", {"X-Request-Id": "r-2"})
    expect_problem(missing, 401, "invalid_node_credentials", "r-2")
    assert missing[2]["WWW-Authenticate"].startswith("NodeKey")
    expect_problem(get(client, "/node/hall", LATIN), 401, "invalid_node_credentials")
    auth.revoke(node)
    expect_problem(get(client, "/node/hall", node.headers), 401, "invalid_node_credentials")
    expect_problem(get(client, "/user"), 401, "missing_access_token")
    either = get(client, "/any")
    expect_problem(either, 401, "missing_access_token")
    assert "Bearer" in either[2]["WWW-Authenticate"] and "NodeKey" in either[2]["WWW-Authenticate"]
    expect_problem(get(client, "/optional", {"Authorization": "Bearer forged"}), 401, "invalid_access_token")
    auth.set_available(False)
    unavailable = get(client, "/user", auth.issue_user().headers)
    expect_problem(unavailable, 503, "unavailable")
    assert unavailable[2]["Retry-After"] == "2"


@FRAMEWORKS
def test_admits_members_of_the_household_and_to_what_needs_the_role_its_admins_alone(create: Any) -> None:
    client = create()
    alice = auth.issue_user(households=[Membership(HOME, "admin"), Membership(OTHER_HOME.upper(), "member")])
    welcome = f"{HOME} {alice.principal.user_id}"
    assert get(client, f"/homes/{HOME}", alice.headers)[:2] == (200, welcome)
    assert get(client, f"/homes/{HOME}/nodes", alice.headers)[:2] == (200, welcome)
    assert get(client, f"/homes/{OTHER_HOME}", alice.headers)[0] == 200
    expect_problem(get(client, f"/homes/{OTHER_HOME}/nodes", alice.headers), 403, "missing_role")
    for household in (str(uuid.uuid4()), HOME.upper(), "home"):
        expect_problem(get(client, f"/homes/{household}", alice.headers), 404, "not_found")
        expect_problem(get(client, f"/homes/{household}/nodes", alice.headers), 404, "not_found")
    expect_problem(get(client, f"/homes/{HOME}"), 401, "missing_access_token")
    auth.set_households(alice, [Membership(HOME, "member")])
    expect_problem(get(client, f"/homes/{HOME}/nodes", alice.headers), 403, "missing_role")
    auth.set_households(alice, [])
    expect_problem(get(client, f"/homes/{HOME}", alice.headers), 404, "not_found")
    assert get(client, "/user", alice.headers)[0] == 200


def test_refuses_to_start_with_a_role_that_no_route_demands() -> None:
    for guard in (django_adapter.require_member, auth.member):
        with pytest.raises(VerifierConfigurationError, match="role"):
            guard("household", role="member")


def test_django_guards_every_view_but_public_ones() -> None:
    client = create_django()
    assert get(client, "/public")[:2] == (200, "False")
    expect_problem(get(client, "/user"), 401, "missing_access_token")
    assert get(client, "/elsewhere")[0] == 404


def test_django_names_a_verifier_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    create_django()
    monkeypatch.setattr(settings, "PLATFORM_AUTH_VERIFIER", f"{__name__}.views")
    with pytest.raises(ImproperlyConfigured, match="PLATFORM_AUTH_VERIFIER"):
        django_adapter.PlatformAuthMiddleware(lambda _request: HttpResponse())


def test_serves_event_loops_and_threads_at_once(auth: TestVerifier = auth) -> None:
    node = auth.issue_node()

    async def play() -> None:
        both = await asyncio.gather(auth.verify_node(node.headers), asyncio.to_thread(auth.verify_node_sync, node.headers))
        assert both == [node.principal] * 2

    asyncio.run(play())
