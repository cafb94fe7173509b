package platformauth

import (
	"context"
	"math/rand/v2"
	"time"
)

// A runtime is time, chance and the network, which the conformance suite simulates.
type runtime interface {
	now() instant
	// afterFunc calls back after a time by the monotonic clock, on a goroutine of its own. stop prevents the call.
	afterFunc(d time.Duration, work func()) (stop func())
	// random is at least 0 and below 1, for jitter.
	random() float64
	// send returns when the answer is complete or the context has ended.
	send(ctx context.Context, r request) (answer, error)
	close()
}

type systemRuntime struct {
	started time.Time
	*transport
}

func newSystemRuntime(o options) *systemRuntime {
	return &systemRuntime{started: time.Now(), transport: newTransport(o.transport)}
}

// now reads both clocks at once: a time.Time has the readings of both, and differences are of the monotonic one.
func (s *systemRuntime) now() instant {
	now := time.Now()
	return instant{monotonic: int64(now.Sub(s.started)), wall: now.UnixNano()}
}

func (*systemRuntime) afterFunc(d time.Duration, work func()) func() {
	timer := time.AfterFunc(d, work)
	return func() { timer.Stop() }
}

func (*systemRuntime) random() float64 { return rand.Float64() }

// sleep returns early when the context ends.
func sleep(ctx context.Context, r runtime, d time.Duration) {
	woken := make(chan struct{})
	stop := r.afterFunc(d, func() { close(woken) })
	defer stop()
	select {
	case <-woken:
	case <-ctx.Done():
	}
}
