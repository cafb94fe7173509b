package platformauth

import (
	"slices"
	"strings"
)

// A Door is a way in: each has credentials of its own kind.
type Door string

// The doors.
const (
	DoorApp  Door = "app"
	DoorNode Door = "node"
	DoorUser Door = "user"
)

// An App is a service of the platform that calls this one.
type App struct {
	ID string
	// Caller is the name of the calling service.
	Caller string
	// Target is the name of this service.
	Target string

	scopes       []string
	isRestricted bool
}

// HasScope reports whether the key may do this: a key that is not restricted may do everything.
func (a App) HasScope(scope string) bool {
	return !a.isRestricted || slices.Contains(a.scopes, scope)
}

// Scopes returns the scopes of the key, and false when the key is not restricted.
func (a App) Scopes() ([]string, bool) { return slices.Clone(a.scopes), a.isRestricted }

// A Node is a device of a household.
type Node struct {
	ID          string
	HouseholdID string
}

// A Role of a user in a household.
type Role string

// The roles.
const (
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
)

// A Membership is a household of a user.
type Membership struct {
	HouseholdID string
	Role        Role
}

// A User presents an access token of a live session.
type User struct {
	ID        string
	SessionID string
	Email     string

	amr             []string
	households      []Membership
	knowsHouseholds bool
	delegation      *Delegation
}

// AMR returns how the user logged in (RFC 8176), with "mfa" for more than one factor. It is empty when the service
// states nothing.
func (u User) AMR() []string { return slices.Clone(u.amr) }

// Households returns where the user lives, and false when the service is an older one that does not know: that is not
// the same as none.
func (u User) Households() ([]Membership, bool) { return slices.Clone(u.households), u.knowsHouseholds }

// Delegation returns the service that calls on behalf of the user, and false when the user calls. Only a route that says
// AcceptDelegated or OnlyDelegated meets one; Email and Households are then empty.
func (u User) Delegation() (Delegation, bool) {
	if u.delegation == nil {
		return Delegation{}, false
	}
	return *u.delegation, true
}

// A Delegation says which services passed a user on (RFC 8693).
type Delegation struct {
	chain  []Link
	scopes []string
}

// A Link is a service that passed a user on, and the pair (app credential) that allowed it.
type Link struct {
	Service string
	AppID   string
}

// Caller returns the name of the calling service.
func (d Delegation) Caller() string { return d.chain[0].Service }

// Chain returns every service that passed the user on, the caller first.
func (d Delegation) Chain() []Link { return slices.Clone(d.chain) }

// Scopes returns what the caller may do on behalf of the user.
func (d Delegation) Scopes() []string { return slices.Clone(d.scopes) }

func (u User) roleIn(household string) (Role, bool) {
	for _, membership := range u.households {
		if membership.HouseholdID == household {
			return membership.Role, true
		}
	}
	return "", false
}

// A principal is an App, a Node or a User. The values are never changed, because requests share them.
type principal any

type fields map[string]any

// toApp returns nil when the answer is about another credential or another service.
func toApp(body fields, id, serviceName string) principal {
	caller, isText := body["caller"].(string)
	if toID(body["app_id"]) != id || !isText || body["target"] != serviceName {
		return nil
	}
	app := App{ID: id, Caller: caller, Target: serviceName}
	if scopes, isPresent := body["scopes"]; isPresent {
		// Unreadable scopes become an empty list, so that the key may do nothing.
		app.scopes, app.isRestricted = toWords(scopes), true
	}
	return app
}

func toNode(body fields, id string) principal {
	household := toID(body["household_id"])
	if toID(body["node_id"]) != id || household == "" {
		return nil
	}
	return Node{ID: id, HouseholdID: household}
}

func toUser(body fields, claimed claims) principal {
	if toID(body["user_id"]) != claimed.userID || toID(body["session_id"]) != claimed.sessionID {
		return nil
	}
	if claimed.chain != nil {
		return toDelegatedUser(body, claimed)
	}
	email, isText := body["email"].(string)
	if _, isDelegated := body["act"]; isDelegated || !isText {
		return nil
	}
	user := User{ID: claimed.userID, SessionID: claimed.sessionID, Email: email, amr: toWords(body["amr"])}
	user.households, user.knowsHouseholds = toMemberships(body["households"])
	return user
}

func toDelegatedUser(body fields, claimed claims) principal {
	chain := readChain(body["act"])
	if !slices.Equal(chain, claimed.chain) || body["caller"] != chain[0].Service {
		return nil
	}
	return User{
		ID: claimed.userID, SessionID: claimed.sessionID, amr: toWords(body["amr"]),
		delegation: &Delegation{chain: chain, scopes: toWords(body["scopes"])},
	}
}

// maxLinks is the length of the longest chain.
const maxLinks = 4

// readChain returns the chain of an act claim, the caller first; nil when it is not one.
func readChain(act any) []Link {
	var chain []Link
	for act != nil {
		link, _ := act.(map[string]any)
		service, isText := link["sub"].(string)
		appID, isID := link["client_id"].(string)
		if !isText || !isID || len(chain) == maxLinks {
			return nil
		}
		chain = append(chain, Link{Service: service, AppID: strings.ToLower(appID)})
		act = link["act"]
	}
	return chain
}

func toID(value any) string {
	text, _ := value.(string)
	return strings.ToLower(text)
}

// toWords returns nothing for an unreadable list, so that a service that requires "mfa" or a scope refuses.
func toWords(value any) []string {
	list, _ := value.([]any)
	words := make([]string, 0, len(list))
	for _, element := range list {
		word, isText := element.(string)
		if !isText {
			return nil
		}
		words = append(words, word)
	}
	return words
}

// toMemberships returns false for an absent or unreadable list, which must not be taken for none.
func toMemberships(value any) ([]Membership, bool) {
	list, isList := value.([]any)
	if !isList {
		return nil, false
	}
	memberships := make([]Membership, 0, len(list))
	for _, element := range list {
		member, _ := element.(map[string]any)
		id, isText := member["id"].(string)
		role, _ := member["role"].(string)
		if !isText || (Role(role) != RoleAdmin && Role(role) != RoleMember) {
			return nil, false
		}
		memberships = append(memberships, Membership{HouseholdID: strings.ToLower(id), Role: Role(role)})
	}
	return memberships, true
}
