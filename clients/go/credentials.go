package platformauth

import (
	"crypto/sha256"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
)

// Headers are where a credential is read from: an http.Header, or what a protocol without HTTP has in its place.
type Headers interface {
	// Values returns the values of a header, whose name is in the form of net/http: X-Api-Key.
	Values(name string) []string
}

const (
	appIDHeader   = "X-Platform-App-Id"
	appKeyHeader  = "X-Platform-App-Key"
	nodeKeyHeader = "X-Api-Key"
	tokenHeader   = "Authorization"

	maxCredentialLength = 4096
)

var (
	safeRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
	// A caller may put a secret into the wrong header, so such an id is not echoed. The service has the same rule.
	looksSecret = regexp.MustCompile(`pa_[a-z]+_|[A-Za-z0-9_]{40}`)
	traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
)

type digest [sha256.Size]byte

// A credential is what a request presents, as it arrived. Only a well-formed one may be sent to the authentication
// service; memory has no other.
type credential struct {
	door Door
	// id is that of the app, or of the node; empty for a token, which its digest identifies.
	id string
	// secret is the key of the app, the whole text of a node's credential, or the access token.
	secret string
	// digest is that of the id and the secret.
	digest digest
}

func readCredential(door Door, headers Headers) (credential, error) {
	switch door {
	case DoorApp:
		return readApp(headers)
	case DoorNode:
		return readNode(headers)
	default:
		return readToken(headers)
	}
}

func readApp(headers Headers) (credential, error) {
	id, err := readOnce(headers, appIDHeader)
	if err != nil {
		return credential{}, err
	}
	key, err := readOnce(headers, appKeyHeader)
	if err != nil {
		return credential{}, err
	}
	return credential{door: DoorApp, id: id, secret: key, digest: computeDigest(id, key)}, nil
}

func readNode(headers Headers) (credential, error) {
	presented, err := readOnce(headers, nodeKeyHeader)
	if err != nil {
		return credential{}, err
	}
	id, _, _ := strings.Cut(presented, ":")
	return credential{door: DoorNode, id: id, secret: presented, digest: computeDigest("", presented)}, nil
}

func readToken(headers Headers) (credential, error) {
	header, err := readOnce(headers, tokenHeader)
	if err != nil {
		return credential{}, err
	}
	if !isBearer(header) {
		return credential{}, newRefusal(missingToken)
	}
	token := strings.Trim(header[len("bearer"):], " \t")
	return credential{door: DoorUser, secret: token, digest: computeDigest("", token)}, nil
}

// isWellFormed reports whether the service could accept it.
func (c credential) isWellFormed() bool {
	switch c.door {
	case DoorApp:
		return isWellFormed(c.id) && isWellFormed(c.secret)
	case DoorNode:
		return isWellFormed(c.secret) && c.id != "" && len(c.secret) > len(c.id)+len(":")
	default:
		return isWellFormed(c.secret)
	}
}

// findDoor returns the first of the doors for which a credential is presented. Another scheme of Authorization counts
// as none.
func findDoor(headers Headers, doors []Door) (Door, bool) {
	isPresent := func(name string) bool { return readFirst(headers, name) != "" }
	for _, door := range doors {
		switch {
		case door == DoorApp && (isPresent(appIDHeader) || isPresent(appKeyHeader)),
			door == DoorNode && isPresent(nodeKeyHeader),
			door == DoorUser && isBearer(readFirst(headers, tokenHeader)):
			return door, true
		}
	}
	return "", false
}

// addTo presents the credential to the authentication service.
func (c credential) addTo(headers map[string]string) {
	switch c.door {
	case DoorApp:
		headers[appIDHeader], headers[appKeyHeader] = c.id, c.secret
	case DoorNode:
		headers[nodeKeyHeader] = c.secret
	case DoorUser:
		headers[tokenHeader] = "Bearer " + c.secret
	}
}

// readRequestID returns nothing when the request has no id that may be shown.
func readRequestID(headers Headers) string {
	id := readFirst(headers, "X-Request-Id")
	if !safeRequestID.MatchString(id) || looksSecret.MatchString(id) {
		return ""
	}
	return id
}

// readTracing returns the headers that connect the question to the request in logs and traces.
func readTracing(headers Headers) map[string]string {
	found := map[string]string{}
	if id := readRequestID(headers); id != "" {
		found["X-Request-Id"] = id
	}
	if trace := readFirst(headers, "Traceparent"); traceparent.MatchString(trace) {
		found["Traceparent"] = trace
	}
	return found
}

func readOnce(headers Headers, name string) (string, error) {
	values := readValues(headers, name)
	if len(values) > 1 {
		return "", newRefusal(duplicateHeader)
	}
	if len(values) == 0 {
		return "", nil
	}
	return values[0], nil
}

func readFirst(headers Headers, name string) string {
	if values := readValues(headers, name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// readValues spares an http.Header the canonical form of a name that already has it.
func readValues(headers Headers, name string) []string {
	if plain, ok := headers.(http.Header); ok {
		return plain[name]
	}
	return headers.Values(name)
}

func isBearer(header string) bool {
	const scheme = "bearer"
	return len(header) >= len(scheme) && strings.EqualFold(header[:len(scheme)], scheme) &&
		(len(header) == len(scheme) || header[len(scheme)] == ' ')
}

// isWellFormed accepts visible ASCII, up to a length far above that of any credential of the service.
func isWellFormed(text string) bool {
	if text == "" || len(text) > maxCredentialLength {
		return false
	}
	for i := range len(text) {
		if text[i] < '!' || text[i] > '~' {
			return false
		}
	}
	return true
}

// computeDigest separates the parts by a character that no well-formed part has.
func computeDigest(id, secret string) digest {
	var buffer [256]byte
	text := append(buffer[:0], id...)
	text = append(text, ' ')
	text = append(text, secret...)
	return sha256.Sum256(text)
}

// Customers commonly have an IPv6 /48 (RFC 6177), and with it every address in it.
const networkBits = 48

// toNetwork returns what counts as one caller, from the address of a connection; nothing when it is not known.
func toNetwork(address string) string {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		withPort, err := netip.ParseAddrPort(address)
		if err != nil {
			return ""
		}
		parsed = withPort.Addr()
	}
	parsed = parsed.Unmap()
	// Many callers share a local network (RFC 4193, RFC 4291 §2.5.6).
	if parsed.Is4() || parsed.IsPrivate() || parsed.IsLinkLocalUnicast() {
		return parsed.String()
	}
	network, _ := parsed.Prefix(networkBits)
	return network.String()
}
