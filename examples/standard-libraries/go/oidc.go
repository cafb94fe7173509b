package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// oidcKeys replaces the set of go-oidc, which keeps a key until the service restarts.
type oidcKeys struct {
	context context.Context
	settings
	lock  sync.Mutex
	keys  *oidc.RemoteKeySet
	since time.Time
}

// There is no OpenID configuration here, so oidc.NewProvider fails.
func newOidcVerifier(ctx context.Context, settings settings) (verifier, error) {
	keys := &oidcKeys{context: oidc.ClientContext(ctx, settings.client), settings: settings}
	// An access token has no audience of a client.
	config := &oidc.Config{SkipClientIDCheck: true, SupportedSigningAlgs: []string{oidc.ES256}}
	tokens := oidc.NewVerifier(settings.issuer, keys, config)
	return func(ctx context.Context, token string) (string, error) {
		var outage error
		parsed, err := tokens.Verify(context.WithValue(ctx, outageKey{}, &outage), token)
		if outage != nil {
			return "", fmt.Errorf("%w: %w", errUnavailable, outage)
		}
		if err != nil {
			return "", err
		}
		claims := map[string]any{}
		if err := parsed.Claims(&claims); err != nil {
			return "", err
		}
		return userOf(claims)
	}, nil
}

// VerifySignature tells a failed read of the keys, which wraps its cause, from a wrong signature; Verify gives both the same text.
func (keys *oidcKeys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := keys.current().VerifySignature(ctx, token)
	if cause := errors.Unwrap(err); cause != nil {
		*ctx.Value(outageKey{}).(*error) = cause
	}
	return payload, err
}

func (keys *oidcKeys) current() *oidc.RemoteKeySet {
	keys.lock.Lock()
	defer keys.lock.Unlock()
	if time.Since(keys.since) > keys.maxAge {
		keys.keys, keys.since = oidc.NewRemoteKeySet(keys.context, keys.jwksURL), time.Now()
	}
	return keys.keys
}
