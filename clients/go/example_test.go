package platformauth_test

import (
	"context"
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

func ExampleVerifier_RequireMember() {
	service := platformauthtest.NewService()
	config := platformauth.Config{URL: "http://auth.test", AppID: home, AppKey: "pa_app_test", ServiceName: "recipes"}
	auth, err := platformauth.New(context.Background(), config, platformauth.WithTransport(service.Transport()))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	householdOf := func(r *http.Request) string { return r.PathValue("id") }
	mux.Handle("GET /homes/{id}", auth.RequireMember(householdOf)(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, "welcome") },
	)))
	alice := service.IssueUser(platformauthtest.User{
		Households: []platformauthtest.Membership{{ID: home, Role: platformauth.RoleMember}},
	})
	for _, id := range []string{home, otherHome} {
		r := httptest.NewRequest(http.MethodGet, "/homes/"+id, nil)
		r.Header = alice.Header
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 404
}
