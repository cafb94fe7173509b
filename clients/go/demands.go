package platformauth

import (
	"cmp"
	"errors"
	"slices"
)

// A Demand is what a route demands besides a valid credential. Demands are checked at each decision, also of an answer
// from memory. A guard panics when it is created with a demand that it cannot check, such as RequireUser(AsAdmin()); a
// verification then returns ErrUnavailable.
type Demand struct {
	// scope is nil when the route demands none. An empty text is a scope that no restricted key has.
	scope     *string
	role      Role
	delegated delegated
}

type delegated int

const (
	refuseDelegated delegated = iota
	acceptDelegated
	onlyDelegated
)

// Scope demands that the key of an App has this scope, unless it is not restricted, or that a service which calls on
// behalf of a user has it: otherwise ErrMissingScope. A user's own token has no scopes. A route demands one scope at most.
func Scope(scope string) Demand { return Demand{scope: &scope} }

// AcceptDelegated accepts also a service that calls on behalf of a user (RFC 8693), which User.Delegation names.
func AcceptDelegated() Demand { return Demand{delegated: acceptDelegated} }

// OnlyDelegated accepts services that call on behalf of a user, and no user: otherwise ErrDelegationRequired.
func OnlyDelegated() Demand { return Demand{delegated: onlyDelegated} }

// AsAdmin demands that the member of a household is one of its admins: otherwise ErrMissingRole. It belongs to RequireMember
// and VerifyMember.
func AsAdmin() Demand { return Demand{role: RoleAdmin} }

type demands struct {
	Demand
	// household is nil when the route demands no member; called only for a valid access token.
	household    func() string
	hasTwoScopes bool
}

func toDemands(given []Demand) demands {
	var d demands
	for _, demand := range given {
		d.hasTwoScopes = d.hasTwoScopes || (d.scope != nil && demand.scope != nil && *d.scope != *demand.scope)
		d.scope = cmp.Or(demand.scope, d.scope)
		d.role = cmp.Or(demand.role, d.role)
		d.delegated = cmp.Or(demand.delegated, d.delegated)
	}
	return d
}

// findMisuse returns which demand cannot be checked at this door. Ignoring it would admit callers whom the route means to
// refuse.
func (d demands) findMisuse(door Door) error {
	switch {
	case d.role != "" && d.household == nil:
		return errors.New("platformauth: AsAdmin needs RequireMember, VerifyMember or WithMember")
	case d.delegated != refuseDelegated && (door != DoorUser || d.household != nil):
		return errors.New("platformauth: AcceptDelegated and OnlyDelegated are for users, without a household")
	case d.scope != nil && door == DoorUser && d.delegated == refuseDelegated:
		return errors.New("platformauth: a Scope of users needs AcceptDelegated or OnlyDelegated")
	case d.hasTwoScopes:
		return errors.New("platformauth: a route demands one Scope at most")
	}
	return nil
}

// mustCheck panics for demands that a guard of this door cannot check.
func (d demands) mustCheck(door Door) demands {
	if err := d.findMisuse(door); err != nil {
		panic(err.Error())
	}
	return d
}

// canCheck reports whether the answer suffices to check the demands: one from memory may lack the memberships, when an
// older replica gave it.
func (d demands) canCheck(p principal) bool {
	user, isUser := p.(User)
	// A delegated token never names households: it is refused without another question.
	return d.household == nil || !isUser || user.knowsHouseholds || user.delegation != nil
}

func (d demands) check(p principal) error {
	switch p := p.(type) {
	case App:
		if d.scope != nil && !p.HasScope(*d.scope) {
			return newMissingScope(*d.scope)
		}
	case User:
		if err := d.checkDelegation(p); err != nil {
			return err
		}
		return d.checkMember(p)
	}
	return nil
}

func (d demands) checkDelegation(user User) error {
	if user.delegation == nil {
		if d.delegated == onlyDelegated {
			return newRefusal(delegationRequired, ErrDelegationRequired)
		}
		return nil
	}
	if d.delegated == refuseDelegated {
		return newRefusal(delegationNotAccepted, ErrDelegationNotAccepted)
	}
	if d.scope != nil && !slices.Contains(user.delegation.scopes, *d.scope) {
		return newMissingScope(*d.scope)
	}
	return nil
}

func (d demands) checkMember(user User) error {
	if d.household == nil {
		return nil
	}
	if !user.knowsHouseholds {
		return newUnavailable(nil)
	}
	role, isMember := user.roleIn(d.household())
	if !isMember {
		return newRefusal(notMember, ErrNotMember)
	}
	if d.role != "" && role != d.role {
		return newMissingRole(d.role)
	}
	return nil
}
