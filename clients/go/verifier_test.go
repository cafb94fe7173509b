//go:build go1.25

package platformauth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A played is a verifier with a grace of a minute, before a service that answers as told.
type played struct {
	*simulation
	t       *testing.T
	c       *conformance
	service *fakeService
	auth    *Verifier
}

func play(ctx context.Context, t *testing.T, handler slog.Handler, lists map[string][]any) *played {
	t.Helper()
	p := &played{simulation: newSimulation(), t: t, c: readConformance(t)}
	p.service = newFakeService(p.simulation, p.c, lists)
	settings, err := toSettings(Config{
		URL: "http://auth.test", AppID: p.c.Names["own_app_id"], AppKey: p.c.Names["own_app_key"], ServiceName: "recipes",
		SecretKey: p.c.Names["secret_key"], OutageGrace: time.Minute,
	}, []Option{WithLogger(slog.New(handler))})
	if err != nil {
		t.Fatal(err)
	}
	p.auth = newVerifier(ctx, settings, p.service)
	t.Cleanup(func() { _ = p.auth.Close(context.Background()) })
	return p
}

// verify gives the service 10 ms to answer.
func (p *played) verify(door Door, credential string) error {
	headers := http.Header{}
	for _, pair := range p.c.Credentials[credential].Headers {
		headers.Add(pair[0], pair[1])
	}
	verified := make(chan error, 1)
	go func() {
		_, err := p.auth.verify(p.t.Context(), door, headers, demands{})
		verified <- err
	}()
	p.run(p.readNow() + 10)
	return <-verified
}

// remember lets the verifier accept a node from memory.
func (p *played) remember() {
	p.run(50)
	for range 2 {
		if err := p.verify(DoorNode, "node"); err != nil {
			p.t.Fatal(err)
		}
	}
	if asked := len(p.service.requests["validate-node"]); asked != 1 {
		p.t.Fatalf("asked %d times", asked)
	}
}

func (p *played) expectUnavailable(when string) {
	p.t.Helper()
	if err := p.verify(DoorNode, "node"); !errors.Is(err, ErrUnavailable) {
		p.t.Errorf("%s: %v", when, err)
	}
}

// A slowHandler waits before it writes the line of a wrong setting.
type slowHandler struct {
	slog.Handler
	isReached, goOn chan struct{}
}

func (h slowHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h slowHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }

func (h slowHandler) Handle(_ context.Context, record slog.Record) error {
	if record.Message == "verifier_misconfigured" {
		close(h.isReached)
		<-h.goOn
	}
	return nil
}

func TestAClosedVerifierAcceptsNothingAlsoWhenAPollIsAnsweredAtThatMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := slowHandler{Handler: slog.DiscardHandler, isReached: make(chan struct{}), goOn: make(chan struct{})}
		ofAnotherTime := map[string]any{"Date": "Thu, 01 Jan 2026 12:00:00 GMT"}
		p := play(t.Context(), t, handler, map[string][]any{
			"changes": {"reset", map[string]any{"like": "quiet", "headers": ofAnotherTime}},
		})
		p.remember()
		p.run(400)
		// The answer has arrived, and the poll reads it.
		<-handler.isReached
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.auth.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("close: %v", err)
		}
		p.expectUnavailable("before the poll has ended")
		close(handler.goOn)
		synctest.Wait()
		p.expectUnavailable("after the poll has ended")
	})
}

func TestAVerifierWhoseContextHasEndedAcceptsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := play(ctx, t, slog.DiscardHandler, nil)
		p.remember()
		cancel()
		synctest.Wait()
		p.expectUnavailable("after the end of the context")
	})
}

func TestAPollThatTheServiceCannotReadReportsItsUsesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unreadable := map[string]any{"status": 400.0, "body": map[string]any{"code": "validation_failed"}}
		p := play(t.Context(), t, slog.DiscardHandler, map[string][]any{"changes": {"reset", unreadable, "quiet"}})
		p.remember()
		p.run(5_000)
		for i, poll := range p.service.requests["changes"][:5] {
			_, hasUsed := parseObject([]byte(poll.body))["used"]
			if hasUsed != (i == 1) {
				t.Errorf("poll %d: %s", i, poll.body)
			}
		}
	})
}
