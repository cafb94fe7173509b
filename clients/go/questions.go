package platformauth

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

const verdictTimeout = 3 * time.Second

// An outcome is the answer, for every request that waited for it.
type outcome struct {
	verdict   verdict
	principal principal
	// isDelegated refuses a token that is good, at a route that does not accept it.
	isDelegated bool
	// usableUntil is when a yes may no longer be used (V1).
	usableUntil instant
	uses        *usesOfKey
}

// questions ask the service: single flight for each credential, and a bound on the questions of each door.
type questions struct {
	settings   settings
	runtime    runtime
	client     *serviceClient
	lease      *lease
	checks     *checks
	tokenCheck *tokenCheck
	caches     map[Door]*cache
	// onRemember is called when the service allows a yes to be remembered.
	onRemember func()
	// begin reports whether a question may still be asked; done ends what it began.
	begin func() (ctx context.Context, done func(), ok bool)

	inFlight singleflight.Group
	slots    map[Door]*slots
	valid    map[Door]*recentlyValid
}

func newQuestions(q *questions) *questions {
	q.slots, q.valid = map[Door]*slots{}, map[Door]*recentlyValid{}
	for _, door := range []Door{DoorApp, DoorNode, DoorUser} {
		q.slots[door] = newSlots(q.settings.maxQuestions, q.runtime)
		q.valid[door] = &recentlyValid{limit: q.settings.maxEntries, digests: map[digest]struct{}{}}
	}
	return q
}

// ask returns a yes that may be used, or the error that says why not. With isAboutChange, only the answer to a question
// that is sent from now on counts.
func (q *questions) ask(ctx context.Context, asked *question, isAboutChange bool) (outcome, error) {
	found, isJoined, err := q.joinOrStart(ctx, asked)
	// A refusal from before this request arrived is outdated, because the credential may have become valid since.
	if err == nil && isJoined && (found.verdict == verdictNo || isAboutChange) {
		found, _, err = q.joinOrStart(ctx, asked)
	}
	if err != nil {
		return outcome{}, newUnavailable(err)
	}
	if found.isDelegated {
		return outcome{}, newRefusal(delegationNotAccepted, ErrDelegationNotAccepted)
	}
	if found.verdict == verdictNo {
		return outcome{}, newRefusal(refusedAtDoor[asked.credential.door])
	}
	// Checked again for each request that waited, because the process may have been paused since the answer arrived.
	if found.verdict != verdictYes || !q.runtime.now().isBefore(found.usableUntil) {
		return outcome{}, newUnavailable(nil)
	}
	return found, nil
}

func (q *questions) joinOrStart(ctx context.Context, asked *question) (found outcome, isJoined bool, err error) {
	var isStarted atomic.Bool
	name := string(asked.credential.door) + string(asked.credential.digest[:])
	if asked.refusesDelegated {
		// Another question: its answer is none to a route that accepts the token.
		name += " refused"
	}
	answered := q.inFlight.DoChan(name, func() (any, error) {
		isStarted.Store(true)
		return q.waitAndDecide(asked), nil
	})
	select {
	case result := <-answered:
		return result.Val.(outcome), !isStarted.Load(), nil
	case <-ctx.Done():
		return outcome{}, false, ctx.Err()
	}
}

// waitAndDecide is shared by all requests that wait for the answer, so it does not end with one of them.
func (q *questions) waitAndDecide(asked *question) (found outcome) {
	ctx, done, ok := q.begin()
	if !ok {
		return outcome{}
	}
	defer done()
	defer func() {
		if recovered := recover(); recovered != nil {
			q.checks.unexpected.report(recovered, asked.credential.secret)
			found = outcome{}
		}
	}()
	deadline := q.runtime.now().add(verdictTimeout)
	c := asked.credential
	p := priority{wasValid: q.valid[c.door].has(c.digest), network: asked.network}
	if !q.slots[c.door].enter(ctx, p) {
		return outcome{}
	}
	defer q.slots[c.door].leave(p)
	return q.decide(ctx, asked, deadline)
}

