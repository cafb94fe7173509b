// A service that verifies access tokens with the library that its argument names: keyfunc, jwx or oidc; with zitadel it
// exchanges them instead.
// docs/integrate-standard-libraries.md says what none of them can do.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// errUnavailable means that the keys could not be read: 503. Any other error is a verdict on the token: 401.
var errUnavailable = errors.New("the keys could not be read")

// verifier returns the id of the user.
type verifier func(ctx context.Context, token string) (string, error)

type settings struct {
	jwksURL string
	issuer  string
	// A key that was revoked is accepted no longer than this.
	maxAge time.Duration
	client *http.Client
}

func main() {
	// A transport of our own, because the default one shows keys and tokens to the proxy of the environment.
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{}}
	if os.Args[1] == "zitadel" {
		exchange, err := newExchange(context.Background(), read("JWT_ISSUER"), client)
		serve(exchange, err)
	}
	verifiers := map[string]func(context.Context, settings) (verifier, error){
		"keyfunc": newKeyfuncVerifier, "jwx": newJwxVerifier, "oidc": newOidcVerifier,
	}
	maxAge, err := strconv.Atoi(os.Getenv("KEYS_MAX_AGE_SECONDS"))
	if err != nil {
		maxAge = 300
	}
	verify, err := verifiers[os.Args[1]](context.Background(), settings{
		jwksURL: read("AUTH_JWKS_URL"),
		issuer:  read("JWT_ISSUER"),
		maxAge:  time.Duration(maxAge) * time.Second,
		client:  client,
	})
	serve(requireUser(verify), err)
}

func serve(handler http.HandlerFunc, err error) {
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), handler))
}

// Without an issuer, golang-jwt would accept every one.
func read(name string) string {
	value := os.Getenv(name)
	if value == "" {
		log.Fatalf("%s is needed", name)
	}
	return value
}

func requireUser(verify verifier) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		token, isBearer := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
		if !isBearer {
			refuse(response)
			return
		}
		user, err := verify(request.Context(), token)
		switch {
		case errors.Is(err, errUnavailable):
			log.Print(err)
			response.Header().Set("Retry-After", "1")
			response.WriteHeader(http.StatusServiceUnavailable)
		case err != nil:
			refuse(response)
		default:
			response.Write([]byte(user))
		}
	}
}

func refuse(response http.ResponseWriter) {
	response.Header().Set("WWW-Authenticate", "Bearer")
	response.WriteHeader(http.StatusUnauthorized)
}
