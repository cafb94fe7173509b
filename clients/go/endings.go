package platformauth

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrEnded is the cause of a context that ended with its credential.
var ErrEnded = errors.New("platformauth: the credential has ended")

// WithCredential returns a context that ends with the presented key, or with the session or the user of the token: for
// connections that outlive their request. Its cause is then ErrEnded. The expiry of an access token does not end its
// session; but once the token has expired, any change of its user or of a pair of its chain, and every reset, ends the
// context: the client connects again with a new token. stop is to be called when the connection ends. The demands are
// those of the route.
func (v *Verifier) WithCredential(
	ctx context.Context, door Door, headers Headers, given ...Demand,
) (_ context.Context, stop func(), err error) {
	return v.withEnding(ctx, door, headers, toDemands(given))
}

// WithMember is WithCredential for a user, and ends also when the user is no longer a member of this household with the
// demanded role.
func (v *Verifier) WithMember(
	ctx context.Context, headers Headers, household string, given ...Demand,
) (_ context.Context, stop func(), err error) {
	d := toDemands(given)
	d.household = func() string { return household }
	return v.withEnding(ctx, DoorUser, headers, d)
}

func (v *Verifier) withEnding(ctx context.Context, door Door, headers Headers, d demands) (context.Context, func(), error) {
	if err := d.findMisuse(door); err != nil {
		return nil, nil, newUnavailable(err)
	}
	c, err := readCredential(door, headers)
	if err != nil {
		return nil, nil, err
	}
	asked, err := v.newQuestion(ctx, headers, c, d)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watched := &connection{
		changes: listChanges(c, asked.token),
		onEnded: func() { cancel(ErrEnded) },
		isLive: func(ctx context.Context) verdict {
			err := v.isLive(ctx, asked, d)
			if errors.Is(err, ErrRefused) {
				return verdictNo
			}
			if err != nil {
				return verdictUnknown
			}
			return verdictYes
		},
	}
	v.watch.add(watched)
	stop := func() {
		v.watch.remove(watched)
		cancel(context.Canceled)
	}
	context.AfterFunc(ctx, func() { v.watch.remove(watched) })
	return ctx, stop, nil
}

func (v *Verifier) isLive(ctx context.Context, asked *question, d demands) error {
	if remembered, _, ok := v.recall(asked.credential); ok && d.canCheck(remembered.principal) {
		return d.check(remembered.principal)
	}
	found, err := v.questions.ask(ctx, asked, true)
	if err != nil {
		return err
	}
	return d.check(found.principal)
}

const (
	// maxChecks bounds those in flight, because a reset makes every connection due.
	maxChecks = 16
	// The pause before the next try, after a question without a verdict.
	minCheckPause    = time.Second
	checkPauseJitter = time.Second
)

// A connection outlives the request that opened it.
type connection struct {
	changes []change
	// isLive returns verdictUnknown when the answer is not a verdict.
	isLive  func(context.Context) verdict
	onEnded func()
	// The fields below are guarded by the lock of the watch.
	isChecking bool
	// isDue: a change came since the last question was sent.
	isDue bool
}

// A watch tells long-lived connections that their credential has ended. Each change is only a reason to ask, because a
// new e-mail address and the rotation of a key are changes too.
type watch struct {
	runtime runtime
	spawn   func(work func(context.Context))

	mu       sync.Mutex
	byChange map[change]map[*connection]struct{}
	waiting  []*connection
	checks   int
}

func newWatch(r runtime, l *lease, spawn func(func(context.Context))) *watch {
	w := &watch{runtime: r, spawn: spawn, byChange: map[change]map[*connection]struct{}{}}
	l.onChange(w.onChange, w.onReset)
	return w
}

// add checks once at the start: the credential may have ended since its request was accepted.
func (w *watch) add(c *connection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, changed := range c.changes {
		if w.byChange[changed] == nil {
			w.byChange[changed] = map[*connection]struct{}{}
		}
		w.byChange[changed][c] = struct{}{}
	}
	w.makeDue(c)
	w.startChecks()
}

func (w *watch) remove(c *connection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, changed := range c.changes {
		delete(w.byChange[changed], c)
		if len(w.byChange[changed]) == 0 {
			delete(w.byChange, changed)
		}
	}
}

func (w *watch) onChange(changed change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.byChange[changed] {
		w.makeDue(c)
	}
	w.startChecks()
}

func (w *watch) onReset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, connections := range w.byChange {
		for c := range connections {
			w.makeDue(c)
		}
	}
	w.startChecks()
}

func (w *watch) makeDue(c *connection) {
	c.isDue = true
	if !c.isChecking {
		c.isChecking = true
		w.waiting = append(w.waiting, c)
	}
}

func (w *watch) startChecks() {
	for w.checks < maxChecks && len(w.waiting) > 0 {
		next := w.waiting[0]
		w.waiting = w.waiting[1:]
		w.checks++
		w.spawn(func(ctx context.Context) {
			w.check(ctx, next)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.checks--
			w.startChecks()
		})
	}
}

func (w *watch) check(ctx context.Context, c *connection) {
	for w.takeDue(ctx, c) {
		switch c.isLive(ctx) {
		case verdictNo:
			w.remove(c)
			c.onEnded()
		case verdictUnknown:
			w.mu.Lock()
			c.isDue = true
			w.mu.Unlock()
			sleep(ctx, w.runtime, minCheckPause+time.Duration(w.runtime.random()*float64(checkPauseJitter)))
		}
	}
}

// takeDue reports whether the connection is still to be asked about.
func (w *watch) takeDue(ctx context.Context, c *connection) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, isWatched := w.byChange[c.changes[0]][c]
	c.isChecking = c.isDue && isWatched && ctx.Err() == nil
	c.isDue = false
	return c.isChecking
}
