package platformauth

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The 401s that are verdicts at each door. Any other 401 is about this verifier, or comes from another program.
var verdictsAtDoor = map[Door][]string{
	DoorApp:  {"invalid_app_credentials"},
	DoorNode: {"invalid_node_credentials"},
	DoorUser: {"invalid_access_token", "missing_access_token"},
}

// These 400s are verdicts, because they are about the presented credential.
var unreadableCredential = []string{"malformed_request", "duplicate_header"}

var changedKinds = []string{"node", "app", "session", "user", "signing_key"}

// codeForm is that of a code of the service's catalogue. Nothing else of an answer is logged, because a server may echo
// a credential.
var codeForm = regexp.MustCompile(`^[a-z]+(?:_[a-z]+)*$`)

const (
	maxCodeLength = 60
	maxDurationMS = 1_000_000_000

	wrongKey = "AUTH_APP_ID and AUTH_APP_KEY: the key was rotated or revoked. Run platform-auth apply, and restart"
	wrongURL = "AUTH_URL must be the address of platform-auth, for services (INTERNAL_PORT), without a path"
)

type verdict int

const (
	// verdictUnknown: the service could not decide.
	verdictUnknown verdict = iota
	verdictYes
	verdictNo
	// verdictMisconfigured: the service did not understand the question, or is another program.
	verdictMisconfigured
)

// A decision is what the service answered to a question about a credential.
type decision struct {
	verdict       verdict
	body          fields
	freshFor      time.Duration
	rememberFor   time.Duration
	isPreviousKey bool
	// detail is for the log, of an answer that is not one of the service.
	detail string
}

func readDecision(door Door, a answer) decision {
	body := parseObject(a.body)
	code, _ := body["code"].(string)
	isVerdict := a.status == http.StatusUnauthorized && slices.Contains(verdictsAtDoor[door], code)
	isUnreadable := a.status == http.StatusBadRequest && slices.Contains(unreadableCredential, code)
	if isVerdict || isUnreadable || a.status == http.StatusRequestHeaderFieldsTooLarge {
		return decision{verdict: verdictNo}
	}
	if isUnavailable(a.status) {
		return decision{verdict: verdictUnknown}
	}
	if a.status != http.StatusOK {
		return decision{verdict: verdictMisconfigured, detail: describe(a, toLoggable(code))}
	}
	if body["valid"] != true {
		return decision{verdict: verdictMisconfigured, detail: describe(a, "not the body of a validation")}
	}
	// Zero is valid: the service decided, but grants no lease at the moment.
	freshForMS, isReadable := toWholeNumber(a.headers.Get("X-Platform-Fresh-For-Ms"))
	if !isReadable {
		return decision{verdict: verdictMisconfigured, detail: describe(a, "no X-Platform-Fresh-For-Ms")}
	}
	return decision{
		verdict:       verdictYes,
		body:          body,
		freshFor:      time.Duration(freshForMS) * time.Millisecond,
		rememberFor:   readRememberFor(a),
		isPreviousKey: a.headers.Get("X-Platform-Key") == "previous",
	}
}

// isOwnKeyRefused is not for questions about an app, whose refusal has the same code.
func isOwnKeyRefused(a answer) bool {
	return a.status == http.StatusUnauthorized && parseObject(a.body)["code"] == verdictsAtDoor[DoorApp][0]
}

// isUnavailable reports whether the service could not decide, so that its answer says nothing about the credential.
func isUnavailable(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

// readRememberFor returns 0 when the yes must not be remembered.
func readRememberFor(a answer) time.Duration {
	if a.headers.Get("X-Platform-Remember") != "yes" {
		return 0
	}
	seconds, _ := toWholeNumber(a.headers.Get("X-Platform-Expires-In"))
	return min(maxRemember, time.Duration(seconds)*time.Second)
}

// readPollAnswer returns how long the lease is, and what it renews; nil when the answer is not one to a poll, and what
// the operator has to know about that, if it is a mistake.
func readPollAnswer(a answer) (leaseFor time.Duration, renewed *renewal, mistake string) {
	body := parseObject(a.body)
	if isUnavailable(a.status) {
		return 0, nil, ""
	}
	if a.status != http.StatusOK {
		code, _ := body["code"].(string)
		return 0, nil, describe(a, toLoggable(code))
	}
	cursor, isCursor := body["cursor"].(string)
	isReset, isBoolean := body["reset"].(bool)
	leaseFor, isLease := toDuration(body["lease_ms"])
	freshFor, isFresh := toDuration(body["fresh_for_ms"])
	changes, areChanges := toChanges(body["changes"])
	if !isCursor || !isBoolean || !isLease || !isFresh || !areChanges {
		return 0, nil, describe(a, "not an answer to a poll")
	}
	return leaseFor, &renewal{cursor: cursor, isReset: isReset, freshFor: freshFor, changes: changes}, ""
}

func toChanges(value any) ([]change, bool) {
	list, isList := value.([]any)
	changes := make([]change, 0, len(list))
	for _, element := range list {
		object, _ := element.(map[string]any)
		kind, isKind := object["kind"].(string)
		id, isID := object["id"].(string)
		if !isKind || !isID {
			return nil, false
		}
		// A newer service may have further kinds, of which this verifier remembers nothing.
		if slices.Contains(changedKinds, kind) {
			changes = append(changes, change{kind: kind, id: strings.ToLower(id)})
		}
	}
	return changes, isList
}

// parseObject returns nil for anything but a JSON object.
func parseObject(text []byte) fields {
	var body fields
	if json.Unmarshal(text, &body) != nil {
		return nil
	}
	return body
}

func toDuration(value any) (time.Duration, bool) {
	ms, isNumber := value.(float64)
	if !isNumber || math.IsNaN(ms) || ms < 0 || ms > maxDurationMS {
		return 0, false
	}
	return time.Duration(ms * float64(time.Millisecond)), true
}

func toWholeNumber(text string) (int, bool) {
	const maxDigits = 9
	if text == "" || len(text) > maxDigits || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	number, err := strconv.Atoi(text)
	return number, err == nil
}

func describe(a answer, detail string) string {
	advice := ""
	if a.status == http.StatusNotFound {
		advice = " (" + wrongURL + ")"
	} else if detail == verdictsAtDoor[DoorApp][0] {
		advice = " (" + wrongKey + ")"
	}
	return fmt.Sprintf("%d: %s%s", a.status, detail, advice)
}

func toLoggable(code string) string {
	if len(code) > maxCodeLength || !codeForm.MatchString(code) {
		return "not a known problem"
	}
	return code
}
