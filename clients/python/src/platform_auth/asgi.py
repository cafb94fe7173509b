"""Plain ASGI middleware, for every framework that speaks ASGI 3. Sets `scope["auth"]`, which Starlette calls `request.auth`."""

from collections.abc import Awaitable, Callable

from platform_auth.delegation import Delegated, create_demands
from platform_auth.errors import Message, Scope, Send, read_address, send_problem, to_verification_error
from platform_auth.membership import AdminRole, PresentedHousehold, check_role
from platform_auth.principals import AnyPrincipal
from platform_auth.verifier import Verifier

Receive = Callable[[], Awaitable[Message]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Guard:
    def __init__(self, app: ASGIApp, verifier: Verifier) -> None:
        self._app = app
        self._verifier = verifier

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] not in ("http", "websocket"):
            raise RuntimeError(f"platform_auth cannot guard the ASGI scope {scope['type']}")
        try:
            principal = await self._verify(scope)
        except Exception as error:
            await send_problem(to_verification_error(error), scope, send)
            return
        scope["auth"] = principal
        await self._app(scope, receive, send)

    async def _verify(self, scope: Scope) -> AnyPrincipal:
        raise NotImplementedError


class RequireApp(_Guard):
    """Admits requests with a valid key of another service, for this one."""

    async def _verify(self, scope: Scope) -> AnyPrincipal:
        return await self._verifier.verify_app(scope["headers"], address=read_address(scope))


class RequireNode(_Guard):
    """Admits requests with a valid key of a node."""

    async def _verify(self, scope: Scope) -> AnyPrincipal:
        return await self._verifier.verify_node(scope["headers"], address=read_address(scope))


class RequireUser(_Guard):
    """
    Admits requests with a valid access token of a user. With delegated, also those of a service on behalf of a user ("only": no
    others), with the scope, if one is given.
    """

    def __init__(
        self, app: ASGIApp, verifier: Verifier, delegated: Delegated = False, scope: str | None = None
    ) -> None:
        super().__init__(app, verifier)
        self._demands = create_demands(delegated, scope)

    async def _verify(self, scope: Scope) -> AnyPrincipal:
        demands, address = self._demands, read_address(scope)
        return await self._verifier.verify_user(
            scope["headers"], delegated=demands.delegated, scope=demands.scope, address=address
        )


class RequireMember(_Guard):
    """
    Admits requests with a valid access token of a user who lives in the household, and has the role, if one is given.
    """

    def __init__(
        self,
        app: ASGIApp,
        verifier: Verifier,
        household: Callable[[Scope], PresentedHousehold],
        role: AdminRole | None = None,
    ) -> None:
        check_role(role)
        super().__init__(app, verifier)
        self._household = household
        self._role: AdminRole | None = role

    async def _verify(self, scope: Scope) -> AnyPrincipal:
        household, address = self._household(scope), read_address(scope)
        return await self._verifier.verify_member(scope["headers"], household, role=self._role, address=address)
