"""The responses to requests that were not accepted: the problem documents of the authentication service (RFC 9457)."""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from platform_auth.principals import Door, HouseholdRole

# The types of ASGI 3.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


@dataclass(frozen=True)
class ProblemResponse:
    status: int
    headers: dict[str, str]
    body: dict[str, object]

    @property
    def content(self) -> bytes:
        return json.dumps(self.body).encode()


@dataclass(frozen=True)
class Problem:
    """One kind of error response: a constant public message, the same for every caller."""

    status: int
    code: str
    title: str
    detail: str
    challenge: str | None = None
    retry_after_seconds: int | None = None
    extension: Mapping[str, object] = field(default_factory=dict[str, object])


_REALM = 'realm="platform-auth"'
_NOT_VALID = {"valid": False}

# The refusals of each door, with the texts and headers of the service (src/foundation/problems/problems.ts).
REFUSALS: Mapping[Door, Problem] = {
    "app": Problem(
        status=401,
        code="invalid_app_credentials",
        title="The app credentials are not valid",
        detail="X-Platform-App-Id and X-Platform-App-Key are missing or do not name a live credential for this target.",
        challenge=f"PlatformApp {_REALM}",
        extension=_NOT_VALID,
    ),
    "node": Problem(
        status=401,
        code="invalid_node_credentials",
        title="The node credentials are not valid",
        detail="X-API-Key is missing or does not name a live node: X-API-Key: <node_id>:<api_key>.",
        challenge=f"NodeKey {_REALM}",
        extension=_NOT_VALID,
    ),
    "user": Problem(
        status=401,
        code="invalid_access_token",
        title="The access token is not valid",
        detail="The access token is malformed, expired or its session has ended.",
        challenge=f'Bearer {_REALM}, error="invalid_token", error_description="The access token is not valid"',
    ),
}
MISSING_TOKEN = Problem(
    status=401,
    code="missing_access_token",
    title="An access token is needed",
    detail="Send an access token: Authorization: Bearer <access token>.",
    challenge=f"Bearer {_REALM}",
)
DUPLICATE_HEADER = Problem(
    status=400,
    code="duplicate_header",
    title="A credential header arrived twice",
    detail="Send each credential header, X-Platform-Target and X-Platform-Scope at most once.",
    extension={"errors": []},
)
_MISSING_SCOPE = Problem(
    status=403,
    code="missing_scope",
    title="A scope is missing",
    detail="The key is valid. The operator, or the app credential, needs one of the scopes that `scopes` lists.",
)
_DELEGATION_NOT_ACCEPTED = Problem(
    status=403,
    code="delegation_not_accepted",
    title="A delegated token is not accepted here",
    detail="The token is valid, and was issued to a service on behalf of a user. This route accepts users themselves alone.",
)
_DELEGATION_REQUIRED = Problem(
    status=403,
    code="delegation_required",
    title="A delegated token is needed",
    detail="The token is valid, and is a user’s own. This route accepts services that call on behalf of a user alone.",
)
# The same for a household that does not exist.
_NOT_A_MEMBER = Problem(
    status=404,
    code="not_found",
    title="Not found",
    detail="The resource does not exist, or the caller may not see it.",
)
_MISSING_ROLE = Problem(status=403, code="missing_role", title="A role is missing", detail="")
_UNAVAILABLE = Problem(
    status=503,
    code="unavailable",
    title="The service is unavailable",
    detail=(
        "The authentication service cannot be asked at the moment. "
        "This is not a verdict on the credential: keep it and try again."
    ),
    retry_after_seconds=2,
)