func (q *questions) decide(ctx context.Context, asked *question, deadline instant) outcome {
	if q.checks.serviceName.isWrong.Load() {
		return outcome{}
	}
	if asked.token == nil {
		return q.send(ctx, asked, deadline, true)
	}
	checked := q.tokenCheck.check(ctx, *asked.token, deadline)
	if asked.refusesDelegated && checked == tokenGood {
		return outcome{isDelegated: true}
	}
	if asked.refusesDelegated && checked != tokenUnknown {
		return q.answerNo(asked)
	}
	switch checked {
	case tokenBad:
		return q.answerNo(asked)
	case tokenUnknown:
		return q.send(ctx, asked, deadline, true)
	case tokenGood:
		found := q.send(ctx, asked, deadline, true)
		if found.verdict == verdictYes {
			q.checks.tokenSettings.confirm()
		}
		return found
	}
	isForged := q.checks.tokenSettings.isForged(checked, func() verdict {
		return q.send(ctx, asked, deadline, false).verdict
	})
	if isForged {
		return q.answerNo(asked)
	}
	return outcome{}
}

// send asks the service. mayRemember is false for a token that does not fit the settings of this verifier.
func (q *questions) send(ctx context.Context, asked *question, deadline instant, mayRemember bool) outcome {
	var t ticket
	found, err := q.client.sendWithRetry(ctx, asked.request, deadline, func() { t = q.lease.takeTicket() })
	if err != nil {
		return outcome{}
	}
	decided := readDecision(asked.credential.door, found.answer)
	switch decided.verdict {
	case verdictYes:
		return q.accept(asked, decided, found.sent, t, mayRemember)
	case verdictMisconfigured:
		q.checks.misconfigurations.report(asked.path, decided.detail)
		return outcome{}
	case verdictNo:
		q.checks.misconfigurations.clear(asked.path)
		// The verdict on a token does not depend on the name of this service.
		if asked.credential.door != DoorUser {
			q.checks.serviceName.waitUntilCompared(ctx, deadline)
		}
		if q.checks.serviceName.isWrong.Load() {
			return outcome{}
		}
		return q.answerNo(asked)
	default:
		return outcome{}
	}
}

// answerNo evicts the refused credential before a poll reports it. Another key of the same id stays remembered.
func (q *questions) answerNo(asked *question) outcome {
	c := asked.credential
	q.valid[c.door].remove(c.digest)
	q.lease.mu.Lock()
	defer q.lease.mu.Unlock()
	q.caches[c.door].removeDigest(c.digest)
	return outcome{verdict: verdictNo}
}

func (q *questions) accept(asked *question, decided decision, sent instant, t ticket, mayRemember bool) outcome {
	identity := asked.read(decided.body)
	if identity == nil {
		q.checks.misconfigurations.report(asked.path, "the answer is about something else")
		return outcome{}
	}
	q.checks.misconfigurations.clear(asked.path)
	c := asked.credential
	found := outcome{
		verdict:     verdictYes,
		principal:   identity,
		usableUntil: sent.add(decided.freshFor),
		uses:        newUsesOfKey(string(c.door), strings.ToLower(c.id), decided.isPreviousKey),
	}
	if q.checks.serviceName.isWrong.Load() || !q.runtime.now().isBefore(found.usableUntil) {
		return outcome{}
	}
	q.valid[c.door].add(c.digest)
	if decided.rememberFor == 0 {
		return found
	}
	if mayRemember {
		remembered := &entry{
			digest: c.digest, principal: identity, sent: sent, ends: sent.add(decided.rememberFor),
			changes: asked.changes, uses: found.uses,
		}
		// Only the whole minute is the service's choice; a shorter term is the end of the credential itself.
		remembered.askAgain.Store(decided.rememberFor == maxRemember)
		q.lease.remember(t, func() { q.caches[c.door].put(remembered) })
	}
	q.onRemember()
	return found
}

// recentlyValid are the credentials that the service accepted last at one door. A reset keeps them, so that known
// callers go on to take precedence.
type recentlyValid struct {
	limit int

	mu      sync.Mutex
	digests map[digest]struct{}
}

func (r *recentlyValid) has(d digest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.digests[d]
	return ok
}

func (r *recentlyValid) add(d digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.digests[d] = struct{}{}
	if len(r.digests) <= r.limit {
		return
	}
	// The order of a map is random, which is good enough for a choice between callers that were all valid.
	for other := range r.digests {
		if other != d {
			delete(r.digests, other)
			return
		}
	}
}

func (r *recentlyValid) remove(d digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.digests, d)
}
