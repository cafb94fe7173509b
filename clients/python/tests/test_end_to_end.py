"""The verifier before the real service. Two replicas share a database; the verifier asks the first."""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import httpx
import jwt
import pytest
from fastapi import Depends, FastAPI

from platform_auth import (
    App,
    MissingScopeError,
    Node,
    PlatformEvent,
    RefusedError,
    UnavailableError,
    Verifier,
    VerifierConfigurationError,
)
from service import PASSWORD, SECRET_KEY, Replica

PATIENCE_SECONDS = 60
Verify = Callable[[Any], Awaitable[Any]]


@pytest.fixture(scope="module")
def replicas() -> Iterator[tuple[Replica, Replica]]:
    assert "DATABASE_URL" in os.environ, "Run `npm run test:python`, which starts a database"
    first = Replica()
    first.await_ready()
    second = Replica()
    second.await_ready()
    yield first, second
    first.stop()
    second.stop()


@pytest.fixture(scope="module")
def own_key(replicas: tuple[Replica, Replica]) -> dict[str, str]:
    return replicas[0].create_app("recipes", "auth")


@pytest.fixture
def es256(replicas: tuple[Replica, Replica]) -> Iterator[Replica]:
    """A replica on the same database that signs with ES256."""
    replica = Replica(ACCESS_TOKEN_ALGORITHM="ES256")
    replica.await_ready()
    yield replica
    replica.stop()


@pytest.fixture
def auth(replicas: tuple[Replica, Replica], own_key: dict[str, str]) -> Iterator[Verifier]:
    variables = {
        "AUTH_URL": replicas[0].url,
        "AUTH_APP_ID": own_key["X-Platform-App-Id"],
        "AUTH_APP_KEY": own_key["X-Platform-App-Key"],
        "SERVICE_NAME": "recipes",
        "SECRET_KEY": SECRET_KEY,
    }
    verifier = Verifier.from_environment(variables)
    yield verifier
    verifier.close()


async def verdict_of(verify: Verify, headers: dict[str, str]) -> str:
    try:
        await verify(headers)
    except RefusedError:
        return "refused"
    except UnavailableError:
        return "unavailable"
    return "accepted"


async def eventually(verify: Verify, headers: dict[str, str], expected: str) -> None:
    """Repeats until this verdict. A 503 is not a verdict, because a slow machine may lose a question to a timeout."""
    end = time.monotonic() + PATIENCE_SECONDS
    while (verdict := await verdict_of(verify, headers)) != expected:
        assert time.monotonic() < end, f"{verdict} instead of {expected}"
        await asyncio.sleep(0.02)


