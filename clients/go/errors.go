package platformauth

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Errors of verifications, for errors.Is. Each refusal is ErrRefused as well as its own kind.
var (
	// ErrRefused is a verdict: the credential is missing, malformed or not valid, or may not do this.
	ErrRefused = errors.New("platformauth: the request is refused")
	// ErrUnavailable is no verdict: the authentication service could not be asked. It is never ErrRefused.
	ErrUnavailable = errors.New("platformauth: the authentication service cannot be asked")
	// ErrMissingScope is a verdict: the key is valid but lacks the scope of the route (403).
	ErrMissingScope = errors.New("platformauth: a scope is missing")
	// ErrMissingRole is a verdict: the user lives in the household without the role of the route (403).
	ErrMissingRole = errors.New("platformauth: a role is missing")
	// ErrDelegationNotAccepted is a verdict: a service calls on behalf of a user, and the route accepts users themselves
	// alone (403).
	ErrDelegationNotAccepted = errors.New("platformauth: a delegated token is not accepted")
	// ErrDelegationRequired is a verdict: a user calls, and the route accepts services on behalf of users alone (403).
	ErrDelegationRequired = errors.New("platformauth: a delegated token is needed")
	// ErrNotMember is a verdict: the user does not live in the household, or it does not exist (404).
	ErrNotMember = errors.New("platformauth: not a member of the household")
)

// An Error says why a request was not accepted, and how to answer it. It contains nothing of the credential.
type Error struct {
	// Status is the HTTP status: 400, 401, 403, 404 or 503.
	Status int
	// Code is a stable word to branch on.
	Code string
	// RequestID is the X-Request-Id of the refused request, if it has one that may be shown.
	RequestID string

	problem problem
	kinds   []error
	cause   error
}

func (e *Error) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("platformauth: %s: %v", e.problem.title, e.cause)
	}
	return "platformauth: " + e.problem.title
}

// Unwrap makes errors.Is find the kind of the error and its cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return e.kinds
	}
	return append([]error{e.cause}, e.kinds...)
}

// WriteError answers a request that was not accepted: with the problem document (RFC 9457) and the headers with which
// the authentication service itself would answer. Any error that is not an *Error becomes a 503, because the
// credential could not be verified.
func WriteError(response http.ResponseWriter, err error) {
	var refusal *Error
	if !errors.As(err, &refusal) {
		refusal = newUnavailable(err)
	}
	body, headers := refusal.problemDocument()
	for name, value := range headers {
		response.Header().Set(name, value)
	}
	response.WriteHeader(refusal.Status)
	_, _ = response.Write(body)
}

func (e *Error) problemDocument() (body []byte, headers map[string]string) {
	id := e.RequestID
	if id == "" {
		id = rand.Text()
	}
	document := map[string]any{
		"type":       "/problems/" + strings.ReplaceAll(e.problem.code, "_", "-"),
		"title":      e.problem.title,
		"status":     e.problem.status,
		"detail":     e.problem.detail,
		"instance":   "urn:request:" + id,
		"code":       e.problem.code,
		"request_id": id,
	}
	for name, value := range e.problem.extension {
		document[name] = value
	}
	body, _ = json.Marshal(document)
	headers = map[string]string{"Content-Type": "application/problem+json", "Cache-Control": "no-store"}
	for name, value := range e.problem.headers {
		headers[name] = value
	}
	return body, headers
}

// A problem is a response to a request that was not accepted, as the service documents it.
type problem struct {
	status              int
	code, title, detail string
	headers             map[string]string
	extension           map[string]any
}

const realm = `realm="platform-auth"`

