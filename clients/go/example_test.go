package platformauth_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	platformauth "platform-auth.example/clients/go"
	"platform-auth.example/clients/go/platformauthtest"
)

func ExampleFromEnvironment() {
	ctx := context.Background()
	auth, err := platformauth.FromEnvironment(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = auth.Close(ctx) }()
	recipes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, "recipes of", platformauth.UserFrom(r.Context()).ID)
	})
	mux := http.NewServeMux()
	mux.Handle("GET /recipes", auth.RequireUser()(recipes))
	log.Fatal(http.ListenAndServe(":8080", mux))
}

// newRecipes is the verifier of a service named recipes, which asks a service in memory.
func newRecipes(service *platformauthtest.Service) *platformauth.Verifier {
	config := platformauth.Config{URL: "http://auth.test", AppID: home, AppKey: "pa_app_test", ServiceName: "recipes"}
	auth, err := platformauth.New(context.Background(), config, platformauth.WithTransport(service.Transport()))
	if err != nil {
		log.Fatal(err)
	}
	return auth
}

// printStatus sends a request with a credential to a handler.
func printStatus(handler http.Handler, path string, header http.Header) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header = header
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Println(w.Code)
}

func ExampleVerifier_RequireUser() {
	service := platformauthtest.NewService()
	auth := newRecipes(service)
	list := auth.RequireUser()(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("recipes of", platformauth.UserFrom(r.Context()).Email)
	}))
	alice := service.IssueUser(platformauthtest.User{Email: "alice@example.org"})
	printStatus(list, "/recipes", alice.Header)
	service.Revoke(alice)
	printStatus(list, "/recipes", alice.Header)
	// Output:
	// recipes of alice@example.org
	// 200
	// 401
}

func ExampleVerifier_RequireUser_delegated() {
	service := platformauthtest.NewService()
	auth := newRecipes(service)
	read := auth.RequireUser(platformauth.AcceptDelegated(), platformauth.Scope("recipes:read"))(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if delegation, ok := platformauth.UserFrom(r.Context()).Delegation(); ok {
				fmt.Println("for a user, by", delegation.Caller())
			}
		},
	))
	meals := service.IssueDelegated(platformauthtest.Delegated{
		Caller: "meals", Target: "recipes", Scopes: []string{"recipes:read"},
	})
	printStatus(read, "/recipes", meals.Header)
	// A route that does not say so refuses a service that calls on behalf of a user: 403 delegation_not_accepted where a
	// published key has signed its token (AUTH_JWKS_URL), and otherwise 401.
	printStatus(auth.RequireUser()(read), "/recipes", meals.Header)
	// Output:
	// for a user, by meals
	// 200
	// 401
}

func ExampleVerifier_RequireApp() {
	service := platformauthtest.NewService()
	auth := newRecipes(service)
	scan := auth.RequireApp(platformauth.Scope("documents:read"))(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			fmt.Println("called by", platformauth.AppFrom(r.Context()).Caller)
		},
	))
	for _, scope := range []string{"documents:read", "documents:list"} {
		ocr := service.IssueApp(platformauthtest.App{Caller: "ocr", Target: "recipes", Scopes: []string{scope}})
		printStatus(scan, "/scan", ocr.Header)
	}
	// Output:
	// called by ocr
	// 200
	// 403
}

func ExampleVerifier_RequireNode() {
	service := platformauthtest.NewService()
	auth := newRecipes(service)
	report := auth.RequireNode()(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("of household", platformauth.NodeFrom(r.Context()).HouseholdID)
	}))
	printStatus(report, "/reports", service.IssueNode(platformauthtest.Node{HouseholdID: home}).Header)
	printStatus(report, "/reports", nil)
	// Output:
	// of household 01985f4e-7c3a-7b52-9d1e-000000000d01
	// 200
	// 401
}

// A message of a queue has headers and no response. Only a verdict drops it.
func ExampleVerifier_VerifyNode() {
	service := platformauthtest.NewService()
	auth := newRecipes(service)
	handle := func(headers http.Header) {
		node, err := auth.VerifyNode(context.Background(), headers)
		switch {
		case errors.Is(err, platformauth.ErrRefused):
			fmt.Println("dropped")
		case err != nil:
			fmt.Println("put back")
		default:
			fmt.Println("handled for household", node.HouseholdID)
		}
	}
	camera := service.IssueNode(platformauthtest.Node{HouseholdID: home})
	handle(camera.Header)
	service.SetAvailable(false)
	handle(camera.Header)
	service.SetAvailable(true)
	service.Revoke(camera)
	handle(camera.Header)
	// Output:
	// handled for household 01985f4e-7c3a-7b52-9d1e-000000000d01
	// put back
	// dropped
}

func ExampleVerifier_TokenFor() {
	auth := newRecipes(platformauthtest.NewService())
	http.HandleFunc("GET /scans", func(w http.ResponseWriter, r *http.Request) {
		token, err := auth.TokenFor(r.Context(), r.Header, "ocr", "documents:read")
		switch {
		case errors.Is(err, platformauth.ErrRefused):
			http.Error(w, "log in again", http.StatusUnauthorized)
			return
		case err != nil:
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		request, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://ocr.test/scans", nil)
		request.Header.Set("Authorization", "Bearer "+token)
	})
}

func ExampleVerifier_Events() {
	auth := newRecipes(platformauthtest.NewService())
	forget := func(_ context.Context, event platformauth.Event) error {
		fmt.Println("look whether user", event.Subject.ID, "is gone")
		return nil
	}
	compare := func(context.Context) error { return nil }
	err := auth.Events(context.Background(), forget, compare)
	log.Println("no more events:", err)
}

func ExampleVerifier_RequireMember() {
	service := platformauthtest.NewService()
	auth := newRecipes(service)
	mux := http.NewServeMux()
	householdOf := func(r *http.Request) string { return r.PathValue("id") }
	mux.Handle("GET /homes/{id}", auth.RequireMember(householdOf)(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, "welcome") },
	)))
	alice := service.IssueUser(platformauthtest.User{
		Households: []platformauthtest.Membership{{ID: home, Role: platformauth.RoleMember}},
	})
	for _, id := range []string{home, otherHome} {
		printStatus(mux, "/homes/"+id, alice.Header)
	}
	// Output:
	// 200
	// 404
}
