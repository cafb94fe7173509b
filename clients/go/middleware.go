package platformauth

import (
	"context"
	"net/http"
)

// RequireApp admits requests with a valid key of another service for this one; AppFrom is the caller. Name a Scope on
// each route for services: without one, restricted keys are admitted too.
func (v *Verifier) RequireApp(given ...Demand) func(http.Handler) http.Handler {
	d := toDemands(given).mustCheck(DoorApp)
	return v.require([]Door{DoorApp}, false, func(*http.Request) demands { return d })
}

// RequireNode admits requests with a valid key of a node; NodeFrom is the caller.
func (v *Verifier) RequireNode() func(http.Handler) http.Handler {
	return v.require([]Door{DoorNode}, false, demandNothing)
}

// RequireUser admits requests with a valid access token of a user; UserFrom is the caller. A Scope needs AcceptDelegated or
// OnlyDelegated: a user's own token has no scopes.
func (v *Verifier) RequireUser(given ...Demand) func(http.Handler) http.Handler {
	d := toDemands(given).mustCheck(DoorUser)
	return v.require([]Door{DoorUser}, false, func(*http.Request) demands { return d })
}

// RequireMember admits users who live in the household that the request is about, such as
// func(r *http.Request) string { return r.PathValue("id") }, which is called only for a valid access token.
func (v *Verifier) RequireMember(
	household func(*http.Request) string, given ...Demand,
) func(http.Handler) http.Handler {
	d := toDemands(given)
	of := func(r *http.Request) demands {
		return demands{Demand: d.Demand, household: func() string { return household(r) }}
	}
	of(nil).mustCheck(DoorUser)
	return v.require([]Door{DoorUser}, false, of)
}

// RequireAny admits requests by the first of these doors for which they present a credential, if that one is valid.
func (v *Verifier) RequireAny(door Door, others ...Door) func(http.Handler) http.Handler {
	return v.require(append([]Door{door}, others...), false, demandNothing)
}

// Optional is RequireAny, and admits requests without a credential: UserFrom and its like then return nil.
func (v *Verifier) Optional(door Door, others ...Door) func(http.Handler) http.Handler {
	return v.require(append([]Door{door}, others...), true, demandNothing)
}

func demandNothing(*http.Request) demands { return demands{} }

func (v *Verifier) require(
	doors []Door, isOptional bool, demand func(*http.Request) demands,
) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			door, isPresented := findDoor(r.Header, doors)
			if !isPresented && isOptional {
				next.ServeHTTP(w, r)
				return
			}
			if !isPresented && len(doors) > 1 {
				WriteError(w, v.explain(doors[0], r.Header, newMissingCredential(doors)))
				return
			}
			if !isPresented {
				door = doors[0]
			}
			if ctx.Value(remoteAddrKey{}) == nil {
				ctx = WithRemoteAddr(ctx, r.RemoteAddr)
			}
			found, err := v.verify(ctx, door, r.Header, demand(r))
			if err != nil {
				WriteError(w, err)
				return
			}
			next.ServeHTTP(w, r.WithContext(withPrincipal(r.Context(), found)))
		})
	}
}

type principalsKey struct{}

// principals are what the guards of a route have found.
type principals struct {
	app  *App
	node *Node
	user *User
}

func withPrincipal(ctx context.Context, found principal) context.Context {
	known, _ := ctx.Value(principalsKey{}).(principals)
	switch p := found.(type) {
	case App:
		known.app = &p
	case Node:
		known.node = &p
	case User:
		known.user = &p
	}
	return context.WithValue(ctx, principalsKey{}, known)
}

// AppFrom returns the calling service that a guard of this request has verified, or nil.
func AppFrom(ctx context.Context) *App { return principalsFrom(ctx).app }

// NodeFrom returns the node that a guard of this request has verified, or nil.
func NodeFrom(ctx context.Context) *Node { return principalsFrom(ctx).node }

// UserFrom returns the user that a guard of this request has verified, or nil.
func UserFrom(ctx context.Context) *User { return principalsFrom(ctx).user }

func principalsFrom(ctx context.Context) principals {
	known, _ := ctx.Value(principalsKey{}).(principals)
	return known
}

// WithApp returns a context from which AppFrom returns this caller, for adapters of other protocols and for tests of
// handlers.
func WithApp(ctx context.Context, app App) context.Context { return withPrincipal(ctx, app) }

// WithNode returns a context from which NodeFrom returns this caller.
func WithNode(ctx context.Context, node Node) context.Context { return withPrincipal(ctx, node) }

// WithUser returns a context from which UserFrom returns this caller.
func WithUser(ctx context.Context, user User) context.Context { return withPrincipal(ctx, user) }
