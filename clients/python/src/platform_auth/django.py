"""
A middleware for Django that guards every view: by the doors of PLATFORM_AUTH_DOORS (a list; by default ["user"]),
unless a view says otherwise. PLATFORM_AUTH_VERIFIER is the dotted path of the project's verifier; the caller is
`request.auth`.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from platform_auth.delegation import Delegated
from platform_auth.errors import to_verification_error
from platform_auth.membership import AdminRole
from platform_auth.principals import Door
from platform_auth.verifier import Verifier
from platform_auth.wsgi import MemberRequirement, Requirement, UserRequirement

View = TypeVar("View", bound=Callable[..., Any])
_ATTRIBUTE = "platform_auth_requirement"


def require(*doors: Door, scope: str | None = None) -> Callable[[View], View]:
    """
    Requires a credential of the first of these doors for which a request presents one, and the scope of an app's key.
    """
    return _mark(Requirement(*doors, scope=scope))


def require_user(*, delegated: Delegated, scope: str | None = None) -> Callable[[View], View]:
    """Requires a user, or a service on behalf of one ("only": no other caller), with the scope, if one is given."""
    return _mark(UserRequirement(delegated, scope))


def require_member(household_path: str, *, role: AdminRole | None = None) -> Callable[[View], View]:
    """
    Requires a user who lives in the household that this parameter of the path names, and has the role, if one is given.
    """
    return _mark(MemberRequirement(household_path, role))


def optional(*doors: Door) -> Callable[[View], View]:
    """As `require`, and `request.auth` is None when a request presents no credential."""
    return _mark(Requirement(*doors, is_optional=True))


def public(view: View) -> View:
    """Opens the view to every client. It has no `request.auth`."""
    return _mark(None)(view)


def _mark(requirement: Requirement | None) -> Callable[[View], View]:
    def mark(view: View) -> View:
        setattr(view, _ATTRIBUTE, requirement)
        return view

    return mark


class PlatformAuthMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response
        verifier = import_string(settings.PLATFORM_AUTH_VERIFIER)
        if not isinstance(verifier, Verifier):
            raise ImproperlyConfigured("PLATFORM_AUTH_VERIFIER is not the path of a platform_auth.Verifier")
        self._verifier = verifier
        self._default = Requirement(*getattr(settings, "PLATFORM_AUTH_DOORS", ["user"]))

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], _args: Sequence[Any], kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        """Django calls it once it knows the view."""
        requirement = getattr(view, _ATTRIBUTE, self._default)
        if requirement is None:
            return None
        try:
            request.auth = requirement.verify(self._verifier, request.META, kwargs)  # type: ignore[attr-defined]
        except Exception as error:
            answer = to_verification_error(error).to_response()
            return HttpResponse(answer.content, status=answer.status, headers=answer.headers)
        return None
