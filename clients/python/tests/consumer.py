"""A service of a strictly typed project, which is type-checked and never run."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import assert_type

from django.http import HttpRequest, HttpResponse
from fastapi import Depends, FastAPI, WebSocket
from flask import Flask, g

from platform_auth import (
    App,
    DelegatedUserPrincipal,
    Door,
    EventSubject,
    Membership,
    MissingRoleError,
    MissingScopeError,
    Node,
    PlatformEvent,
    Principal,
    RefusedError,
    UnavailableError,
    User,
    Verifier,
)
from platform_auth.asgi import RequireMember, RequireUser
from platform_auth.django import public, require, require_member
from platform_auth.flask import accept_optional, require_app

auth = Verifier.from_environment(outage_grace_seconds=2, on_verdict=lambda door, verdict: print(door, verdict))
api = FastAPI()
site = Flask(__name__)


@api.get("/recipes")
async def recipes(caller: User = Depends(auth.user)) -> str:
    return caller.user_id


@api.get("/documents")
async def documents(caller: App = Depends(auth.app_with("documents:read"))) -> tuple[str, ...] | None:
    return caller.scopes


@api.get("/either")
async def either(caller: Principal = Depends(auth.any("user", "app"))) -> str:
    return caller.user_id if caller.door == "user" else "another service"


@api.get("/anyone")
async def anyone(caller: User | None = Depends(auth.optional("user"))) -> bool:
    return caller is None


@api.get("/delegated")
async def delegated(caller: User | DelegatedUserPrincipal = Depends(auth.user_with(delegated=True, scope="read"))) -> str:
    return "another service" if caller.caller is not None else caller.email


async def onward(headers: Mapping[str, str]) -> None:
    assert_type(await auth.verify_user(headers), User)
    assert_type(await auth.verify_user(headers, delegated="only", scope="read"), DelegatedUserPrincipal)
    assert_type(await auth.token_for(headers, "ocr"), str)


@api.get("/homes/{household}")
async def switch(caller: User = Depends(auth.member(household_path="household", role="admin"))) -> list[str]:
    return [membership.id for membership in caller.households or () if membership.role == "admin"]


@api.websocket("/stream")
async def stream(socket: WebSocket, node: Node = Depends(auth.node)) -> None:
    await socket.accept()
    watch = auth.on_ended(socket.scope["headers"], lambda: print("ended", node.node_id))
    watch.close()


@site.get("/documents/<name>")
@require_app(auth, scope="documents:read")
def document(name: str) -> str:
    caller: App = g.auth
    return f"{name} {caller.caller}"


@site.get("/")
@accept_optional(auth, "user", "node")
def home() -> str:
    return "home"


@require("node")
def lamp(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("on")


@require_member("household", role="admin")
def lamps(_request: HttpRequest, household: str) -> HttpResponse:
    return HttpResponse(household)


@public
def status(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("up")


guarded = RequireMember(RequireUser(api, auth), auth, lambda scope: scope["path"], "admin")


async def verify(headers: Mapping[str, str]) -> Node | None:
    try:
        assert_type(await auth.verify_user(headers), User)
        assert_type(auth.verify_any_sync([(b"x-api-key", b"a:b")], "node", "user"), Principal)
        return await auth.verify_node(headers, address="192.0.2.1")
    except MissingScopeError as error:
        print(error.scope)
    except MissingRoleError as error:
        print(error.role)
    except (RefusedError, UnavailableError) as error:
        print(error.to_response("request").status)
    return None


doors: tuple[Door, ...] = ("app", "node", "user")
refused = sum(auth.read_counts()[door]["refused"] for door in doors)
double = Verifier.for_tests("recipes")
alice = double.issue_user(households=[Membership("home", "admin")])
double.set_households(alice, [])
assert_type(double.verify_member_sync(alice.headers, "home", role="admin"), User)
assert_type(double.issue_app(scopes=["documents:read"]).principal, App)
assert_type(double.deliver("user.deleted", EventSubject("user", "alice")), Future[None])


async def forget_deleted_users() -> None:
    async for event in auth.events(on_reset=lambda: print("compare")):
        assert_type(event, PlatformEvent)
        print(event.subject.id)


def forget_deleted_users_in_a_thread() -> None:
    for event in auth.events_sync(on_reset=lambda: print("compare")):
        assert_type(event, PlatformEvent)
