package platformauth

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// The most uses that the service accepts in one poll.
	maxUsesPerPoll = 500
	maxAgo         = time.Hour
	// maxPendingUses bounds the memory while the service is unreachable.
	maxPendingUses = 200_000
	// useResolution spares a busy key a write that all cores share.
	useResolution = int64(time.Millisecond)
)

// A use is when a key was last used in one way. The service does not see the uses that memory answered, so polls report
// them.
type use struct {
	kind, id, scope string
	isPrevious      bool
	// at is by the monotonic clock.
	at        atomic.Int64
	isPending atomic.Bool
}

// usesOfKey are the uses of one remembered key: without a scope, and with each scope that a route needed.
type usesOfKey struct {
	plain   *use
	byScope sync.Map
}

func newUsesOfKey(kind, id string, isPrevious bool) *usesOfKey {
	return &usesOfKey{plain: &use{kind: kind, id: id, isPrevious: isPrevious}}
}

func (u *usesOfKey) withScope(scope string) *use {
	if scope == "" {
		return u.plain
	}
	known, ok := u.byScope.Load(scope)
	if !ok {
		fresh := &use{kind: u.plain.kind, id: u.plain.id, isPrevious: u.plain.isPrevious, scope: scope}
		known, _ = u.byScope.LoadOrStore(scope, fresh)
	}
	return known.(*use)
}

// uses are those that the next poll reports.
type uses struct {
	mu      sync.Mutex
	pending []*use
}

func (u *uses) add(used *use, at instant) {
	if at.monotonic-used.at.Load() >= useResolution || used.at.Load() == 0 {
		used.at.Store(at.monotonic)
	}
	if used.isPending.Load() || !used.isPending.CompareAndSwap(false, true) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.pending) < maxPendingUses {
		u.pending = append(u.pending, used)
	} else {
		used.isPending.Store(false)
	}
}

type reportedUse struct {
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	AgoMS    int64  `json:"ago_ms"`
	Scope    string `json:"scope,omitempty"`
	Previous bool   `json:"previous,omitempty"`
}

// take takes out the uses that fit into one poll. putBack adds them again, after a poll that was not answered.
func (u *uses) take(now instant) (taken []reportedUse, putBack func()) {
	u.mu.Lock()
	count := min(len(u.pending), maxUsesPerPoll)
	batch := u.pending[:count:count]
	u.pending = u.pending[count:]
	u.mu.Unlock()
	for _, used := range batch {
		// Before the time is read: a use that comes in between is reported once more, rather than not at all.
		used.isPending.Store(false)
		ago := time.Duration(now.monotonic - used.at.Load())
		taken = append(taken, reportedUse{
			Kind: used.kind, ID: used.id, Scope: used.scope, Previous: used.isPrevious,
			AgoMS: min(max(ago, 0), maxAgo).Milliseconds(),
		})
	}
	return taken, func() {
		for _, used := range batch {
			u.add(used, instant{monotonic: used.at.Load()})
		}
	}
}
