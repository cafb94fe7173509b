package platformauth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	platformauth "platform-auth.example/clients/go"
	"platform-auth.example/clients/go/platformauthtest"
)

const home, otherHome = "01985f4e-7c3a-7b52-9d1e-000000000d01", "01985f4e-7c3a-7b52-9d1e-000000000d02"

// request presents a credential to a guarded handler, and returns the status and the body.
func request(t *testing.T, guard func(http.Handler) http.Handler, header http.Header) (int, string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("GET /homes/{id}", guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		switch {
		case platformauth.UserFrom(ctx) != nil:
			_, _ = fmt.Fprint(w, "user ", platformauth.UserFrom(ctx).Email)
		case platformauth.AppFrom(ctx) != nil:
			_, _ = fmt.Fprint(w, "app ", platformauth.AppFrom(ctx).Caller)
		case platformauth.NodeFrom(ctx) != nil:
			_, _ = fmt.Fprint(w, "node ", platformauth.NodeFrom(ctx).ID)
		default:
			_, _ = fmt.Fprint(w, "nobody")
		}
	})))
	r := httptest.NewRequest(http.MethodGet, "/homes/"+home, nil)
	r.Header = header
	recorder := httptest.NewRecorder()
	mux.ServeHTTP(recorder, r)
	body, _ := io.ReadAll(recorder.Body)
	return recorder.Code, string(body)
}

func expect(t *testing.T, status int, body string, wantStatus int, wantPart string) {
	t.Helper()
	if status != wantStatus || !strings.Contains(body, wantPart) {
		t.Errorf("%d %s; want %d with %q", status, body, wantStatus, wantPart)
	}
}

func TestGuardsAdmitWhomTheServiceAccepts(t *testing.T) {
	for _, over := range []string{"in the process", "over HTTP"} {
		t.Run(over, func(t *testing.T) {
			service := platformauthtest.NewService()
			auth := service.Start(t, "recipes")
			if over == "in the process" {
				auth = service.Verifier(t, "recipes")
			}
			alice := service.IssueUser(platformauthtest.User{Email: "alice@example.org"})
			meals := service.IssueApp(platformauthtest.App{Caller: "meals", Target: "recipes"})
			other := service.IssueApp(platformauthtest.App{Caller: "meals", Target: "ocr"})
			node := service.IssueNode(platformauthtest.Node{})

			status, body := request(t, auth.RequireUser(), alice.Header)
			expect(t, status, body, http.StatusOK, "user alice@example.org")
			status, body = request(t, auth.RequireApp(), meals.Header)
			expect(t, status, body, http.StatusOK, "app meals")
			status, body = request(t, auth.RequireNode(), node.Header)
			expect(t, status, body, http.StatusOK, "node "+node.ID)
			status, body = request(t, auth.RequireApp(), other.Header)
			expect(t, status, body, http.StatusUnauthorized, "invalid_app_credentials")
			status, body = request(t, auth.RequireUser(), http.Header{})
			expect(t, status, body, http.StatusUnauthorized, "missing_access_token")
			service.Revoke(alice)
			status, body = request(t, auth.RequireUser(), alice.Header)
			expect(t, status, body, http.StatusUnauthorized, "invalid_access_token")
			service.SetAvailable(false)
			status, body = request(t, auth.RequireApp(), meals.Header)
			expect(t, status, body, http.StatusServiceUnavailable, "unavailable")
			service.SetAvailable(true)
			status, body = request(t, auth.RequireApp(), meals.Header)
			expect(t, status, body, http.StatusOK, "app meals")
		})
	}
}

func TestGuardsJudgeDemands(t *testing.T) {
	service := platformauthtest.NewService()
	auth := service.Verifier(t, "recipes")
	householdOf := func(r *http.Request) string { return r.PathValue("id") }
	reader := service.IssueApp(platformauthtest.App{Target: "recipes", Scopes: []string{"recipes:read"}})
	alice := service.IssueUser(platformauthtest.User{
		Households: []platformauthtest.Membership{{ID: home, Role: platformauth.RoleMember}},
	})

	status, body := request(t, auth.RequireApp(platformauth.Scope("recipes:read")), reader.Header)
	expect(t, status, body, http.StatusOK, "app")
	status, body = request(t, auth.RequireApp(platformauth.Scope("recipes:write")), reader.Header)
	expect(t, status, body, http.StatusForbidden, "missing_scope")
	status, body = request(t, auth.RequireApp(platformauth.Scope("")), reader.Header)
	expect(t, status, body, http.StatusForbidden, "missing_scope")
	status, body = request(t, auth.RequireMember(householdOf), alice.Header)
	expect(t, status, body, http.StatusOK, "user")
	status, body = request(t, auth.RequireMember(householdOf, platformauth.AsAdmin()), alice.Header)
	expect(t, status, body, http.StatusForbidden, "missing_role")
	service.SetHouseholds(alice, platformauthtest.Membership{ID: otherHome, Role: platformauth.RoleAdmin})
	status, body = request(t, auth.RequireMember(householdOf), alice.Header)
	expect(t, status, body, http.StatusNotFound, "not_found")
}

