"""Decorators for Flask. The caller is `g.auth`; a request that is not accepted is answered with a problem document."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from flask import Response, current_app, g, request
from flask.typing import ResponseReturnValue

from platform_auth.delegation import Delegated
from platform_auth.errors import to_verification_error
from platform_auth.membership import AdminRole
from platform_auth.principals import Door
from platform_auth.verifier import Verifier
from platform_auth.wsgi import MemberRequirement, Requirement, UserRequirement

View = TypeVar("View", bound=Callable[..., ResponseReturnValue])


class Decorator(Protocol):
    def __call__(self, view: View) -> View: ...


def require_app(verifier: Verifier, *, scope: str | None = None) -> Decorator:
    """Admits requests with a valid key of another service for this one, and with the scope, if one is given."""
    return _guard(verifier, Requirement("app", scope=scope))


def require_node(verifier: Verifier) -> Decorator:
    """Admits requests with a valid key of a node."""
    return _guard(verifier, Requirement("node"))


def require_user(verifier: Verifier, *, delegated: Delegated = False, scope: str | None = None) -> Decorator:
    """
    Admits requests with a valid access token of a user. With delegated, also those of a service on behalf of a user ("only": no
    others), with the scope, if one is given; `g.auth.caller` is that service, or None.
    """
    return _guard(verifier, UserRequirement(delegated, scope))


def require_member(verifier: Verifier, household_path: str, *, role: AdminRole | None = None) -> Decorator:
    """
    Admits requests with a valid access token of a user who lives in the household that this parameter of the path names,
    and has the role, if one is given.
    """
    return _guard(verifier, MemberRequirement(household_path, role))


def require_any(verifier: Verifier, *doors: Door) -> Decorator:
    """Admits requests by the first of these doors for which they present a credential, if that one is valid."""
    return _guard(verifier, Requirement(*doors))


def accept_optional(verifier: Verifier, *doors: Door) -> Decorator:
    """As `require_any`, and `g.auth` is None when a request presents no credential."""
    return _guard(verifier, Requirement(*doors, is_optional=True))


def _guard(verifier: Verifier, requirement: Requirement) -> Decorator:
    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(*args: Any, **kwargs: Any) -> ResponseReturnValue:
            try:
                g.auth = requirement.verify(verifier, request.environ, request.view_args or {})
            except Exception as error:
                answer = to_verification_error(error).to_response()
                return Response(answer.content, answer.status, answer.headers)
            answer_of_view: ResponseReturnValue = current_app.ensure_sync(view)(*args, **kwargs)
            return answer_of_view

        return cast(View, guarded)

    return decorate
