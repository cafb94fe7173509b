package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"strings"

	"github.com/zitadel/oidc/v3/pkg/client"
	"github.com/zitadel/oidc/v3/pkg/client/tokenexchange"
	"github.com/zitadel/oidc/v3/pkg/oidc"
)

// newExchange exchanges the user's token for one for the next service (RFC 8693).
func newExchange(ctx context.Context, issuer string, httpClient *http.Client) (http.HandlerFunc, error) {
	// Without this URL, the library looks for an OpenID configuration, which is not ours.
	metadata, err := client.Discover(ctx, issuer, httpClient, issuer+"/.well-known/oauth-authorization-server")
	if err != nil {
		return nil, err
	}
	exchanger, err := tokenexchange.NewTokenExchangerClientCredentials(
		ctx, issuer, read("AUTH_APP_ID"), read("AUTH_APP_KEY"),
		tokenexchange.WithHTTPClient(httpClient),
		tokenexchange.WithStaticTokenEndpoint(issuer, metadata.TokenEndpoint),
	)
	if err != nil {
		return nil, err
	}
	return func(response http.ResponseWriter, request *http.Request) {
		token, isBearer := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
		if !isBearer {
			refuse(response)
			return
		}
		// A service of yours names the next service and the scope itself, and keeps the token.
		query := request.URL.Query()
		issued, err := tokenexchange.ExchangeToken(
			request.Context(), exchanger, token, oidc.AccessTokenType, "", "", nil,
			[]string{query.Get("audience")}, []string{query.Get("scope")}, "",
		)
		if err != nil {
			tellRefusal(response, err)
			return
		}
		writeJSON(response, http.StatusOK, issued)
	}, nil
}

func tellRefusal(response http.ResponseWriter, err error) {
	var refusal *oidc.Error
	switch {
	case !errors.As(err, &refusal):
		log.Print(err)
		response.WriteHeader(http.StatusServiceUnavailable)
	case refusal.ErrorType == oidc.InvalidRequest:
		// Only the user's token can be wrong with a request that is always built in the same way.
		writeJSON(response, http.StatusUnauthorized, map[string]any{"error": refusal.ErrorType})
	default:
		writeJSON(response, http.StatusServiceUnavailable, map[string]any{"error": refusal.ErrorType})
	}
}

func writeJSON(response http.ResponseWriter, status int, value any) {
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(status)
	json.NewEncoder(response).Encode(value)
}