async def first_answer(verify: Verify, headers: Any) -> Any:
    """Returns the principal or the refusal, and repeats a 503, which is neither."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await verify(headers)
        except RefusedError as refusal:
            return refusal
        except UnavailableError:
            assert time.monotonic() < end
            await asyncio.sleep(0.02)


async def present_until(
    verify: Verify, headers: dict[str, str], revoke: Callable[[], httpx.Response], requests: int = 50
) -> list[str]:
    """
    Presents a credential without a pause while it is revoked, and returns the verdicts on requests that came after
    the revoking call had answered.
    """
    is_revoked = False
    later: list[str] = []

    async def present() -> None:
        while len(later) < requests:
            is_later = is_revoked
            verdict = await verdict_of(verify, headers)
            if is_later:
                later.append(verdict)
            await asyncio.sleep(0)

    await eventually(verify, headers, "accepted")
    presenting = [asyncio.create_task(present()) for _ in range(4)]
    response = await asyncio.to_thread(revoke)
    is_revoked = True
    assert response.status_code in (200, 204)
    await asyncio.gather(*presenting)
    return later


def test_refuses_a_node_key_when_the_call_that_revoked_it_has_answered(
    replicas: tuple[Replica, Replica], auth: Verifier
) -> None:
    for replica in replicas:
        headers = replica.create_node()
        path = f"/api/v0/admin/nodes/{headers['X-API-Key'].split(':')[0]}"
        later = asyncio.run(present_until(auth.verify_node, headers, lambda: replica.call("DELETE", path)))
        assert "accepted" not in later
        asyncio.run(eventually(auth.verify_node, headers, "refused"))


def test_refuses_the_key_of_a_service_when_the_call_that_revoked_it_has_answered(
    replicas: tuple[Replica, Replica], auth: Verifier
) -> None:
    first, second = replicas
    headers = first.create_app("meals", "recipes")
    path = f"/api/v0/admin/app-credentials/{headers['X-Platform-App-Id']}"
    later = asyncio.run(present_until(auth.verify_app, headers, lambda: second.call("DELETE", path)))
    assert "accepted" not in later
    asyncio.run(eventually(auth.verify_app, headers, "refused"))


def test_refuses_a_token_when_the_call_that_ended_its_session_or_disabled_its_user_has_answered(
    replicas: tuple[Replica, Replica], auth: Verifier
) -> None:
    first, second = replicas
    user = f"/api/v0/admin/users/{first.create_user('alice@example.org')}"
    headers = first.log_in("alice@example.org")
    other = first.log_in("alice@example.org")
    later = asyncio.run(
        present_until(auth.verify_user, headers, lambda: second.call("POST", "/api/v0/auth/logout", {}, headers))
    )
    assert "accepted" not in later
    asyncio.run(eventually(auth.verify_user, headers, "refused"))
    disable = lambda: first.call("PATCH", user, {"is_active": False})  # noqa: E731
    later = asyncio.run(present_until(auth.verify_user, other, disable))
    assert "accepted" not in later
    asyncio.run(eventually(auth.verify_user, other, "refused"))


def test_refuses_a_member_when_the_call_that_demoted_or_removed_the_person_has_answered(
    replicas: tuple[Replica, Replica], auth: Verifier
) -> None:
    first, second = replicas
    for name in ("dora", "emil"):
        first.create_user(f"{name}@example.org")
    dora, emil = first.log_in("dora@example.org"), first.log_in("emil@example.org")
    home = first.call("POST", "/api/v0/households", {"name": "home"}, dora).json()["id"]
    code = first.call("POST", f"/api/v0/households/{home}/invitations", {}, dora).json()["code"]
    assert first.call("POST", "/api/v0/invitations/accept", {"code": code}, emil).status_code == 200
    members = first.call("GET", f"/api/v0/households/{home}/members", None, dora).json()["items"]
    path = f"/api/v0/households/{home}/members/" + next(
        member["id"] for member in members if member["email"] == "emil@example.org"
    )

    def change(role: str) -> httpx.Response:
        return second.call("PATCH", path, {"role": role, "password": PASSWORD}, dora)

    assert change("admin").status_code == 200
    as_admin = partial(auth.verify_member, household=home, role="admin")
    later = asyncio.run(present_until(as_admin, emil, lambda: change("member")))
    assert "accepted" not in later
    asyncio.run(eventually(as_admin, emil, "refused"))
    as_member = partial(auth.verify_member, household=home)
    later = asyncio.run(present_until(as_member, emil, lambda: second.call("DELETE", path, None, dora)))
    assert "accepted" not in later
    asyncio.run(eventually(as_member, emil, "refused"))
    asyncio.run(eventually(auth.verify_user, emil, "accepted"))
    problem = second.call("GET", f"/api/v0/households/{home}", None, emil)
    answered = asyncio.run(first_answer(as_member, emil)).to_response(problem.json()["request_id"])
    assert (answered.status, answered.body) == (problem.status_code, problem.json())


def test_verifies_es256_with_the_published_keys_and_refuses_the_token_of_a_session_that_ended(
    es256: Replica, own_key: dict[str, str]
) -> None:
    auth = Verifier(
        url=es256.url,
        jwks_url=f"{es256.url}/.well-known/jwks.json",
        app_id=own_key["X-Platform-App-Id"],
        app_key=own_key["X-Platform-App-Key"],
        service_name="recipes",
    )
    user_id = es256.create_user("bob@example.org")
    headers = es256.log_in("bob@example.org")
    token = headers["Authorization"].removeprefix("Bearer ")
    assert jwt.get_unverified_header(token)["alg"] == "ES256"
    asyncio.run(eventually(auth.verify_user, headers, "accepted"))
    assert asyncio.run(first_answer(auth.verify_user, headers)).user_id == user_id
    path = f"/api/v0/admin/users/{user_id}/sessions"
    later = asyncio.run(present_until(auth.verify_user, headers, lambda: es256.call("DELETE", path)))
    assert "accepted" not in later
    asyncio.run(eventually(auth.verify_user, headers, "refused"))
    auth.close()


def test_refuses_a_node_when_the_call_that_changed_its_targets_has_answered(
    replicas: tuple[Replica, Replica], auth: Verifier
) -> None:
    first, second = replicas
    asyncio.run(eventually(auth.verify_node, first.create_node(targets=["ocr"]), "refused"))
    headers = first.create_node(targets=["ocr", "recipes"])
    path = f"/api/v0/admin/nodes/{headers['X-API-Key'].split(':')[0]}"
    later = asyncio.run(
        present_until(auth.verify_node, headers, lambda: second.call("PATCH", path, {"targets": ["ocr"]}))
    )
    assert "accepted" not in later
    asyncio.run(eventually(auth.verify_node, headers, "refused"))


def test_knows_the_scopes_of_an_app_from_memory_until_the_call_that_changes_them_has_answered(
    replicas: tuple[Replica, Replica], auth: Verifier
) -> None:
    first, second = replicas
    headers = first.create_app("menus", "recipes", scopes=["documents:read"])
    path = f"/api/v0/admin/app-credentials/{headers['X-Platform-App-Id']}"

    def read(presented: dict[str, str]) -> Awaitable[App]:
        return auth.verify_app(presented, scope="documents:read")

    later = asyncio.run(
        present_until(read, headers, lambda: second.call("PATCH", path, {"scopes": ["documents:write"]}))
    )
    assert "accepted" not in later
    refusal = asyncio.run(first_answer(read, headers))
    assert isinstance(refusal, MissingScopeError)
    answer = first.call("POST", "/internal/validate-app", {"target": "recipes"}, {**headers, "X-Platform-Scope": "documents:read"})
    response = refusal.to_response(answer.json()["request_id"])
    assert (response.status, response.body) == (answer.status_code, answer.json())
    assert asyncio.run(first_answer(auth.verify_app, headers)).scopes == ("documents:write",)


def test_answers_503_with_the_name_of_another_service_and_logs_it(
    replicas: tuple[Replica, Replica], own_key: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    auth = Verifier(
        url=replicas[0].url,
        app_id=own_key["X-Platform-App-Id"],
        app_key=own_key["X-Platform-App-Key"],
        service_name="recipe",
    )
    headers = replicas[0].create_app("lists", "recipes")

    def read_causes() -> list[object]:
        return [vars(one)["cause"] for one in caplog.records if vars(one).get("event") == "verifier_misconfigured"]

    end = time.monotonic() + PATIENCE_SECONDS
    while not read_causes():
        assert asyncio.run(verdict_of(auth.verify_app, headers)) != "accepted"
        assert time.monotonic() < end
    assert {asyncio.run(verdict_of(auth.verify_app, headers)) for _ in range(5)} == {"unavailable"}
    auth.close()
    assert read_causes() == ["SERVICE_NAME"]


def test_tells_a_connection_that_its_session_has_ended(replicas: tuple[Replica, Replica], auth: Verifier) -> None:
    first, second = replicas
    first.create_user("carol@example.org")
    headers = first.log_in("carol@example.org")
    ended = threading.Event()
    asyncio.run(eventually(auth.verify_user, headers, "accepted"))
    auth.on_ended(headers, ended.set)
    assert second.call("POST", "/api/v0/auth/logout", {}, headers).status_code in (200, 204)
    assert ended.wait(PATIENCE_SECONDS)


def test_accepts_nothing_revoked_even_when_it_is_cut_off(replicas: tuple[Replica, Replica], auth: Verifier) -> None:
    first, second = replicas
    headers = first.create_node()
    path = f"/api/v0/admin/nodes/{headers['X-API-Key'].split(':')[0]}"

    def revoke() -> httpx.Response:
        first.pause()
        return second.call("DELETE", path)

    # Each request waits for the replica, which is paused.
    later = asyncio.run(present_until(auth.verify_node, headers, revoke, requests=8))
    first.resume()
    assert set(later) == {"unavailable"}
    asyncio.run(eventually(auth.verify_node, headers, "refused"))


def test_answers_with_the_same_problem_document_as_the_service(
    replicas: tuple[Replica, Replica], auth: Verifier
) -> None:
    replica = replicas[0]
    app = replica.create_app("ocr", "recipes")
    forged_app = {**app, "X-Platform-App-Key": "pa_app_forged"}
    forged_node = {"X-API-Key": "5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10:pa_node_forged"}
    twice = [("X-API-Key", "a:b"), ("X-API-Key", "a:b")]
    cases: list[tuple[Verify, str, str, Any]] = [
        (auth.verify_app, "POST", "/internal/validate-app", forged_app),
        (auth.verify_node, "POST", "/internal/validate-node", forged_node),
        (auth.verify_node, "POST", "/internal/validate-node", twice),
        # This route behind the user door stands for validate-user, whose 401 also says `valid: false`.
        (auth.verify_user, "GET", "/api/v0/users/me", {"Authorization": "Bearer forged"}),
        (auth.verify_user, "GET", "/api/v0/users/me", {}),
    ]
    for verify, method, path, headers in cases:
        answer = replica.call(method, path, None, headers)
        refusal = asyncio.run(first_answer(verify, headers))
        assert isinstance(refusal, RefusedError)
        response = refusal.to_response(answer.json()["request_id"])
        assert (response.status, response.body) == (answer.status_code, answer.json())
        assert response.headers.get("WWW-Authenticate") == answer.headers.get("www-authenticate")
        assert response.headers["Content-Type"] == answer.headers["content-type"].split(";")[0]


def test_reads_the_events_to_which_the_service_subscribes_each_again_until_it_is_acknowledged(
    replicas: tuple[Replica, Replica], auth: Verifier
) -> None:
    replica = replicas[0]

    def refuse_reset() -> None:
        raise AssertionError("There was no reset")

    async def read(count: int) -> list[PlatformEvent]:
        events = auth.events(on_reset=refuse_reset)
        async with asyncio.timeout(PATIENCE_SECONDS):
            return [await anext(events) for _ in range(count)]

    with pytest.raises(VerifierConfigurationError, match="recipes has no subscription"):
        asyncio.run(read(1))
    subscribed = replica.call("PUT", "/api/v0/admin/event-subscriptions/recipes", {"types": ["user.deleted"]})
    assert subscribed.status_code == 200
    users = [replica.create_user(f"event-{index}@example.org") for index in range(2)]
    for user_id in users:
        assert replica.call("DELETE", f"/api/v0/admin/users/{user_id}").status_code == 204
    first, second = asyncio.run(read(2))
    assert [(event.type, event.subject.kind, event.subject.id) for event in (first, second)] == [
        ("user.deleted", "user", user_id) for user_id in users
    ]
    # The second was not acknowledged.
    assert asyncio.run(read(1)) == [second]


def test_a_route_answers_503_while_the_service_is_stopped_and_recovers_by_itself(
    replicas: tuple[Replica, Replica], auth: Verifier
) -> None:
    replica = replicas[0]
    headers = replica.create_node()
    app = FastAPI()

    @app.get("/recipes")
    async def recipes(caller: Node = Depends(auth.node)) -> str:
        return caller.node_id

    async def await_status(status: int) -> httpx.Response:
        end = time.monotonic() + PATIENCE_SECONDS
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://recipes.test") as client:
            while (response := await client.get("/recipes", headers=headers)).status_code != status:
                assert response.status_code in (200, 503)
                assert time.monotonic() < end
                await asyncio.sleep(0.02)
            return response

    assert asyncio.run(await_status(200)).json() == headers["X-API-Key"].split(":")[0]
    replica.stop()
    unavailable = asyncio.run(await_status(503))
    assert unavailable.headers["retry-after"] == "2"
    assert unavailable.json()["code"] == "unavailable"
    replica.start()
    replica.await_ready()
    asyncio.run(await_status(200))
