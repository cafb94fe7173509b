package platformauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
)

// A Verifier verifies the credentials of requests to this service. A process needs one.
type Verifier struct {
	settings  settings
	runtime   runtime
	lease     *lease
	caches    map[Door]*cache
	questions *questions
	exchanged *exchangedTokens
	events    *eventReader
	poller    *poller
	watch     *watch
	checks    *checks
	uses      *uses
	counts    verdictCounts

	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	work   sync.WaitGroup
}

// FromEnvironment makes a verifier from the variables that `platform-auth init` writes, and starts to poll. The error is
// about the variables alone: an authentication service that cannot be reached is none. The verifier works until Close,
// or until the context ends.
//
// It reads AUTH_URL, AUTH_APP_ID, AUTH_APP_KEY (or AUTH_APP_KEY_FILE, a file with the key), SERVICE_NAME, and SECRET_KEY
// or AUTH_JWKS_URL. Optional: SECRET_KEY_PREVIOUS, JWT_ISSUER, JWT_AUDIENCE and AUTH_OUTAGE_GRACE_SECONDS.
func FromEnvironment(ctx context.Context, options ...Option) (*Verifier, error) {
	config, err := readEnvironment()
	if err != nil {
		return nil, err
	}
	return New(ctx, config, options...)
}

// New makes a verifier, and starts to poll. The error is about the settings alone, and names each without showing it. The
// verifier works until Close, or until the context ends.
func New(ctx context.Context, config Config, options ...Option) (*Verifier, error) {
	s, err := toSettings(config, options)
	if err != nil {
		return nil, err
	}
	return newVerifier(ctx, s, newSystemRuntime(s.options)), nil
}

func newVerifier(ctx context.Context, s settings, r runtime) *Verifier {
	l := &lease{now: r.now, grace: s.outageGrace}
	client := &serviceClient{runtime: r, ownKey: s.ownKey}
	v := &Verifier{settings: s, runtime: r, lease: l, checks: newChecks(s, r), uses: &uses{}, caches: map[Door]*cache{}}
	v.ctx, v.cancel = context.WithCancel(ctx)
	context.AfterFunc(v.ctx, l.close)
	for _, door := range []Door{DoorApp, DoorNode, DoorUser} {
		v.caches[door] = newCache(l, s.maxEntries)
	}
	keys := &jwks{url: s.jwksURL, runtime: r, client: client, checks: v.checks}
	l.onChange(func(c change) {
		if c.kind == "signing_key" {
			keys.drop()
		}
	}, keys.drop)
	v.watch = newWatch(r, l, v.spawn)
	v.poller = &poller{
		settings: s, runtime: r, client: client, lease: l, uses: v.uses, checks: v.checks, spawn: v.spawn,
		leaseFor: defaultLease,
	}
	v.questions = newQuestions(&questions{
		settings: s, runtime: r, client: client, lease: l, checks: v.checks, caches: v.caches,
		tokenCheck: &tokenCheck{settings: s, runtime: r, checks: v.checks, jwks: keys},
		onRemember: v.poller.start, begin: v.begin,
	})
	v.exchanged = &exchangedTokens{
		url: s.url + tokenPath, runtime: r, client: client, lease: l, checks: v.checks,
		cache: newCache(l, s.maxEntries), slots: newSlots(s.maxQuestions, r),
		onRemember: v.poller.start, begin: v.begin,
	}
	v.events = &eventReader{settings: s, runtime: r, client: client, checks: v.checks, consumer: rand.Text()}
	if s.outageGrace > 0 {
		s.logger.Warn("verifier_outage_grace", "detail", fmt.Sprintf("While the authentication service is unreachable, "+
			"a revoked credential may be accepted for up to %v.", s.outageGrace))
	}
	v.poller.start()
	return v
}

// begin reports whether work may still be started; done ends it.
func (v *Verifier) begin() (ctx context.Context, done func(), ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ctx.Err() != nil {
		return nil, nil, false
	}
	v.work.Add(1)
	return v.ctx, v.work.Done, true
}

func (v *Verifier) spawn(work func(context.Context)) {
	ctx, done, ok := v.begin()
	if !ok {
		return
	}
	go func() {
		defer done()
		defer func() {
			if recovered := recover(); recovered != nil {
				v.checks.unexpected.report(recovered)
			}
		}()
		work(ctx)
	}()
}

