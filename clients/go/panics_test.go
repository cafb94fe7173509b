//go:build go1.25

package platformauth

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
)

// What a verifier is given, such as an instrumented RoundTripper or a log handler, may panic.

var panics = map[string]any{"fail": "panic"}

func TestAPollThatPanicsIsAPollWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLockedBuffer()
		p := play(t.Context(), t, slog.NewJSONHandler(log, nil), map[string][]any{"changes": {"reset", panics, "quiet"}})
		p.remember()
		p.run(5_000)
		polls := p.service.requests["changes"]
		if len(polls) < 10 {
			t.Fatalf("%d polls", len(polls))
		}
		for i, poll := range polls[:5] {
			_, hasUsed := parseObject([]byte(poll.body))["used"]
			if isExpected := i == 1 || i == 2; hasUsed != isExpected {
				t.Errorf("poll %d: %s", i, poll.body)
			}
		}
		for _, line := range []string{"verifier_failed", "verifier_polls_not_answered", "verifier_polls_answered_again"} {
			if strings.Count(log.String(), line) != 1 {
				t.Errorf("%s is not logged once: %s", line, log.String())
			}
		}
	})
}

func TestAPollForEventsThatPanicsIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := read(t, panics, eventsAnswer("1"), laterAnswer())
		r.simulation.run(2_000)
		expectEqual(t, "seen", r.seen, []string{"1"})
	})
}

// A panickingHandler cannot write a line.
type panickingHandler struct{ slog.Handler }

func (panickingHandler) Enabled(context.Context, slog.Level) bool      { return true }
func (h panickingHandler) WithAttrs([]slog.Attr) slog.Handler          { return h }
func (panickingHandler) Handle(_ context.Context, _ slog.Record) error { panic("planted") }

// An undecidedHandler cannot even tell whether it wants a line.
type undecidedHandler struct{ panickingHandler }

func (undecidedHandler) Enabled(context.Context, slog.Level) bool { panic("planted") }
func (h undecidedHandler) WithAttrs([]slog.Attr) slog.Handler     { return h }

func TestPollsGoOnWhenTheLogHandlerPanics(t *testing.T) {
	panicking := panickingHandler{slog.DiscardHandler}
	for _, handler := range []slog.Handler{panicking, undecidedHandler{panicking}} {
		synctest.Test(t, func(t *testing.T) {
			p := play(t.Context(), t, handler, map[string][]any{"changes": {"reset", "unavailable", panics, "quiet"}})
			p.remember()
			p.run(5_000)
			if polls := len(p.service.requests["changes"]); polls < 10 {
				t.Errorf("%d polls", polls)
			}
		})
	}
}

func TestAQuestionAboutASettingThatPanicsKeepsNoOtherWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t.Context(), t, slog.DiscardHandler, map[string][]any{"validate-user": {panics}})
		for range 2 {
			if err := p.verify(DoorUser, "alice, signed with another secret"); !errors.Is(err, ErrUnavailable) {
				t.Errorf("%v", err)
			}
		}
	})
}
