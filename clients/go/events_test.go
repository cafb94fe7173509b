//go:build go1.25

package platformauth

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
)

// A reading is a call of Events before a service that answers as told.
type reading struct {
	simulation *simulation
	service    *fakeService
	seen       []string
	failing    map[string]int
	resets     int
	ended      error
	cancel     context.CancelFunc
}

func read(t *testing.T, answers ...any) *reading {
	t.Helper()
	simulation := newSimulation()
	service := newFakeService(simulation, readConformance(t), map[string][]any{"events": answers})
	settings, err := toSettings(Config{
		URL: "http://auth.test", AppID: "01985f4e-7c3a-7b52-9d1e-000000000c01", AppKey: "pa_app_test", ServiceName: "recipes",
	}, []Option{WithLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		t.Fatal(err)
	}
	auth := newVerifier(t.Context(), settings, service)
	ctx, cancel := context.WithCancel(t.Context())
	r := &reading{simulation: simulation, service: service, failing: map[string]int{}, cancel: cancel}
	go func() {
		r.ended = auth.Events(ctx, func(_ context.Context, event Event) error {
			r.seen = append(r.seen, event.ID)
			if r.failing[event.ID] > 0 {
				r.failing[event.ID]--
				return errors.New("planted")
			}
			return nil
		}, func(context.Context) error { r.resets++; return nil })
	}()
	t.Cleanup(func() { _ = auth.Close(context.Background()) })
	return r
}

// cursors are those of the polls that were sent, in their order.
func (r *reading) cursors() []string {
	var sent []string
	for _, poll := range r.service.requests["events"] {
		cursor, _ := parseObject([]byte(poll.body))["after"].(string)
		sent = append(sent, cursor)
	}
	return sent
}

func eventsAnswer(ids ...string) map[string]any {
	events := []any{}
	for _, id := range ids {
		events = append(events, map[string]any{
			"id": id, "type": "user.deleted", "time": "2026-01-01T00:00:00.000Z", "cursor": "cursor-" + id,
			"subject": map[string]any{"kind": "user", "id": "01985f4e-7c3a-7b52-9d1e-000000000e01"}, "data": map[string]any{},
		})
	}
	return map[string]any{"body": map[string]any{"events": events, "more": false, "reset": false}}
}

func problemAnswer(status int, code string) map[string]any {
	return map[string]any{"status": float64(status), "body": map[string]any{"code": code}}
}

// laterAnswer is that of a service that waits for something to happen.
func laterAnswer() map[string]any {
	later := eventsAnswer()
	later["after_ms"] = float64(20_000)
	return later
}

func expectEqual(t *testing.T, what string, found, want []string) {
	t.Helper()
	if !slices.Equal(found, want) {
		t.Errorf("%s: %v instead of %v", what, found, want)
	}
}

func TestEventsAreAcknowledgedWhenTheyAreDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := read(t, eventsAnswer("1", "2"), laterAnswer())
		r.simulation.run(100)
		expectEqual(t, "seen", r.seen, []string{"1", "2"})
		expectEqual(t, "cursors", r.cursors(), []string{"", "cursor-2"})
	})
}

func TestAnEventThatFailsComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := read(t, eventsAnswer("1", "2"), eventsAnswer("2"), eventsAnswer("2"), laterAnswer())
		r.failing["2"] = 2
		r.simulation.run(900)
		expectEqual(t, "seen", r.seen, []string{"1", "2"})
		r.simulation.run(2_500)
		expectEqual(t, "seen", r.seen, []string{"1", "2", "2"})
		r.simulation.run(4_000)
		expectEqual(t, "seen", r.seen, []string{"1", "2", "2", "2"})
		expectEqual(t, "cursors", r.cursors(), []string{"", "cursor-1", "cursor-1", "cursor-2"})
	})
}

func TestAResetIsToldBeforeItsCursorIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset := map[string]any{"body": map[string]any{
			"events": []any{}, "more": false, "reset": true, "cursor": "cursor-r",
		}}
		r := read(t, reset, eventsAnswer("3"), laterAnswer())
		r.simulation.run(100)
		if r.resets != 1 {
			t.Errorf("%d resets", r.resets)
		}
		expectEqual(t, "cursors", r.cursors(), []string{"", "cursor-r", "cursor-3"})
	})
}

func TestAnotherProcessStandsByAtTheStoredPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := problemAnswer(409, "events_busy")
		busy["headers"] = map[string]any{"Retry-After": "7"}
		r := read(t, eventsAnswer("1"), busy, eventsAnswer("2"), laterAnswer())
		r.simulation.run(6_900)
		expectEqual(t, "cursors", r.cursors(), []string{"", "cursor-1"})
		r.simulation.run(7_100)
		expectEqual(t, "cursors", r.cursors(), []string{"", "cursor-1", "", "cursor-2"})
	})
}

func TestAnOutageIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := read(t, "unavailable", "refused_connection", eventsAnswer("1"), laterAnswer())
		r.simulation.run(20_000)
		expectEqual(t, "seen", r.seen, []string{"1"})
	})
}

func TestAServiceWithoutASubscriptionIsAMistake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := read(t, problemAnswer(403, "not_subscribed"))
		r.simulation.run(100)
		if !errors.Is(r.ended, ErrNotSubscribed) {
			t.Errorf("%v", r.ended)
		}
	})
}

func TestReadingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := read(t, laterAnswer())
		r.simulation.run(100)
		r.cancel()
		r.simulation.run(200)
		if !errors.Is(r.ended, context.Canceled) {
			t.Errorf("%v", r.ended)
		}
	})
}
