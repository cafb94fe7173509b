package platformauth

import (
	"sync"
	"sync/atomic"
	"time"
)

// An instant is one moment by both clocks, in nanoseconds.
type instant struct {
	// monotonic never jumps, and may stand still while the machine is suspended.
	monotonic int64
	// wall may jump, and advances while the machine is suspended.
	wall int64
}

func (i instant) add(d time.Duration) instant {
	return instant{monotonic: i.monotonic + int64(d), wall: i.wall + int64(d)}
}

// isBefore requires both clocks to agree: the wall clock can only shorten a term.
func (i instant) isBefore(end instant) bool {
	return i.monotonic < end.monotonic && i.wall < end.wall
}

func (i instant) since(earlier instant) time.Duration {
	return time.Duration(i.monotonic - earlier.monotonic)
}

// A change is what polls report: the kind and the id of a resource that has changed, which may end credentials.
type change struct{ kind, id string }

// A ticket shows that no change was reported between a question and the remembering of its answer.
type ticket struct{ version uint64 }

type renewal struct {
	cursor   string
	isReset  bool
	freshFor time.Duration
	changes  []change
}

// A lease is the right to answer from memory. Its term begins when a poll is sent, and a revoking call waits for a
// whole term between its commit and its response. An answered poll evicts what changed before it renews the term.
type lease struct {
	now   func() instant
	grace time.Duration
	// until is when memory becomes unusable; nil before the first renewal.
	until atomic.Pointer[instant]

	// mu makes eviction and remembering atomic.
	mu sync.Mutex
	// isClosed: the verifier is closed, so a poll in flight must not renew the lease.
	isClosed bool
	// withoutGrace is until, without the grace.
	withoutGrace instant
	version      uint64
	cursor       string
	listeners    []func(change)
	resets       []func()
}

// onChange adds what to do at a change and at a reset. Both are called under the lock.
func (l *lease) onChange(evict func(change), evictAll func()) {
	l.listeners = append(l.listeners, evict)
	l.resets = append(l.resets, evictAll)
}

func (l *lease) isHeld() bool {
	until := l.until.Load()
	return until != nil && l.now().isBefore(*until)
}

// takeTicket is to be called before a question is sent.
func (l *lease) takeTicket() ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ticket{version: l.version}
}

// remember calls store unless a change was reported since the ticket.
func (l *lease) remember(t ticket, store func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.version == l.version {
		store()
	}
}

// renew takes over the answer to a poll that was sent at this moment: evictions, cursor and term in this order, in one
// step.
func (l *lease) renew(sent instant, r renewal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed {
		return
	}
	if r.isReset {
		l.version++
		for _, evictAll := range l.resets {
			evictAll()
		}
	}
	for _, c := range r.changes {
		l.evict(c)
	}
	l.cursor = r.cursor
	l.withoutGrace = sent.add(r.freshFor)
	until := l.withoutGrace.add(l.grace)
	l.until.Store(&until)
}

// endGrace is to be called when a poll is refused, which is not an outage. The next renewal brings the grace back.
func (l *lease) endGrace() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := l.withoutGrace; l.until.Load() != nil {
		l.until.Store(&until)
	}
}

// end makes memory unusable until the next renewal.
func (l *lease) end() { l.until.Store(nil) }

// close makes memory unusable for good.
func (l *lease) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isClosed = true
	l.end()
}

func (l *lease) evict(c change) {
	l.version++
	for _, evict := range l.listeners {
		evict(c)
	}
}

func (l *lease) readCursor() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cursor
}
