package platformauth

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// compactForm is JWS Compact Serialization: base64url without padding (RFC 7515 §2).
var compactForm = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

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
