"""Verifies the credentials of requests to a service of the platform."""

from platform_auth.endings import Watch
from platform_auth.errors import (
    DelegationNotAcceptedError,
    DelegationRequiredError,
    MissingRoleError,
    MissingScopeError,
    NotAMemberError,
    ProblemResponse,
    RefusedError,
    UnavailableError,
    VerificationError,
    VerifierConfigurationError,
)
from platform_auth.event_reader import EventSubject, PlatformEvent
from platform_auth.principals import (
    AppPrincipal,
    DelegatedUserPrincipal,
    DelegationLink,
    Door,
    Membership,
    NodePrincipal,
    Principal,
    UserPrincipal,
)
from platform_auth.testing import TestCredential
from platform_auth.verifier import TestVerifier, Verifier

# Short names for the parameters of routes.
App = AppPrincipal
Node = NodePrincipal
User = UserPrincipal

__all__ = [
    "App",
    "AppPrincipal",
    "DelegatedUserPrincipal",
    "DelegationLink",
    "DelegationNotAcceptedError",
    "DelegationRequiredError",
    "Door",
    "EventSubject",
    "Membership",
    "MissingRoleError",
    "MissingScopeError",
    "Node",
    "NodePrincipal",
    "NotAMemberError",
    "PlatformEvent",
    "Principal",
    "ProblemResponse",
    "RefusedError",
    "TestCredential",
    "TestVerifier",
    "UnavailableError",
    "User",
    "UserPrincipal",
    "VerificationError",
    "Verifier",
    "VerifierConfigurationError",
    "Watch",
]
