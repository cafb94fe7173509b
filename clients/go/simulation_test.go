//go:build go1.25

package platformauth

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// jitterSeed makes a run repeatable. JITTER_SEED chooses other jitter.
var jitterSeed = readJitterSeed()

func readJitterSeed() uint64 {
	text, isGiven := os.LookupEnv("JITTER_SEED")
	if !isGiven {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic("JITTER_SEED: " + err.Error())
	}
	return seed
}

// startWall is 2026-01-01T00:00:00Z in milliseconds.
const startWall = 1_767_225_600_000

type event struct {
	due int
	// isMonotonic: due by the monotonic clock, and not by true time.
	isMonotonic bool
	// isOutside: it happens outside of the process, so that a pause does not delay it.
	isOutside bool
	order     int
	work      func()
}

// A simulation is true time, the clocks of one process, and everything that falls due, in milliseconds. Its runner works
// only while every goroutine of the process waits.
type simulation struct {
	// Read by every goroutine of the process.
	nowMS, suspendedMS, jumpedMS atomic.Int64

	stoppedUntilMS int
	// rate is that of the process's clocks.
	rate float64

	mu     chan struct{}
	events map[*event]struct{}
	orders int
}

func newSimulation() *simulation {
	return &simulation{rate: 1, mu: make(chan struct{}, 1), events: map[*event]struct{}{}}
}

func (s *simulation) lock() func() {
	s.mu <- struct{}{}
	return func() { <-s.mu }
}

// at returns a function that cancels it.
func (s *simulation) at(e event) (cancel func()) {
	defer s.lock()()
	s.orders++
	e.order = s.orders
	s.events[&e] = struct{}{}
	return func() {
		defer s.lock()()
		delete(s.events, &e)
	}
}

// stop pauses the process, while its clocks go on.
func (s *simulation) stop(ms int) { s.stoppedUntilMS = s.readNow() + ms }

func (s *simulation) readNow() int { return int(s.nowMS.Load()) }

// suspend pauses the machine, and with it the monotonic clock.
func (s *simulation) suspend(ms int) {
	s.stop(ms)
	s.suspendedMS.Add(int64(ms))
}

func (s *simulation) run(untilMS int) {
	synctest.Wait()
	for next := s.takeNext(untilMS); next != nil; next = s.takeNext(untilMS) {
		s.nowMS.Store(int64(max(s.readNow(), s.trueTime(next))))
		next.work()
		synctest.Wait()
	}
	s.nowMS.Store(int64(max(s.readNow(), untilMS)))
}

func (s *simulation) takeNext(untilMS int) *event {
	defer s.lock()()
	var next *event
	for e := range s.events {
		if next == nil || s.isBefore(e, next) {
			next = e
		}
	}
	if next == nil || s.trueTime(next) > untilMS {
		return nil
	}
	delete(s.events, next)
	return next
}

func (s *simulation) isBefore(one, other *event) bool {
	if s.trueTime(one) != s.trueTime(other) {
		return s.trueTime(one) < s.trueTime(other)
	}
	if one.due != other.due {
		return one.due < other.due
	}
	return one.order < other.order
}

func (s *simulation) trueTime(e *event) int {
	due := e.due
	if e.isMonotonic {
		due += int(s.suspendedMS.Load())
	}
	if e.isOutside {
		return due
	}
	return max(due, s.stoppedUntilMS)
}

// The simulation is the clocks and the timers of a runtime; the fake service is its network.

func (s *simulation) now() instant {
	now := s.nowMS.Load()
	passed := func(ms int64) int64 { return int64(float64(ms*int64(time.Millisecond)) * s.rate) }
	return instant{
		monotonic: passed(now - s.suspendedMS.Load()),
		wall:      passed(now) + (startWall+s.jumpedMS.Load())*int64(time.Millisecond),
	}
}

func (s *simulation) afterFunc(d time.Duration, work func()) func() {
	due := s.readNow() - int(s.suspendedMS.Load()) + int(math.Ceil(float64(d)/float64(time.Millisecond)/s.rate))
	return s.at(event{due: due, isMonotonic: true, work: work})
}

// random depends on the moment and the seed, and not on which goroutine asks first.
func (s *simulation) random() float64 {
	return rand.New(rand.NewPCG(jitterSeed, uint64(s.nowMS.Load()))).Float64()
}

func (*simulation) close() {}

// A fakeService answers as a scenario says.
type fakeService struct {
	*simulation
	conformance *conformance

	lists      map[string][]any
	requests   map[string][]request
	unexpected []string
}

var routesOfService = map[string]string{
	"POST http://auth.test/internal/changes":       "changes",
	"POST http://auth.test/internal/validate-app":  "validate-app",
	"POST http://auth.test/internal/validate-node": "validate-node",
	"POST http://auth.test/internal/validate-user": "validate-user",
	"POST http://auth.test/internal/token":         "token",
	"POST http://auth.test/internal/events":        "events",
	"GET http://auth.test/.well-known/jwks.json":   "jwks",
}

func newFakeService(s *simulation, c *conformance, lists map[string][]any) *fakeService {
	service := &fakeService{simulation: s, conformance: c, requests: map[string][]request{}, lists: map[string][]any{
		"changes": {"reset", "quiet"}, "validate-app": {"app_yes"}, "validate-node": {"node_yes"},
		"validate-user": {"alice_yes"}, "jwks": {"jwks"}, "token": {"ocr_token"},
	}}
	maps.Copy(service.lists, lists)
	return service
}

func (f *fakeService) send(ctx context.Context, r request) (answer, error) {
	answered := make(chan func() (answer, error), 1)
	if !f.receive(r, func(give func() (answer, error)) { answered <- give }) {
		return answer{}, errConnection
	}
	select {
	case give := <-answered:
		return give()
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

func (f *fakeService) receive(r request, deliver func(func() (answer, error))) bool {
	unlock := f.lock()
	path, isKnown := routesOfService[r.method+" "+r.url]
	if !isKnown {
		f.unexpected = append(f.unexpected, r.method+" "+r.url)
		unlock()
		return false
	}
	f.requests[path] = append(f.requests[path], r)
	given := f.lists[path][0]
	if len(f.lists[path]) > 1 {
		f.lists[path] = f.lists[path][1:]
	}
	unlock()
	chosen := f.conformance.resolve(given)
	failure, _ := chosen["fail"].(string)
	if failure == "silence" {
		return true
	}
	delay := 1
	if after, ok := chosen["after_ms"].(float64); ok {
		delay = int(after)
	}
	if failure == "connect_timeout" {
		delay = int(connectTimeout / time.Millisecond)
	}
	f.at(event{due: f.readNow() + delay, work: func() {
		deliver(func() (answer, error) {
			switch failure {
			case "":
				return toAnswer(chosen), nil
			case "connect_timeout":
				return answer{}, errTimeout
			case "panic":
				panic("planted")
			default:
				return answer{}, errConnection
			}
		})
	}})
	return true
}

func toAnswer(given fields) answer {
	found := answer{status: http.StatusOK, headers: http.Header{"Content-Type": {"application/json"}}}
	if status, ok := given["status"].(float64); ok {
		found.status = int(status)
	}
	headers, _ := given["headers"].(map[string]any)
	for name, value := range headers {
		if text, isText := value.(string); isText {
			found.headers.Set(name, text)
		} else {
			found.headers.Del(name)
		}
	}
	if text, isText := given["text"].(string); isText {
		found.body = []byte(text)
	} else {
		found.body, _ = json.Marshal(given["body"])
	}
	return found
}
