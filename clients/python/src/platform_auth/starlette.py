"""Dependencies for FastAPI and Starlette. A request that is not accepted is answered with a problem document."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketState

from platform_auth.credentials import Headers
from platform_auth.errors import Scope, VerificationError, read_address, send_problem, to_verification_error
from platform_auth.membership import AdminRole
from platform_auth.principals import AnyPrincipal, Door, UserPrincipal

if TYPE_CHECKING:
    from platform_auth.verifier import Verifier

Identity = TypeVar("Identity", bound=AnyPrincipal | None)
Dependency = Callable[[HTTPConnection], Awaitable[Identity]]
_POLICY_VIOLATION = 1008


class ProblemException(HTTPException):
    """Ends the request. An application may handle it itself: `@app.exception_handler(ProblemException)`."""

    def __init__(self, error: VerificationError) -> None:
        response = error.to_response()
        headers = {name: value for name, value in response.headers.items() if name != "Content-Type"}
        super().__init__(response.status, str(response.body["detail"]), headers)
        self.error = error


def create_dependency(
    verify: Callable[[Headers, str | None], Awaitable[Identity]], doors: Sequence[Door]
) -> Dependency[Identity]:
    return _create_dependency(lambda scope: verify(scope["headers"], read_address(scope)), doors)


def create_member_dependency(
    verifier: "Verifier", household_path: str, role: AdminRole | None
) -> Dependency[UserPrincipal]:
    async def verify(scope: Scope) -> UserPrincipal:
        household = scope["path_params"].get(household_path)
        return await verifier.verify_member(scope["headers"], household, role=role, address=read_address(scope))

    return _create_dependency(verify, ("user",))


def _create_dependency(verify: Callable[[Scope], Awaitable[Identity]], doors: Sequence[Door]) -> Dependency[Identity]:
    async def dependency(connection: HTTPConnection) -> Identity:
        # Also for the route behind the guard, where `token_for` may raise.
        _install_handler(connection)
        try:
            return await verify(connection.scope)
        except Exception as error:
            raise ProblemException(to_verification_error(error)) from None

    if "fastapi" not in sys.modules:
        return dependency
    from platform_auth.fastapi import declare_security

    return declare_security(dependency, doors)


def _install_handler(connection: HTTPConnection) -> None:
    """
    Answers what the guard or the route raises, without a line in the application: Starlette keeps its handlers in the scope.
    Elsewhere the handler of HTTPException sends the same status and headers.
    """
    handlers: Any = connection.scope.get("starlette.exception_handlers")
    if handlers:
        handlers[0].setdefault(ProblemException, _handle)
        handlers[0].setdefault(VerificationError, _handle)


async def _handle(connection: HTTPConnection, exception: ProblemException | VerificationError) -> Response | None:
    error = exception.error if isinstance(exception, ProblemException) else exception
    if not isinstance(connection, WebSocket):
        response = error.to_response()
        return Response(response.content, response.status, response.headers)
    if connection.application_state is WebSocketState.CONNECTING:
        await send_problem(error, connection.scope, connection.send)
    else:
        await connection.close(_POLICY_VIOLATION)
    return None
