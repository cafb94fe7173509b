"""
Tells FastAPI which credential a dependency verifies, for its OpenAPI document and the Authorize button of Swagger UI.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from fastapi import Depends
from fastapi.openapi.models import APIKey, HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection

from platform_auth.principals import AnyPrincipal, Door

Identity = TypeVar("Identity", bound=AnyPrincipal | None)
_Dependency = Callable[[HTTPConnection], Awaitable[Identity]]


class _Scheme(SecurityBase):
    """Only names the scheme: the dependency that needs it reads the headers itself."""

    def __init__(self, scheme_name: str, model: Any) -> None:
        self.scheme_name = scheme_name
        self.model = model

    async def __call__(self) -> None:
        return None


class _SecuredDependency(_Scheme):
    """The dependency itself is the first scheme, so that a request costs nothing more."""

    def __init__(self, dependency: _Dependency[Any], first: _Scheme, others: Sequence[_Scheme]) -> None:
        super().__init__(first.scheme_name, first.model)
        self._dependency = dependency
        kind = inspect.Parameter.KEYWORD_ONLY
        connection = inspect.Parameter("connection", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=HTTPConnection)
        schemes = [inspect.Parameter(f"scheme_{i}", kind, default=Depends(other)) for i, other in enumerate(others)]
        self.__signature__ = inspect.Signature([connection, *schemes])

    async def __call__(self, connection: HTTPConnection, **_schemes: None) -> Any:  # type: ignore[override]
        return await self._dependency(connection)


def _header(scheme_name: str, name: str, description: str) -> _Scheme:
    return _Scheme(scheme_name, APIKey.model_validate({"in": "header", "name": name, "description": description}))


# FastAPI cannot say that both headers of an app are needed, so its document lists them side by side.
_SCHEMES: dict[Door, tuple[_Scheme, ...]] = {
    "app": (
        _header("PlatformAppId", "X-Platform-App-Id", "The id of a service's key; X-Platform-App-Key is needed too."),
        _header("PlatformAppKey", "X-Platform-App-Key", "The key of a service."),
    ),
    "node": (_header("NodeKey", "X-API-Key", "The key of a node: node_id:api_key."),),
    "user": (_Scheme("AccessToken", HTTPBearer(bearerFormat="JWT", description="The access token of a user.")),),
}


def declare_security(dependency: _Dependency[Identity], doors: Sequence[Door]) -> _Dependency[Identity]:
    first, *others = (scheme for door in doors for scheme in _SCHEMES[door])
    return _SecuredDependency(dependency, first, others)
