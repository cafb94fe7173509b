"""What a route demands of a user of a household, and whether the newest answer about the user fulfils it."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from platform_auth.errors import (
    MissingRoleError,
    NotAMemberError,
    RefusedError,
    UnavailableError,
    VerifierConfigurationError,
)
from platform_auth.principals import AnyPrincipal, UserPrincipal

# What a framework has as a parameter of the path.
PresentedHousehold = str | UUID | None
AdminRole = Literal["admin"]


@dataclass(frozen=True, slots=True)
class MemberDemands:
    # A user is a member only of the id exactly as the service writes it, or of the same id as a UUID.
    household: object
    # Without a role, every member is accepted.
    role: AdminRole | None = None

    def check(self, user: AnyPrincipal) -> None:
        """
        Called at each decision, because requests with other demands share the answer. Raises NotAMemberError,
        MissingRoleError, and UnavailableError when the answer does not name the households.
        """
        if not isinstance(user, UserPrincipal) or user.households is None:
            raise UnavailableError
        household = str(self.household) if isinstance(self.household, UUID) else self.household
        # Compared exactly: capitals, and what is not a UUID, equal no id of the service.
        found = next((membership for membership in user.households if membership.id == household), None)
        if found is None:
            raise NotAMemberError
        if self.role is not None and found.role != self.role:
            raise MissingRoleError(self.role)

    def judge(self, user: AnyPrincipal) -> bool | None:
        """As `check`. Returns None without a verdict."""
        try:
            self.check(user)
        except UnavailableError:
            return None
        except RefusedError:
            return False
        return True


def check_role(role: object) -> None:
    """At the start of a service, because types do not bind its callers. Raises VerifierConfigurationError."""
    if role not in (None, "admin"):
        raise VerifierConfigurationError('A route demands the role "admin" or none')
