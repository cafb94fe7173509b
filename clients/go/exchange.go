package platformauth

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	tokenPath = "/internal/token"
	// exchangedShare is how much of its life a token is used for.
	exchangedShare = 0.8
)

// exchangedTokens are tokens with which this service calls others on behalf of users (RFC 8693), kept in memory. They are
// the one exception to the rule that only digests are kept, because they are sent on. A token is used for the presented
// token, the target and the scope for which it was issued, for 80 % of its life and while the lease is held; a change of
// its session, its user or a pair of its chain drops it.
type exchangedTokens struct {
	url     string
	runtime runtime
	client  *serviceClient
	lease   *lease
	checks  *checks
	cache   *cache
	slots   *slots
	// onRemember is called when a token is kept, because only polls can drop it.
	onRemember func()
	// begin reports whether a token may still be asked for; done ends what it began.
	begin func() (ctx context.Context, done func(), ok bool)

	inFlight singleflight.Group
}

// exchangedToken is the principal of an entry. It prints without the token.
type exchangedToken struct{ text string }

func (exchangedToken) String() string   { return "exchangedToken" }
func (exchangedToken) GoString() string { return "exchangedToken" }

// TokenFor gets a token with which this service calls another one on behalf of the user whom these headers present, as
// the map allows it (for_users). A scope is one of those that the map gives this service for the target, or several
// with blanks between; nothing stands for all of them. The error is ErrRefused when the presented token is not valid any
// more, so that the caller can be answered 401; everything else is ErrUnavailable.
func (v *Verifier) TokenFor(ctx context.Context, headers Headers, target, scope string) (string, error) {
	token, err := v.exchanged.get(ctx, headers, target, scope)
	if err != nil {
		explained := toError(err)
		explained.RequestID = readRequestID(headers)
		return "", explained
	}
	return token, nil
}

func (e *exchangedTokens) get(ctx context.Context, headers Headers, target, scope string) (string, error) {
	presented, err := readToken(headers)
	if err != nil {
		return "", err
	}
	if _, ok := parseToken(presented.secret); !ok || !presented.isWellFormed() {
		return "", newRefusal(refusedAtDoor[DoorUser])
	}
	name := computeDigest(string(presented.digest[:]), target+" "+scope)
	if found, _, ok := e.cache.recall(name); ok {
		return found.principal.(exchangedToken).text, nil
	}
	asked := e.newRequest(headers, presented.secret, target, scope)
	answered := e.inFlight.DoChan(string(name[:]), func() (any, error) { return e.ask(name, asked) })
	select {
	case result := <-answered:
		if result.Err != nil {
			return "", result.Err
		}
		return result.Val.(exchangedToken).text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (e *exchangedTokens) newRequest(headers Headers, token, target, scope string) request {
	form := url.Values{
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token":      {token},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"audience":           {target},
	}
	if scope != "" {
		form.Set("scope", scope)
	}
	sent := readTracing(headers)
	sent["Content-Type"] = "application/x-www-form-urlencoded"
	return request{method: http.MethodPost, url: e.url, headers: sent, body: form.Encode(), presentsOwnKey: true}
}

// ask is shared by all callers that wait for the answer.
func (e *exchangedTokens) ask(name digest, asked request) (_ exchangedToken, err error) {
	ctx, done, ok := e.begin()
	if !ok {
		return exchangedToken{}, newUnavailable(nil)
	}
	defer done()
	defer func() {
		if recovered := recover(); recovered != nil {
			e.checks.unexpected.report(recovered, asked.body)
			err = newUnavailable(nil)
		}
	}()
	p := priority{wasValid: true}
	if !e.slots.enter(ctx, p) {
		return exchangedToken{}, newUnavailable(nil)
	}
	defer e.slots.leave(p)
	var ticket ticket
	deadline := e.runtime.now().add(verdictTimeout)
	found, err := e.client.sendWithRetry(ctx, asked, deadline, func() { ticket = e.lease.takeTicket() })
	if err != nil {
		return exchangedToken{}, newUnavailable(nil)
	}
	return e.accept(name, found, ticket)
}

func (e *exchangedTokens) accept(name digest, found timedAnswer, t ticket) (exchangedToken, error) {
	body := parseObject(found.body)
	if found.status == http.StatusBadRequest && body["code"] == "invalid_subject_token" {
		return exchangedToken{}, newRefusal(refusedAtDoor[DoorUser])
	}
	text, _ := body["access_token"].(string)
	seconds, isNumber := body["expires_in"].(float64)
	token, isToken := parseToken(text)
	if found.status != http.StatusOK || !isNumber || !isToken || token.chain == nil {
		e.reportMistake(found.answer, body)
		return exchangedToken{}, newUnavailable(errors.New("no token"))
	}
	e.checks.misconfigurations.clear(tokenPath)
	const longest = float64(time.Hour)
	used := time.Duration(min(longest, math.Max(0, seconds)*float64(time.Second)) * exchangedShare)
	issued := exchangedToken{text}
	remembered := &entry{
		digest: name, principal: issued, sent: found.sent, ends: found.sent.add(used), changes: token.changes(),
	}
	e.lease.remember(t, func() { e.cache.put(remembered) })
	e.onRemember()
	return issued, nil
}

// reportMistake: other answers are about this service or its entry in the map, such as invalid_target.
func (e *exchangedTokens) reportMistake(a answer, body fields) {
	if isUnavailable(a.status) {
		return
	}
	code, isText := body["code"].(string)
	if !isText {
		code, _ = body["error"].(string)
	}
	if code == "" || len(code) > maxCodeLength || !codeForm.MatchString(code) {
		code = "not a token"
	}
	e.checks.misconfigurations.report(tokenPath, describe(a, code))
}
