package platformauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

// A tokenVerdict is one of these, or the setting that does not fit the token, so that one of the two is wrong.
type tokenVerdict string

const (
	tokenGood tokenVerdict = "good"
	tokenBad  tokenVerdict = "bad"
	// tokenUnknown: only the service can tell.
	tokenUnknown tokenVerdict = "unknown"

	settingSecret   tokenVerdict = "SECRET_KEY"
	settingJWKS     tokenVerdict = "AUTH_JWKS_URL"
	settingIssuer   tokenVerdict = "JWT_ISSUER"
	settingAudience tokenVerdict = "JWT_AUDIENCE"
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
	// compactForm is JWS Compact Serialization: base64url without padding (RFC 7515 §2).
	compactForm = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)
	maxAgeForm  = regexp.MustCompile(`(?:^|[\s,])max-age=(\d{1,9})`)

	errNoKeys = errors.New("no keys")
)

// claims are what a token says, before anything is verified.
type claims struct {
	userID, sessionID string
	// chain is nil for a user's own token.
	chain []Link
}

// delegatedType is the typ of a delegated token (RFC 9068).
const delegatedType = "at+jwt"

func toDelegatedIssuer(issuer string) string { return issuer + "/delegated" }

// A parsedToken is in the form of a token of the service.
type parsedToken struct {
	claims
	text, algorithm, keyID string
	payload                fields
}

// parseToken returns false when this is not a token of the service.
func parseToken(text string) (parsedToken, bool) {
	if !compactForm.MatchString(text) {
		return parsedToken{}, false
	}
	parts := strings.Split(text, ".")
	header, payload := parsePart(parts[0]), parsePart(parts[1])
	if header == nil || payload == nil {
		return parsedToken{}, false
	}
	algorithm, _ := header["alg"].(string)
	keyID, isText := header["kid"].(string)
	_, hasKeyID := header["kid"]
	// These members change what is signed, and tokens of the service do not have them.
	_, isCritical := header["crit"]
	_, isUnencoded := header["b64"]
	user, hasUser := payload["sub"].(string)
	session, hasSession := payload["sid"].(string)
	isKnown := algorithm == string(jose.HS256) || algorithm == string(jose.ES256)
	if isCritical || isUnencoded || !isKnown || (hasKeyID && !isText) || !hasUser || !hasSession {
		return parsedToken{}, false
	}
	token := parsedToken{
		claims: claims{userID: strings.ToLower(user), sessionID: strings.ToLower(session)},
		text:   text, algorithm: algorithm, keyID: keyID, payload: payload,
	}
	if header["typ"] == delegatedType {
		token.chain = readChain(payload["act"])
		// Under HS256 every holder of the secret could sign any chain.
		return token, token.chain != nil && algorithm == string(jose.ES256)
	}
	return token, true
}

func parsePart(part string) fields {
	text, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return nil
	}
	var parsed fields
	if json.Unmarshal(text, &parsed) != nil {
		return nil
	}
	return parsed
}

type publishedKeys struct {
	keys   []jose.JSONWebKey
	sent   instant
	maxAge time.Duration
}

// A tokenCheck verifies signatures locally, so that forged tokens do not reach the service. It refuses only what is
// proven to be forged.
type tokenCheck struct {
	settings settings
	runtime  runtime
	client   *serviceClient
	checks   *checks
	fetches  singleflight.Group

	mu            sync.Mutex
	keys          *publishedKeys
	fetchedForKid *instant
	fetchFailed   *instant
	// drops counts the times when the keys were dropped, so that an older fetch is ignored.
	drops int
}

// dropKeys is called at a change of the signing keys.
func (t *tokenCheck) dropKeys() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drops++
	t.keys = nil
	t.fetchedForKid = nil
}

// check waits for the keys until the deadline.
func (t *tokenCheck) check(ctx context.Context, token parsedToken, deadline instant) tokenVerdict {
	if token.algorithm == string(jose.HS256) {
		return t.verifyWithSecrets(token)
	}
	if t.settings.jwksURL == "" {
		return tokenUnknown
	}
	arrived := t.runtime.now()
	keys := t.getKeys(ctx, deadline)
	if keys == nil {
		return tokenUnknown
	}
	verdict := t.verifyWithKeys(token, keys)
	// Keys that were fetched since this token arrived are not fetched again for it.
	if verdict == tokenUnknown && keys.sent.monotonic < arrived.monotonic {
		return t.verifyWithNewer(ctx, token, deadline)
	}
	return verdict
}

// verifyWithSecrets: while the secret is rotated, either one may have signed the token.
func (t *tokenCheck) verifyWithSecrets(token parsedToken) tokenVerdict {
	verdict := tokenUnknown
	for _, secret := range t.settings.secrets {
		verdict = t.verify(token, jose.HS256, secret, settingSecret)
		if verdict != settingSecret {
			break
		}
	}
	return verdict
}

func (t *tokenCheck) verifyWithKeys(token parsedToken, published *publishedKeys) tokenVerdict {
	var fitting []jose.JSONWebKey
	for _, key := range published.keys {
		if token.keyID == "" || key.KeyID == token.keyID {
			fitting = append(fitting, key)
		}
	}
	// A key that is unknown, or cannot be used, is not evidence; nor is a choice of several.
	if len(fitting) != 1 || !isUsable(fitting[0]) {
		return tokenUnknown
	}
	return t.verify(token, jose.ES256, fitting[0].Key, settingJWKS)
}

