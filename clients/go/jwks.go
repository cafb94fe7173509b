package platformauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

const (
	defaultMaxAge = 5 * time.Minute
	longestMaxAge = time.Hour
	// unknownKidPause limits the fetches that unknown kids cause.
	unknownKidPause = 30 * time.Second
	// failedFetchPause is that after a failed fetch, during which the service verifies the tokens.
	failedFetchPause = 5 * time.Second
)

var (
	maxAgeForm = regexp.MustCompile(`(?:^|[\s,])max-age=(\d{1,9})`)

	errNoKeys = errors.New("no keys")
)

type publishedKeys struct {
	keys   []jose.JSONWebKey
	sent   instant
	maxAge time.Duration
}

// jwks fetches the keys that the service publishes, and keeps them as long as Cache-Control allows.
type jwks struct {
	url     string
	runtime runtime
	client  *serviceClient
	checks  *checks
	fetches singleflight.Group

	mu            sync.Mutex
	keys          *publishedKeys
	fetchedForKid *instant
	fetchFailed   *instant
	// drops counts the times when the keys were dropped, so that an older fetch is ignored.
	drops int
}

// drop is called at a change of the signing keys.
func (j *jwks) drop() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.drops++
	j.keys = nil
	j.fetchedForKid = nil
}

func (j *jwks) get(ctx context.Context, deadline instant) *publishedKeys {
	j.mu.Lock()
	keys, failed, now := j.keys, j.fetchFailed, j.runtime.now()
	j.mu.Unlock()
	if keys != nil && now.since(keys.sent) < keys.maxAge {
		return keys
	}
	if failed != nil && now.since(*failed) < failedFetchPause {
		return nil
	}
	return j.fetchOnce(ctx, deadline)
}

// fetchForUnknownKid returns nil when an unknown kid has caused a fetch shortly before.
func (j *jwks) fetchForUnknownKid(ctx context.Context, deadline instant) *publishedKeys {
	j.mu.Lock()
	now := j.runtime.now()
	if j.fetchedForKid != nil && now.since(*j.fetchedForKid) < unknownKidPause {
		j.mu.Unlock()
		return nil
	}
	j.fetchedForKid = &now
	j.mu.Unlock()
	return j.fetchOnce(ctx, deadline)
}

func (j *jwks) fetchOnce(ctx context.Context, deadline instant) *publishedKeys {
	found, err, _ := j.fetches.Do("", func() (any, error) {
		if keys := j.fetch(ctx, deadline); keys != nil {
			return keys, nil
		}
		return nil, errNoKeys
	})
	if err != nil {
		return nil
	}
	return found.(*publishedKeys)
}

func (j *jwks) fetch(ctx context.Context, deadline instant) *publishedKeys {
	j.mu.Lock()
	dropsBefore := j.drops
	j.mu.Unlock()
	r := request{method: http.MethodGet, url: j.url, headers: map[string]string{"Accept": "application/json"}}
	found, err := j.client.sendWithRetry(ctx, r, deadline, func() {})
	keys, isKeySet := toKeySet(found.answer)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil || !isKeySet {
		now := j.runtime.now()
		j.fetchFailed = &now
		if err == nil && !isUnavailable(found.status) {
			j.checks.misconfigurations.report(string(settingJWKS), describe(found.answer, "not a JWKS"))
		}
		return nil
	}
	j.checks.misconfigurations.clear(string(settingJWKS))
	if j.drops != dropsBefore {
		return nil
	}
	j.keys = &publishedKeys{keys: keys, sent: found.sent, maxAge: readMaxAge(found.headers.Get("Cache-Control"))}
	return j.keys
}

func isUsable(key jose.JSONWebKey) bool {
	isForThis := (key.Use == "" || key.Use == "sig") && (key.Algorithm == "" || key.Algorithm == string(jose.ES256))
	public, isEC := key.Key.(*ecdsa.PublicKey)
	return isForThis && isEC && public.Curve == elliptic.P256() && key.Valid()
}

// toKeySet passes over the keys that it cannot read: they say nothing about the others.
func toKeySet(a answer) ([]jose.JSONWebKey, bool) {
	list, isList := parseObject(a.body)["keys"].([]any)
	if a.status != http.StatusOK || !isList {
		return nil, false
	}
	var keys []jose.JSONWebKey
	for _, element := range list {
		object, isObject := element.(map[string]any)
		if !isObject {
			return nil, false
		}
		text, _ := json.Marshal(object)
		var key jose.JSONWebKey
		if json.Unmarshal(text, &key) != nil {
			keyID, _ := object["kid"].(string)
			key = jose.JSONWebKey{KeyID: keyID}
		}
		keys = append(keys, key)
	}
	return keys, true
}

func readMaxAge(cacheControl string) time.Duration {
	found := maxAgeForm.FindStringSubmatch(cacheControl)
	if found == nil {
		return defaultMaxAge
	}
	seconds, _ := toWholeNumber(found[1])
	return min(longestMaxAge, time.Duration(seconds)*time.Second)
}
