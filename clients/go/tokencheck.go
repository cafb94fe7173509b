package platformauth

import (
	"context"
	"time"

	"github.com/go-jose/go-jose/v4"
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

// A tokenCheck verifies signatures locally, so that forged tokens do not reach the service. It refuses only what is
// proven to be forged.
type tokenCheck struct {
	settings settings
	runtime  runtime
	checks   *checks
	jwks     *jwks
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
	keys := t.jwks.get(ctx, deadline)
	if keys == nil {
		return tokenUnknown
	}
	verdict := t.verifyWithKeys(token, keys)
	// Keys that were fetched since this token arrived are not fetched again for it.
	if verdict == tokenUnknown && keys.sent.monotonic < arrived.monotonic {
		// A kid that is still unknown is not proof of a forgery: a cache, or a replica without the database, may have
		// answered.
		if newer := t.jwks.fetchForUnknownKid(ctx, deadline); newer != nil {
			return t.verifyWithKeys(token, newer)
		}
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
	if t.checks.clock.isWrong() {
		return tokenUnknown
	}
	return tokenBad
}