func isUsable(key jose.JSONWebKey) bool {
	isForThis := (key.Use == "" || key.Use == "sig") && (key.Algorithm == "" || key.Algorithm == string(jose.ES256))
	public, isEC := key.Key.(*ecdsa.PublicKey)
	return isForThis && isEC && public.Curve == elliptic.P256() && key.Valid()
}

func (t *tokenCheck) verifyWithNewer(ctx context.Context, token parsedToken, deadline instant) tokenVerdict {
	t.mu.Lock()
	now := t.runtime.now()
	if t.fetchedForKid != nil && now.since(*t.fetchedForKid) < unknownKidPause {
		t.mu.Unlock()
		return tokenUnknown
	}
	t.fetchedForKid = &now
	t.mu.Unlock()
	// A kid that is still unknown is not proof of a forgery: a cache, or a replica without the database, may have
	// answered.
	newer := t.fetchOnce(ctx, deadline)
	if newer == nil {
		return tokenUnknown
	}
	return t.verifyWithKeys(token, newer)
}

func (t *tokenCheck) verify(token parsedToken, algorithm jose.SignatureAlgorithm, key any, setting tokenVerdict) tokenVerdict {
	parsed, err := jose.ParseSignedCompact(token.text, []jose.SignatureAlgorithm{algorithm})
	if err != nil {
		return tokenBad
	}
	isOfDelegatedIssuer := token.payload["iss"] == toDelegatedIssuer(t.settings.issuer)
	if _, err := parsed.Verify(key); err != nil {
		isDisguised := token.chain == nil && isOfDelegatedIssuer
		if isDisguised || t.judgeTimes(token.payload) == tokenBad {
			return tokenBad
		}
		return setting
	}
	if token.chain == nil {
		return t.judgeClaims(token.payload)
	}
	// Only the signature may show a wrong setting: the service would judge issuer and audience by the same text. One
	// target: a list is not a form that the service issues.
	if !isOfDelegatedIssuer || token.payload["aud"] != t.settings.serviceName {
		return tokenBad
	}
	return t.judgeTimes(token.payload)
}

func (t *tokenCheck) judgeClaims(payload fields) tokenVerdict {
	times := t.judgeTimes(payload)
	if times == tokenBad {
		return tokenBad
	}
	if payload["iss"] == toDelegatedIssuer(t.settings.issuer) {
		return tokenBad
	}
	if payload["iss"] != t.settings.issuer {
		return settingIssuer
	}
	audience, hasAudience := payload["aud"]
	if hasAudience != (t.settings.audience != "") || (hasAudience && !isMeant(audience, t.settings.audience)) {
		return settingAudience
	}
	return times
}

func isMeant(audience any, expected string) bool {
	if list, isList := audience.([]any); isList {
		for _, one := range list {
			if one == expected {
				return true
			}
		}
		return false
	}
	return audience == expected
}

// judgeTimes: outside of its own times no verifier accepts a token, but what a wrong clock says about them is no
// verdict.
func (t *tokenCheck) judgeTimes(payload fields) tokenVerdict {
	expires, hasExpiry := payload["exp"].(float64)
	notBefore, hasNotBefore := payload["nbf"].(float64)
	_, hasAnyNotBefore := payload["nbf"]
	_, isIssuedAtNumber := payload["iat"].(float64)
	_, hasIssuedAt := payload["iat"]
	if !hasExpiry || hasAnyNotBefore != hasNotBefore || (hasIssuedAt && !isIssuedAtNumber) {
		return tokenBad
	}
	now := float64(t.runtime.now().wall) / float64(time.Second)
	tolerance := clockTolerance.Seconds()
	if expires > now-tolerance && (!hasNotBefore || notBefore <= now+tolerance) {
		return tokenGood
	}
	if t.checks.clock.isWrong.Load() {
		return tokenUnknown
	}
	return tokenBad
}

func (t *tokenCheck) getKeys(ctx context.Context, deadline instant) *publishedKeys {
	t.mu.Lock()
	keys, failed, now := t.keys, t.fetchFailed, t.runtime.now()
	t.mu.Unlock()
	if keys != nil && now.since(keys.sent) < keys.maxAge {
		return keys
	}
	if failed != nil && now.since(*failed) < failedFetchPause {
		return nil
	}
	return t.fetchOnce(ctx, deadline)
}

func (t *tokenCheck) fetchOnce(ctx context.Context, deadline instant) *publishedKeys {
	found, err, _ := t.fetches.Do("", func() (any, error) {
		if keys := t.fetch(ctx, deadline); keys != nil {
			return keys, nil
		}
		return nil, errNoKeys
	})
	if err != nil {
		return nil
	}
	return found.(*publishedKeys)
}

func (t *tokenCheck) fetch(ctx context.Context, deadline instant) *publishedKeys {
	t.mu.Lock()
	dropsBefore := t.drops
	t.mu.Unlock()
	r := request{method: http.MethodGet, url: t.settings.jwksURL, headers: map[string]string{"Accept": "application/json"}}
	found, err := t.client.sendWithRetry(ctx, r, deadline, func() {})
	keys, isKeySet := toKeySet(found.answer)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil || !isKeySet {
		now := t.runtime.now()
		t.fetchFailed = &now
		if err == nil && !isUnavailable(found.status) {
			t.checks.misconfigurations.report(string(settingJWKS), describe(found.answer, "not a JWKS"))
		}
		return nil
	}
	t.checks.misconfigurations.clear(string(settingJWKS))
	if t.drops != dropsBefore {
		return nil
	}
	t.keys = &publishedKeys{keys: keys, sent: found.sent, maxAge: readMaxAge(found.headers.Get("Cache-Control"))}
	return t.keys
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