func TestGuardsAdmitServicesOnBehalfOfUsersWhereTheRouteSaysSo(t *testing.T) {
	service := platformauthtest.NewService()
	auth := service.Verifier(t, "recipes")
	meals := service.IssueDelegated(platformauthtest.Delegated{
		Caller: "meals", Target: "recipes", Scopes: []string{"recipes:read"},
	})
	reading := auth.RequireUser(platformauth.AcceptDelegated(), platformauth.Scope("recipes:read"))
	status, body := request(t, reading, meals.Header)
	expect(t, status, body, http.StatusOK, "user")
	user, err := auth.VerifyUser(t.Context(), meals.Header, platformauth.AcceptDelegated())
	if delegation, ok := user.Delegation(); err != nil || !ok || delegation.Caller() != "meals" {
		t.Errorf("the caller is %+v: %v", user, err)
	}
	writing := auth.RequireUser(platformauth.AcceptDelegated(), platformauth.Scope("recipes:write"))
	status, body = request(t, writing, meals.Header)
	expect(t, status, body, http.StatusForbidden, "missing_scope")
	status, _ = request(t, auth.RequireUser(), meals.Header)
	if status == http.StatusOK {
		t.Error("a route that does not say so admitted a delegated token")
	}
	alice := service.IssueUser(platformauthtest.User{})
	status, body = request(t, auth.RequireUser(platformauth.OnlyDelegated()), alice.Header)
	expect(t, status, body, http.StatusForbidden, "delegation_required")
}

func TestDemandsThatADoorCannotCheckAreNotIgnored(t *testing.T) {
	service := platformauthtest.NewService()
	auth := service.Verifier(t, "recipes")
	scope, admin, delegated := platformauth.Scope("recipes:read"), platformauth.AsAdmin(), platformauth.AcceptDelegated()
	ofHome := func(*http.Request) string { return home }
	guards := map[string]func(){
		"a scope of users":             func() { auth.RequireUser(scope) },
		"an admin of no household":     func() { auth.RequireUser(admin) },
		"an app as admin":              func() { auth.RequireApp(admin) },
		"an app on behalf of a user":   func() { auth.RequireApp(delegated) },
		"a member on behalf of a user": func() { auth.RequireMember(ofHome, delegated) },
		"a scope of members":           func() { auth.RequireMember(ofHome, scope) },
		"two scopes":                   func() { auth.RequireApp(scope, platformauth.Scope("recipes:write")) },
	}
	for name, create := range guards {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the guard was created")
				}
			}()
			create()
		})
	}
	alice := service.IssueUser(platformauthtest.User{})
	if _, err := auth.VerifyUser(t.Context(), alice.Header, admin); !errors.Is(err, platformauth.ErrUnavailable) {
		t.Errorf("an admin of no household was verified: %v", err)
	}
	if _, _, err := auth.WithCredential(t.Context(), platformauth.DoorUser, alice.Header, scope); err == nil {
		t.Error("a connection with a scope of users was admitted")
	}
}

func TestGuardsOfSeveralDoors(t *testing.T) {
	service := platformauthtest.NewService()
	auth := service.Verifier(t, "recipes")
	node := service.IssueNode(platformauthtest.Node{})

	any := auth.RequireAny(platformauth.DoorUser, platformauth.DoorNode)
	status, body := request(t, any, node.Header)
	expect(t, status, body, http.StatusOK, "node")
	status, body = request(t, any, http.Header{})
	expect(t, status, body, http.StatusUnauthorized, "missing_access_token")
	optional := auth.Optional(platformauth.DoorUser, platformauth.DoorNode)
	status, body = request(t, optional, http.Header{})
	expect(t, status, body, http.StatusOK, "nobody")
	service.Revoke(node)
	status, body = request(t, optional, node.Header)
	expect(t, status, body, http.StatusUnauthorized, "invalid_node_credentials")
}

func TestErrorsTellAVerdictFromAnOutage(t *testing.T) {
	service := platformauthtest.NewService()
	auth := service.Verifier(t, "recipes")
	node := service.IssueNode(platformauthtest.Node{})
	service.SetAvailable(false)
	_, err := auth.VerifyNode(t.Context(), node.Header)
	if !errors.Is(err, platformauth.ErrUnavailable) || errors.Is(err, platformauth.ErrRefused) {
		t.Errorf("in an outage: %v", err)
	}
	service.SetAvailable(true)
	service.Revoke(node)
	_, err = auth.VerifyNode(t.Context(), node.Header)
	if !errors.Is(err, platformauth.ErrRefused) || errors.Is(err, platformauth.ErrUnavailable) {
		t.Errorf("a revoked key: %v", err)
	}
	if got := auth.Count(platformauth.DoorNode, platformauth.Refused); got != 1 {
		t.Errorf("%d refused nodes", got)
	}
}

func TestACallerThatGoesAwayGetsNoVerdict(t *testing.T) {
	service := platformauthtest.NewService()
	auth := service.Verifier(t, "recipes", platformauth.WithTransport(stalled{}))
	node := service.IssueNode(platformauthtest.Node{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := auth.VerifyNode(ctx, node.Header)
	if !errors.Is(err, platformauth.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

type stalled struct{}

func (stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestCloseEndsEveryGoroutine(t *testing.T) {
	service := platformauthtest.NewService()
	server := httptest.NewServer(service)
	defer server.Close()
	node := service.IssueNode(platformauthtest.Node{})
	config := platformauth.Config{
		URL: server.URL, AppID: home, AppKey: "pa_app_test", ServiceName: "recipes", JWKSURL: server.URL + "/jwks",
	}
	auth, err := platformauth.New(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.VerifyNode(t.Context(), node.Header); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := auth.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.VerifyNode(t.Context(), node.Header); !errors.Is(err, platformauth.ErrUnavailable) {
		t.Errorf("after the close: %v", err)
	}
}
