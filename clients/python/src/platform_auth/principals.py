"""Callers, as a service sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

Door = Literal["app", "node", "user"]
DOORS: tuple[Door, ...] = ("app", "node", "user")
HouseholdRole = Literal["admin", "member"]


@dataclass(frozen=True, slots=True)
class AppPrincipal:
    """A service of the platform that calls this one. Without scopes (None) its key is not restricted."""

    app_id: str
    caller: str
    target: str
    scopes: tuple[str, ...] | None = None
    door: Literal["app"] = field(default="app", init=False)
    # Whether it presented the key before the last rotation, which the polls report.
    is_previous: bool = field(default=False, repr=False, compare=False, kw_only=True)

    def has_scope(self, scope: str) -> bool:
        return self.scopes is None or scope in self.scopes


@dataclass(frozen=True, slots=True)
class NodePrincipal:
    """A node of a household."""

    node_id: str
    household_id: str
    door: Literal["node"] = field(default="node", init=False)


@dataclass(frozen=True, slots=True)
class Membership:
    """A household of a user."""

    id: str
    role: HouseholdRole


@dataclass(frozen=True, slots=True)
class UserPrincipal:
    """A user, by an own access token of a live session.

    amr says how the user logged in (RFC 8176): "mfa" when with more than one factor. Empty when the service does not tell.
    households says where the user lives: None when the service is an older one that does not know, which is not the same as
    none.
    """

    user_id: str
    session_id: str
    email: str
    amr: tuple[str, ...] = ()
    households: tuple[Membership, ...] | None = None
    door: Literal["user"] = field(default="user", init=False)
    # No service calls on behalf of the user.
    caller: None = field(default=None, init=False)


@dataclass(frozen=True, slots=True)
class DelegationLink:
    """A service that passed the user on, and the pair that allowed it."""

    service: str
    app_id: str


@dataclass(frozen=True, slots=True)
class DelegatedUserPrincipal:
    """A user on whose behalf a service calls, with a token for this service alone.

    caller is that service, scopes what it may do for the user, and chain names every service that passed the user on, the caller
    first.
    """

    user_id: str
    session_id: str
    caller: str
    scopes: tuple[str, ...]
    chain: tuple[DelegationLink, ...]
    amr: tuple[str, ...] = ()
    door: Literal["user"] = field(default="user", init=False)


AnyUserPrincipal = UserPrincipal | DelegatedUserPrincipal
Principal = AppPrincipal | NodePrincipal | UserPrincipal
AnyPrincipal = Principal | DelegatedUserPrincipal
Body = Mapping[str, Any]


def to_app_principal(body: Body, app_id: str, service_name: str) -> AppPrincipal | None:
    """Returns None when the answer is about another credential or another service."""
    caller = body.get("caller")
    if _to_id(body.get("app_id")) != app_id or not isinstance(caller, str) or body.get("target") != service_name:
        return None
    # Unreadable scopes, such as null, become an empty tuple, so that the key may do nothing (fail closed).
    scopes = _to_words(body["scopes"]) if "scopes" in body else None
    return AppPrincipal(app_id, caller, service_name, scopes)


def to_node_principal(body: Body, node_id: str) -> NodePrincipal | None:
    """Returns None when the answer is about another credential."""
    household_id = _to_id(body.get("household_id"))
    if _to_id(body.get("node_id")) != node_id or household_id is None:
        return None
    return NodePrincipal(node_id, household_id)


def to_user_principal(body: Body, user_id: str, session_id: str) -> UserPrincipal | None:
    """Returns None when the answer is about another user or session than the token names."""
    email = body.get("email")
    if not _is_about(body, user_id, session_id) or not isinstance(email, str) or "act" in body:
        return None
    return UserPrincipal(
        user_id, session_id, email, _to_words(body.get("amr")), _to_memberships(body.get("households"))
    )


def to_delegated_principal(
    body: Body,
    user_id: str,
    session_id: str,
    chain: tuple[DelegationLink, ...],
    answered: tuple[DelegationLink, ...] | None,
) -> DelegatedUserPrincipal | None:
    """Returns None when the answer is about another user, session or chain than the token names."""
    caller = chain[0].service
    if not _is_about(body, user_id, session_id) or answered != chain or body.get("caller") != caller:
        return None
    scopes, amr = _to_words(body.get("scopes")), _to_words(body.get("amr"))
    return DelegatedUserPrincipal(user_id, session_id, caller, scopes, chain, amr)


def _is_about(body: Body, user_id: str, session_id: str) -> bool:
    return _to_id(body.get("user_id")) == user_id and _to_id(body.get("session_id")) == session_id


def _to_memberships(value: object) -> tuple[Membership, ...] | None:
    """Returns None for an absent or unreadable list, which must not be taken for none."""
    if not isinstance(value, list):
        return None
    memberships = [_to_membership(entry) for entry in cast("list[object]", value)]
    known = tuple(membership for membership in memberships if membership is not None)
    return known if len(known) == len(memberships) else None


def _to_membership(value: object) -> Membership | None:
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    household_id, role = _to_id(fields.get("id")), fields.get("role")
    if household_id is None or (role != "admin" and role != "member"):
        return None
    return Membership(household_id, role)


def _to_words(value: object) -> tuple[str, ...]:
    """
    Returns an empty tuple for an unreadable list, so that a service that requires "mfa" or a scope refuses (fail
    closed).
    """
    words = cast("list[object]", value) if isinstance(value, list) else []
    known = tuple(word for word in words if isinstance(word, str))
    return known if len(known) == len(words) else ()


def _to_id(value: object) -> str | None:
    return value.lower() if isinstance(value, str) else None
