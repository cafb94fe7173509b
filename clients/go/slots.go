package platformauth

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// maxRunningQuestions equals the connections of the transport.
	maxRunningQuestions = maxConnections
	// One of this many slots is reserved for credentials that were valid recently.
	reservedShare = 4
	maxSlotWait   = time.Second
)

// A priority decides which question is sent next.
type priority struct {
	// wasValid: the credential was valid recently, which an attacker has few of.
	wasValid bool
	// network is that of the caller. Callers without an address share one.
	network string
}

type waiter struct {
	priority
	admitted chan bool
}

// slots bound the questions of one door. Credentials that were valid recently go first; the others are served round
// robin by network, and a full queue drops the newest question of the longest one. So a client that sends random keys
// delays and drops its own.
type slots struct {
	runtime                       runtime
	limit                         int
	maxRunning, maxRunningUnknown int

	mu                      sync.Mutex
	running, runningUnknown int
	waiting                 int
	valid                   []*waiter
	unknown                 map[string][]*waiter
	// networks are those of unknown, in the order in which they are served (round robin).
	networks []string
}

// newSlots bounds the questions that are sent or wait, together.
func newSlots(limit int, r runtime) *slots {
	running := min(limit, maxRunningQuestions)
	return &slots{
		runtime: r, limit: limit, maxRunning: running, maxRunningUnknown: running - running/reservedShare,
		unknown: map[string][]*waiter{},
	}
}

// enter waits for a slot, and reports whether the question may be sent; then leave is to be called.
func (s *slots) enter(ctx context.Context, p priority) bool {
	s.mu.Lock()
	if s.hasSlot(p.wasValid) {
		s.count(p, 1)
		s.mu.Unlock()
		return true
	}
	if s.running+s.waiting >= s.limit && !s.displaceFor(p) {
		s.mu.Unlock()
		return false
	}
	waiting := &waiter{priority: p, admitted: make(chan bool, 1)}
	s.enqueue(waiting)
	s.mu.Unlock()
	drop := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(waiting)
	}
	stopTimer := s.runtime.afterFunc(maxSlotWait, drop)
	defer stopTimer()
	defer context.AfterFunc(ctx, drop)()
	return <-waiting.admitted
}

func (s *slots) leave(p priority) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(p, -1)
	for next := s.takeNext(); next != nil; next = s.takeNext() {
		s.count(next.priority, 1)
		next.admitted <- true
	}
}

func (s *slots) hasSlot(wasValid bool) bool {
	return s.running < s.maxRunning && (wasValid || s.runningUnknown < s.maxRunningUnknown)
}

func (s *slots) count(p priority, change int) {
	s.running += change
	if !p.wasValid {
		s.runningUnknown += change
	}
}

func (s *slots) enqueue(w *waiter) {
	s.waiting++
	if w.wasValid {
		s.valid = append(s.valid, w)
		return
	}
	if len(s.unknown[w.network]) == 0 {
		s.networks = append(s.networks, w.network)
	}
	s.unknown[w.network] = append(s.unknown[w.network], w)
}

func (s *slots) takeNext() *waiter {
	if len(s.valid) > 0 && s.hasSlot(true) {
		next := s.valid[0]
		s.dequeue(next)
		return next
	}
	if len(s.networks) == 0 || !s.hasSlot(false) {
		return nil
	}
	network := s.networks[0]
	next := s.unknown[network][0]
	s.dequeue(next)
	if len(s.unknown[network]) > 0 {
		s.networks = append(s.networks[1:], network)
	}
	return next
}

// displaceFor makes room by dropping the newest question of the network that has the most.
func (s *slots) displaceFor(p priority) bool {
	var largest []*waiter
	for _, network := range s.networks {
		if queue := s.unknown[network]; len(queue) > len(largest) {
			largest = queue
		}
	}
	own := len(s.unknown[p.network])
	if len(largest) == 0 || (!p.wasValid && len(largest) <= own+1) {
		return false
	}
	s.drop(largest[len(largest)-1])
	return true
}

func (s *slots) drop(w *waiter) {
	if s.dequeue(w) {
		w.admitted <- false
	}
}

// dequeue reports whether the question was still waiting.
func (s *slots) dequeue(w *waiter) bool {
	queue := s.valid
	if !w.wasValid {
		queue = s.unknown[w.network]
	}
	i := slices.Index(queue, w)
	if i < 0 {
		return false
	}
	queue = slices.Delete(queue, i, i+1)
	s.waiting--
	switch {
	case w.wasValid:
		s.valid = queue
	case len(queue) > 0:
		s.unknown[w.network] = queue
	default:
		delete(s.unknown, w.network)
		s.networks = slices.DeleteFunc(s.networks, func(network string) bool { return network == w.network })
	}
	return true
}
