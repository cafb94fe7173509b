//go:build go1.25

package platformauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The worlds of ../conformance/worlds.jsonl, played against a verifier: no verifier accepts what has ended when the call
// that ended it has answered. They have no verdicts, because those depend on when the verifier polls.

const (
	// minAcceptedPerWorld: otherwise the worlds prove nothing.
	minAcceptedPerWorld = 5
	// minWorldsPerMistake: a mistake that one world finds is found by chance.
	minWorldsPerMistake = 2
)

func TestWorlds(t *testing.T) {
	accepted := int64(0)
	worlds := readWorlds(t)
	for _, recorded := range worlds {
		for _, service := range []mistake{none, refusesNothing} {
			w := playWorld(t, recorded, service)
			accepted += w.accepted.Load()
			if len(w.violations) > 0 {
				t.Fatalf("the promise is broken: %s: %v", recorded.World, w.violations)
			}
		}
	}
	if accepted < int64(len(worlds)*minAcceptedPerWorld) {
		t.Errorf("only %d acceptances in %d worlds", accepted, len(worlds))
	}
}

func TestWorldsFindTheMistakesOfAService(t *testing.T) {
	worlds := readWorlds(t)
	for _, m := range mistakesOfServices {
		t.Run(string(m), func(t *testing.T) {
			found := 0
			for _, recorded := range worlds {
				if len(playWorld(t, recorded, m).violations) > 0 {
					found++
				}
				if found == minWorldsPerMistake {
					return
				}
			}
			t.Errorf("found by %d worlds", found)
		})
	}
}

// A world plays one recorded world against one verifier.
type world struct {
	*simulation
	recordedWorld
	mistake  mistake
	verifier *Verifier
	rights   map[string]right

	route   int
	isCut   bool
	network struct{ outMS, backMS int }

	accepted   atomic.Int64
	violations []string
}

func playWorld(t *testing.T, recorded recordedWorld, m mistake) *world {
	w := &world{recordedWorld: recorded, mistake: m, rights: map[string]right{}}
	for _, r := range recorded.Rights {
		w.rights[r.id] = r
	}
	synctest.Test(t, func(t *testing.T) {
		w.simulation = newSimulation()
		w.simulation.rate = recorded.Rates[0]
		w.network.outMS, w.network.backMS = 5, 5
		config := Config{
			URL: "http://auth.test", AppID: "01985f4e-7c3a-7b52-9d1e-000000000c01", AppKey: "pa_app_own",
			ServiceName: "recipes",
		}
		settings, err := toSettings(config, []Option{WithLogger(slog.New(slog.DiscardHandler)), WithMaxEntries(64)})
		if err != nil {
			t.Fatal(err)
		}
		w.verifier = newVerifier(t.Context(), settings, w)
		for _, s := range recorded.Steps {
			w.at(event{due: s.at, isOutside: true, work: func() { w.take(s) }})
		}
		w.run(recorded.End)
		if err := w.verifier.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		synctest.Wait()
	})
	return w
}

func (w *world) take(s worldStep) {
	w.network.outMS, w.network.backMS = s.outMS, s.backMS
	switch s.act {
	case "route":
		w.route = s.on
	case "cut":
		w.isCut = s.on == 1
	case "pause":
		w.stop(s.on)
	case "suspend":
		w.suspend(s.on)
	case "jump":
		w.jumpedMS.Add(int64(s.on))
	case "standstill":
		w.nowMS.Add(int64(s.on))
	default:
		// While the process is paused, a request waits for it.
		w.at(event{due: s.at, work: func() { go w.present(s) }})
	}
}

