"""
Users on whose behalf another service calls (RFC 8693). Terms: a delegated token names, in `act`, its chain: each service that
passed the user on, the caller first, with the pair (app credential) that allowed it. A route refuses such a token unless it says
that it accepts it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from platform_auth.errors import (
    DelegationNotAcceptedError,
    DelegationRequiredError,
    MissingScopeError,
    VerifierConfigurationError,
)
from platform_auth.principals import AnyPrincipal, DelegatedUserPrincipal, DelegationLink

# The `typ` of a delegated token (RFC 9068).
DELEGATED_TYPE = "at+jwt"
Delegated = bool | Literal["only"]
_MAX_LINKS = 4


def to_delegated_issuer(issuer: str) -> str:
    """The `iss` of a delegated token."""
    return f"{issuer}/delegated"


def read_chain(act: object) -> tuple[DelegationLink, ...] | None:
    """The chain of `act`, the caller first. Returns None when it is not one."""
    links: list[DelegationLink] = []
    while True:
        fields: Mapping[str, object] = cast("Mapping[str, object]", act) if isinstance(act, dict) else {}
        service, app_id = fields.get("sub"), fields.get("client_id")
        if not isinstance(service, str) or not isinstance(app_id, str) or len(links) == _MAX_LINKS:
            return None
        links.append(DelegationLink(service, app_id.lower()))
        if "act" not in fields:
            return tuple(links)
        act = fields["act"]


@dataclass(frozen=True, slots=True)
class UserDemands:
    """What a route demands of a user besides a valid access token."""

    delegated: Delegated = False
    # Only of a delegated token: a user's own has no scopes.
    scope: str | None = None

    def check(self, user: AnyPrincipal) -> None:
        """
        Called at each decision, because requests with other demands share the answer. Raises DelegationNotAcceptedError,
        DelegationRequiredError and MissingScopeError.
        """
        if not isinstance(user, DelegatedUserPrincipal):
            if self.delegated == "only":
                raise DelegationRequiredError
            return
        if not self.delegated:
            raise DelegationNotAcceptedError
        if self.scope is not None and self.scope not in user.scopes:
            raise MissingScopeError(self.scope)


OWN_TOKENS = UserDemands()


def create_demands(delegated: Delegated, scope: str | None) -> UserDemands:
    """At the start of a service, because types do not bind its callers. Raises VerifierConfigurationError."""
    is_known = delegated is True or delegated is False or delegated == "only"
    if not is_known or (scope is not None and not delegated):
        raise VerifierConfigurationError(
            'A route accepts delegated tokens by True or "only"; a scope is of these alone'
        )
    return UserDemands(delegated, scope)