var (
	refusedAtDoor = map[Door]problem{
		DoorApp: {
			status: http.StatusUnauthorized,
			code:   "invalid_app_credentials",
			title:  "The app credentials are not valid",
			detail: "X-Platform-App-Id and X-Platform-App-Key are missing or do not name a live credential for this " +
				"target.",
			headers:   map[string]string{"WWW-Authenticate": "PlatformApp " + realm},
			extension: map[string]any{"valid": false},
		},
		DoorNode: {
			status:    http.StatusUnauthorized,
			code:      "invalid_node_credentials",
			title:     "The node credentials are not valid",
			detail:    "X-API-Key is missing or does not name a live node: X-API-Key: <node_id>:<api_key>.",
			headers:   map[string]string{"WWW-Authenticate": "NodeKey " + realm},
			extension: map[string]any{"valid": false},
		},
		DoorUser: {
			status: http.StatusUnauthorized,
			code:   "invalid_access_token",
			title:  "The access token is not valid",
			detail: "The access token is malformed, expired or its session has ended.",
			headers: map[string]string{"WWW-Authenticate": "Bearer " + realm +
				`, error="invalid_token", error_description="The access token is not valid"`},
		},
	}
	missingToken = problem{
		status:  http.StatusUnauthorized,
		code:    "missing_access_token",
		title:   "An access token is needed",
		detail:  "Send an access token: Authorization: Bearer <access token>.",
		headers: map[string]string{"WWW-Authenticate": "Bearer " + realm},
	}
	duplicateHeader = problem{
		status:    http.StatusBadRequest,
		code:      "duplicate_header",
		title:     "A credential header arrived twice",
		detail:    "Send each credential header, X-Platform-Target and X-Platform-Scope at most once.",
		extension: map[string]any{"errors": []any{}},
	}
	delegationNotAccepted = problem{
		status: http.StatusForbidden,
		code:   "delegation_not_accepted",
		title:  "A delegated token is not accepted here",
		detail: "The token is valid, and was issued to a service on behalf of a user. This route accepts users themselves " +
			"alone.",
	}
	delegationRequired = problem{
		status: http.StatusForbidden,
		code:   "delegation_required",
		title:  "A delegated token is needed",
		detail: "The token is valid, and is a user’s own. This route accepts services that call on behalf of a user alone.",
	}
	// The same for a household that does not exist.
	notMember = problem{
		status: http.StatusNotFound,
		code:   "not_found",
		title:  "Not found",
		detail: "The resource does not exist, or the caller may not see it.",
	}
	unavailable = problem{
		status: http.StatusServiceUnavailable,
		code:   "unavailable",
		title:  "The service is unavailable",
		detail: "The authentication service cannot be asked at the moment. This is not a verdict on the credential: " +
			"keep it and try again.",
		headers: map[string]string{"Retry-After": "2"},
	}
)

func newRefusal(p problem, kinds ...error) *Error {
	return &Error{Status: p.status, Code: p.code, problem: p, kinds: append(kinds, ErrRefused)}
}

func newUnavailable(cause error) *Error {
	return &Error{
		Status: unavailable.status, Code: unavailable.code, problem: unavailable,
		kinds: []error{ErrUnavailable}, cause: cause,
	}
}

func newMissingScope(scope string) *Error {
	return newRefusal(problem{
		status:    http.StatusForbidden,
		code:      "missing_scope",
		title:     "A scope is missing",
		detail:    "The key is valid. The operator, or the app credential, needs one of the scopes that `scopes` lists.",
		extension: map[string]any{"scopes": []string{scope}},
	}, ErrMissingScope)
}

func newMissingRole(role Role) *Error {
	return newRefusal(problem{
		status: http.StatusForbidden,
		code:   "missing_role",
		title:  "A role is missing",
		detail: fmt.Sprintf("The caller is a member of the household, and the act needs the role %s.", role),
	}, ErrMissingRole)
}

// newMissingCredential refuses a request without a credential of any of these doors: with the problem of the first,
// and the challenges of all.
func newMissingCredential(doors []Door) *Error {
	challenges := make([]string, len(doors))
	for i, door := range doors {
		challenges[i] = missingAtDoor(door).headers["WWW-Authenticate"]
	}
	first := missingAtDoor(doors[0])
	first.headers = map[string]string{"WWW-Authenticate": strings.Join(challenges, ", ")}
	return newRefusal(first)
}

func missingAtDoor(door Door) problem {
	if door == DoorUser {
		return missingToken
	}
	return refusedAtDoor[door]
}

// toError turns every other error into a 503, because the credential could not be verified. It returns a copy, because
// requests that waited for one answer share its error, and each has an id of its own.
func toError(err error) *Error {
	var refusal *Error
	if errors.As(err, &refusal) {
		own := *refusal
		return &own
	}
	return newUnavailable(err)
}