func (w *world) present(s worldStep) {
	ctx := context.Background()
	isMore := s.argument == 1
	session := passedToken{session: credentialsOfWorlds[2+s.on%2]}
	delegated := delegatedOfWorlds[s.on%2]
	switch s.act {
	case "present":
		id := credentialsOfWorlds[s.on]
		if session := (passedToken{session: id}); s.on == 2 || s.on == 3 {
			_, err := w.verifier.VerifyUser(ctx, session.headers())
			w.judge(err, id)
			return
		}
		_, err := w.verifier.VerifyNode(ctx, http.Header{nodeKeyHeader: {id + ":key"}})
		w.judge(err, id)
	case "present member":
		demanded, rights := []Demand{}, []string{session.session, placeOfUser}
		if isMore {
			demanded, rights[1] = append(demanded, AsAdmin()), roleOfUser
		}
		_, err := w.verifier.VerifyMember(ctx, session.headers(), homeOfWorlds, demanded...)
		w.judge(err, rights...)
	case "present delegated":
		demanded, rights := []Demand{AcceptDelegated()}, delegated.rights()
		if isMore {
			demanded, rights = append(demanded, Scope("write")), append(rights, scopeOfCaller)
		}
		_, err := w.verifier.VerifyUser(ctx, delegated.headers(), demanded...)
		w.judge(err, rights...)
	case "call onward":
		passed := session
		if isMore {
			passed = delegated
		}
		text, err := w.verifier.TokenFor(ctx, passed.headers(), "ocr", "")
		if err == nil {
			err = w.verifyAtThird(text)
		}
		w.judge(err, passed.rights()...)
	}
}

// verifyAtThird: the third service asks at once whether the token is valid.
func (w *world) verifyAtThird(text string) error {
	token, _ := parseToken(text)
	if w.areLive(w.readState(), passedToken{token.sessionID, token.chain}.rights()) {
		return nil
	}
	return errors.New("not valid at the third service")
}

// judge takes what had to hold so that the verifier may accept.
func (w *world) judge(err error, rights ...string) {
	now := w.readNow()
	defer w.lock()()
	if err == nil {
		w.accepted.Add(1)
		for _, id := range rights {
			if dead := w.deadSince(id); dead >= 0 && now >= dead {
				w.violations = append(w.violations, fmt.Sprintf("%s accepted at %d, dead since %d", id, now, dead))
			}
		}
	}
	// A replica that does not know delegation refuses such tokens.
	isOlder := w.Older >= 0 && len(rights) > 2
	if errors.Is(err, ErrRefused) && !isOlder && w.areLive(w.readState(), rights) {
		w.violations = append(w.violations, fmt.Sprintf("%v refused at %d: %v", rights, now, err))
	}
}

func (w *world) deadSince(id string) int {
	ended, isKnown := w.rights[id]
	switch {
	case !isKnown:
		return -1
	case w.mistake == "no wait":
		return ended.deadUnwaited
	case w.mistake == "repeated revocation does not wait":
		return ended.deadUnwaitedRepeats
	case w.mistake == "nothing announced without a lease":
		return ended.deadUnannounced
	default:
		return ended.dead
	}
}

// readState returns the number of the state that a statement sees now.
func (w *world) readState() int {
	now := w.readNow()
	found := 0
	for i, state := range w.States {
		if state.at <= now {
			found = i
		}
	}
	return found
}

func (w *world) areLive(state int, rights []string) bool {
	return !slices.ContainsFunc(rights, func(id string) bool { return w.hasEnded(state, id) })
}

func (w *world) hasEnded(state int, id string) bool {
	ended, isKnown := w.rights[id]
	return isKnown && ((ended.endedIn >= 0 && ended.endedIn <= state) ||
		(ended.expiresAt >= 0 && w.readNow() >= ended.expiresAt))
}

// secondsLeft is in whole seconds, rounded down.
func (w *world) secondsLeft(rights ...string) int {
	left := maxRemember
	for _, id := range rights {
		if ended, isKnown := w.rights[id]; isKnown && ended.expiresAt >= 0 {
			left = min(left, time.Duration(ended.expiresAt-w.readNow())*time.Millisecond)
		}
	}
	return max(0, int(left/time.Second))
}
