"""What Flask and Django share: the headers of a WSGI environment, and one way to verify them."""

from collections.abc import Mapping, Sequence
from typing import Any

from platform_auth.delegation import Delegated, create_demands
from platform_auth.errors import VerifierConfigurationError
from platform_auth.membership import AdminRole, check_role
from platform_auth.principals import AnyPrincipal, Door
from platform_auth.verifier import Verifier

_HEADERS = {
    "HTTP_AUTHORIZATION": b"authorization",
    "HTTP_X_API_KEY": b"x-api-key",
    "HTTP_X_PLATFORM_APP_ID": b"x-platform-app-id",
    "HTTP_X_PLATFORM_APP_KEY": b"x-platform-app-key",
    "HTTP_X_REQUEST_ID": b"x-request-id",
    "HTTP_TRACEPARENT": b"traceparent",
}


class Requirement:
    """What a route asks of its callers."""

    def __init__(self, *doors: Door, scope: str | None = None, is_optional: bool = False) -> None:
        if not doors or (scope is not None and doors != ("app",)):
            raise VerifierConfigurationError("Name the doors of a route; a scope is of the door app alone")
        self._doors: Sequence[Door] = doors
        self._scope = scope
        self._is_optional = is_optional

    def verify(
        self, verifier: Verifier, environ: Mapping[str, Any], parameters: Mapping[str, Any]
    ) -> AnyPrincipal | None:
        """
        `parameters`: of the path. Returns None when the credential is optional and none was presented. Raises
        VerificationError.
        """
        headers = read_headers(environ)
        address = environ.get("REMOTE_ADDR")
        if self._is_optional:
            return verifier.verify_optional_sync(headers, *self._doors, address=address)
        if self._doors == ("app",):
            return verifier.verify_app_sync(headers, scope=self._scope, address=address)
        return verifier.verify_any_sync(headers, *self._doors, address=address)


class UserRequirement(Requirement):
    """What a route asks of a user, or of a service on behalf of one."""

    def __init__(self, delegated: Delegated, scope: str | None) -> None:
        super().__init__("user")
        self._demands = create_demands(delegated, scope)

    def verify(self, verifier: Verifier, environ: Mapping[str, Any], parameters: Mapping[str, Any]) -> AnyPrincipal:
        address, demands = environ.get("REMOTE_ADDR"), self._demands
        return verifier.verify_user_sync(
            read_headers(environ), delegated=demands.delegated, scope=demands.scope, address=address
        )


class MemberRequirement(Requirement):
    """What a route asks of a user: to live in the household that a parameter of its path names."""

    def __init__(self, household_path: str, role: AdminRole | None) -> None:
        super().__init__("user")
        check_role(role)
        self._household_path = household_path
        self._role: AdminRole | None = role

    def verify(self, verifier: Verifier, environ: Mapping[str, Any], parameters: Mapping[str, Any]) -> AnyPrincipal:
        household = parameters.get(self._household_path)
        address = environ.get("REMOTE_ADDR")
        return verifier.verify_member_sync(read_headers(environ), household, role=self._role, address=address)


def read_headers(environ: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """
    Returns the headers that a verifier reads. WSGI joins headers that arrived twice, so such a credential is invalid.
    """
    return [(header, environ[name].encode("latin-1")) for name, header in _HEADERS.items() if name in environ]
