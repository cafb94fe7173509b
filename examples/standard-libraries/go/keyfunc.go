package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

type outageKey struct{}

// keyfunc reports a failed read of the keys to its handler only, and answers that the key was not found.
func newKeyfuncVerifier(ctx context.Context, settings settings) (verifier, error) {
	keys, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{settings.jwksURL}, keyfunc.Override{
		Client:          settings.client,
		RefreshInterval: settings.maxAge,
		// A key that is not known is looked for once in this time.
		RefreshUnknownKID: rate.NewLimiter(rate.Every(5*time.Second), 1),
		// Also the time that the read itself may take.
		RateLimitWaitMax: settings.client.Timeout,
		RefreshErrorHandlerFunc: func(string) func(context.Context, error) {
			return func(ctx context.Context, err error) {
				if outage, isQuestion := ctx.Value(outageKey{}).(*error); isQuestion {
					*outage = err
				}
			}
		},
	})
	if err != nil {
		return nil, err
	}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuer(settings.issuer), jwt.WithExpirationRequired())
	return func(ctx context.Context, token string) (string, error) {
		claims := jwt.MapClaims{}
		_, err := parser.ParseWithClaims(token, claims, func(token *jwt.Token) (any, error) {
			if _, hasName := token.Header["kid"].(string); !hasName {
				return nil, errors.New("the token names no key")
			}
			var outage error
			key, err := keys.KeyfuncCtx(context.WithValue(ctx, outageKey{}, &outage))(token)
			// Not found, and nothing failed: a verdict. Otherwise the keys could not be read, or not so soon again.
			if err != nil && (outage != nil || !errors.Is(err, jwkset.ErrKeyNotFound)) {
				return nil, fmt.Errorf("%w: %w", errUnavailable, errors.Join(outage, err))
			}
			return key, err
		})
		if err != nil {
			return "", err
		}
		return userOf(claims)
	}, nil
}

func userOf(claims map[string]any) (string, error) {
	user, _ := claims["sub"].(string)
	session, _ := claims["sid"].(string)
	if user == "" || session == "" {
		return "", errors.New("the token names no user or no session")
	}
	return user, nil
}