// Close stops the polls, closes the connections, and waits until no goroutine of the verifier is left, or the context
// has ended. Afterwards every verification is ErrUnavailable.
func (v *Verifier) Close(ctx context.Context) error {
	v.mu.Lock()
	v.cancel()
	v.mu.Unlock()
	// Not under the lock, which a poll takes while it renews the lease; and not left to the end of the context, which
	// closes the lease in the background.
	v.lease.close()
	finished := make(chan struct{})
	go func() {
		v.work.Wait()
		close(finished)
	}()
	select {
	case <-finished:
		v.runtime.close()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// String leaves out what is secret.
func (v *Verifier) String() string {
	return fmt.Sprintf("Verifier{%s as %s}", v.settings.url, v.settings.serviceName)
}

// GoString leaves out what is secret.
func (v *Verifier) GoString() string { return v.String() }

// MarshalText leaves out what is secret.
func (v *Verifier) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// VerifyApp verifies the key of a calling service: X-Platform-App-Id and X-Platform-App-Key. The error of this and the other
// verifications is an *Error, and is ErrRefused or ErrUnavailable; WriteError answers it.
func (v *Verifier) VerifyApp(ctx context.Context, headers Headers, given ...Demand) (App, error) {
	found, err := v.verify(ctx, DoorApp, headers, toDemands(given))
	app, _ := found.(App)
	return app, err
}

// VerifyNode verifies the key of a node: X-API-Key.
func (v *Verifier) VerifyNode(ctx context.Context, headers Headers) (Node, error) {
	found, err := v.verify(ctx, DoorNode, headers, demands{})
	node, _ := found.(Node)
	return node, err
}

// VerifyUser verifies the access token of a user: Authorization: Bearer.
func (v *Verifier) VerifyUser(ctx context.Context, headers Headers, given ...Demand) (User, error) {
	found, err := v.verify(ctx, DoorUser, headers, toDemands(given))
	user, _ := found.(User)
	return user, err
}

// VerifyMember is VerifyUser for a user who lives in this household: otherwise ErrNotMember. The id is compared exactly,
// so the user is not a member of anything but the id as the service writes it.
func (v *Verifier) VerifyMember(ctx context.Context, headers Headers, household string, given ...Demand) (User, error) {
	d := toDemands(given)
	d.household = func() string { return household }
	found, err := v.verify(ctx, DoorUser, headers, d)
	user, _ := found.(User)
	return user, err
}

// WithRemoteAddr tells verifications the address of the caller, of which networks share the questions to the service
// fairly. The guards of this package take it from the request; behind a proxy, set what the proxy knows.
func WithRemoteAddr(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, remoteAddrKey{}, address)
}

type remoteAddrKey struct{}

// verify returns nil as the principal with every error.
func (v *Verifier) verify(ctx context.Context, door Door, headers Headers, d demands) (principal, error) {
	found, err := v.decide(ctx, door, headers, d)
	if err != nil {
		return nil, v.explain(door, headers, err)
	}
	v.count(door, Accepted)
	return found, nil
}

// explain counts what is not accepted, and tells which request it was.
func (v *Verifier) explain(door Door, headers Headers, err error) *Error {
	explained := toError(err)
	explained.RequestID = readRequestID(headers)
	if errors.Is(explained, ErrRefused) {
		v.count(door, Refused)
	} else {
		v.count(door, Unavailable)
	}
	return explained
}

func (v *Verifier) decide(ctx context.Context, door Door, headers Headers, d demands) (principal, error) {
	if err := d.findMisuse(door); err != nil {
		return nil, newUnavailable(err)
	}
	c, err := readCredential(door, headers)
	if err != nil {
		return nil, err
	}
	if remembered, now, ok := v.recall(c); ok && d.canCheck(remembered.principal) {
		if now.since(remembered.sent) >= askAgainAfter {
			v.askAgain(headers, c, remembered, d)
		}
		if err := d.check(remembered.principal); err != nil {
			return nil, err
		}
		if door != DoorUser {
			v.uses.add(remembered.uses.withScope(v.reportedScope(remembered.principal, d)), now)
		}
		return remembered.principal, nil
	}
	asked, err := v.newQuestion(ctx, headers, c, d)
	if err != nil {
		return nil, err
	}
	found, err := v.questions.ask(ctx, asked, false)
	if err != nil {
		return nil, err
	}
	if err := d.check(found.principal); err != nil {
		return nil, err
	}
	// The service has seen the use, but not the scope that the call needed.
	if scope := v.reportedScope(found.principal, d); scope != "" {
		v.uses.add(found.uses.withScope(scope), v.runtime.now())
	}
	return found.principal, nil
}

func (v *Verifier) recall(c credential) (*entry, instant, bool) {
	return v.caches[c.door].recall(c.digest)
}

const askAgainAfter = maxRemember * 3 / 4

// askAgain asks once before a yes may no longer be remembered, so that no request waits for the answer.
func (v *Verifier) askAgain(headers Headers, c credential, remembered *entry, d demands) {
	if !remembered.askAgain.CompareAndSwap(true, false) {
		return
	}
	asked, err := v.newQuestion(context.Background(), headers, c, d)
	if err != nil {
		return
	}
	v.spawn(func(ctx context.Context) { _, _ = v.questions.ask(ctx, asked, false) })
}

// reportedScope returns what the service wants to know: the scope that a restricted key was needed for.
func (v *Verifier) reportedScope(p principal, d demands) string {
	if app, isApp := p.(App); isApp && app.isRestricted && d.scope != nil {
		return *d.scope
	}
	return ""
}