class VerificationError(Exception):
    """A request was not accepted. Contains nothing of the credential."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.title)
        self._problem = problem
        # The id that the caller sent, if it may be shown.
        self.request_id: str | None = None

    @property
    def status(self) -> int:
        return self._problem.status

    @property
    def code(self) -> str:
        """A stable word to branch on."""
        return self._problem.code

    def to_response(self, request_id: str | None = None) -> ProblemResponse:
        """Returns the response with which the authentication service would answer."""
        problem = self._problem
        name = request_id or self.request_id or str(uuid4())
        headers = {"Content-Type": "application/problem+json", "Cache-Control": "no-store"}
        if problem.challenge is not None:
            headers["WWW-Authenticate"] = problem.challenge
        if problem.retry_after_seconds is not None:
            headers["Retry-After"] = str(problem.retry_after_seconds)
        body = {
            "type": f"/problems/{problem.code.replace('_', '-')}",
            "title": problem.title,
            "status": problem.status,
            "detail": problem.detail,
            "instance": f"urn:request:{name}",
            "code": problem.code,
            "request_id": name,
            **problem.extension,
        }
        return ProblemResponse(problem.status, headers, body)


class RefusedError(VerificationError):
    """A verdict: the credential is missing, malformed or not valid. Status 401, or 400 when a header arrived twice."""


class MissingScopeError(RefusedError):
    """A verdict: the key of a service, or the token that it got on behalf of a user, is valid but lacks a scope. Status 403."""

    def __init__(self, scope: str) -> None:
        super().__init__(replace(_MISSING_SCOPE, extension={"scopes": [scope]}))
        self.scope = scope


class DelegationNotAcceptedError(RefusedError):
    """A verdict: the token is a service's, on behalf of a user, and the route accepts users themselves alone. Status 403."""

    def __init__(self) -> None:
        super().__init__(_DELEGATION_NOT_ACCEPTED)


class DelegationRequiredError(RefusedError):
    """A verdict: the token is a user's own, and the route accepts services on behalf of users alone. Status 403."""

    def __init__(self) -> None:
        super().__init__(_DELEGATION_REQUIRED)


class NotAMemberError(RefusedError):
    """A verdict: the user does not live in the household, or the household does not exist. Status 404."""

    def __init__(self) -> None:
        super().__init__(_NOT_A_MEMBER)


class MissingRoleError(RefusedError):
    """A verdict: the user lives in the household without the role. Status 403."""

    def __init__(self, role: HouseholdRole) -> None:
        detail = f"The caller is a member of the household, and the act needs the role {role}."
        super().__init__(replace(_MISSING_ROLE, detail=detail))
        self.role = role


def refuse_missing(doors: Sequence[Door]) -> RefusedError:
    """
    Refuses a request without a credential of any of these doors: with the problem of the first, and the challenges of
    all.
    """
    problems = [MISSING_TOKEN if door == "user" else REFUSALS[door] for door in doors]
    return RefusedError(replace(problems[0], challenge=", ".join(problem.challenge or "" for problem in problems)))


class UnavailableError(VerificationError):
    """Not a verdict: the authentication service could not be asked. Status 503."""

    def __init__(self) -> None:
        super().__init__(_UNAVAILABLE)


class VerifierConfigurationError(Exception):
    """The configuration cannot be used. The message names settings, never their values."""


def to_verification_error(error: Exception) -> VerificationError:
    """An unexpected error becomes a 503 and never a 500, because the credential could not be verified."""
    return error if isinstance(error, VerificationError) else UnavailableError()


def read_address(scope: Scope) -> str | None:
    """Returns the remote address of a connection, as the server or its proxy headers tell it."""
    client = scope.get("client")
    return client[0] if client else None


async def send_problem(error: VerificationError, scope: Scope, send: Send) -> None:
    """
    A WebSocket is refused before it is accepted: with the problem document if the server can, otherwise with its own
    403.
    """
    prefix = "websocket." if scope["type"] == "websocket" else ""
    if prefix and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    response = error.to_response()
    content = response.content
    headers = [(name.lower().encode(), value.encode()) for name, value in response.headers.items()]
    headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": f"{prefix}http.response.start", "status": response.status, "headers": headers})
    await send({"type": f"{prefix}http.response.body", "body": content})
