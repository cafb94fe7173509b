package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lestrrat-go/httprc/v3"
	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/lestrrat-go/jwx/v3/jwt"
)

// jwxKeys reads the keys again for a key that it does not know, which jwk.Cache does not, and when a request finds them too
// old: on a busy machine the background refresh of jwk.Cache was seen to stay away for a minute.
type jwxKeys struct {
	cache   *jwk.Cache
	url     string
	maxAge  time.Duration
	lock    sync.Mutex
	asked   time.Time
	renewed time.Time
}

func newJwxVerifier(ctx context.Context, settings settings) (verifier, error) {
	cache, err := jwk.NewCache(ctx, httprc.NewClient())
	if err != nil {
		return nil, err
	}
	interval := jwk.WithConstantInterval(settings.maxAge)
	// The service starts also while the keys cannot be read.
	err = cache.Register(ctx, settings.jwksURL, interval, jwk.WithHTTPClient(settings.client), jwk.WithWaitReady(false))
	if err != nil {
		return nil, err
	}
	keys := &jwxKeys{cache: cache, url: settings.jwksURL, maxAge: settings.maxAge}
	return func(ctx context.Context, token string) (string, error) {
		parsed, err := jwt.ParseString(token, jwt.WithContext(ctx), jwt.WithKeyProvider(jws.KeyProviderFunc(keys.find)),
			jwt.WithIssuer(settings.issuer), jwt.WithRequiredClaim("exp"), jwt.WithRequiredClaim("sub"), jwt.WithRequiredClaim("sid"))
		if err != nil {
			return "", err
		}
		user, _ := parsed.Subject()
		return user, nil
	}, nil
}

func (keys *jwxKeys) find(ctx context.Context, sink jws.KeySink, signature *jws.Signature, _ *jws.Message) error {
	algorithm, _ := signature.ProtectedHeaders().Algorithm()
	kid, _ := signature.ProtectedHeaders().KeyID()
	if algorithm != jwa.ES256() || kid == "" {
		return errors.New("the token is not one of ES256 that names its key")
	}
	keys.renew(ctx)
	set, err := keys.cache.Lookup(ctx, keys.url)
	if err == nil {
		if key, isKnown := set.LookupKeyID(kid); isKnown {
			sink.Key(algorithm, key)
			return nil
		}
	}
	if set, err = keys.readAgain(ctx); err != nil {
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	if key, isKnown := set.LookupKeyID(kid); isKnown {
		sink.Key(algorithm, key)
		return nil
	}
	return errors.New("the key is not known")
}

// In an outage the old keys stay.
func (keys *jwxKeys) renew(ctx context.Context) {
	keys.lock.Lock()
	defer keys.lock.Unlock()
	if time.Since(keys.renewed) < keys.maxAge {
		return
	}
	keys.renewed = time.Now()
	_, _ = keys.cache.Refresh(ctx, keys.url)
}

// A key that is not known is looked for once in five seconds.
func (keys *jwxKeys) readAgain(ctx context.Context) (jwk.Set, error) {
	keys.lock.Lock()
	defer keys.lock.Unlock()
	if time.Since(keys.asked) < 5*time.Second {
		return nil, errors.New("the keys were read a moment ago")
	}
	keys.asked = time.Now()
	return keys.cache.Refresh(ctx, keys.url)
}
