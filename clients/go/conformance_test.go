//go:build go1.25

package platformauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// patienceMS: a scenario fails when its verdict is still unknown this long after the last step.
const patienceMS = 10_000

func TestConformance(t *testing.T) {
	c := readConformance(t)
	for _, file := range c.scenarios {
		for _, scenario := range file.Scenarios {
			t.Run(file.Rule+"/"+scenario.Name, func(t *testing.T) {
				keyFile := filepath.Join(t.TempDir(), "auth-app-key")
				synctest.Test(t, func(t *testing.T) { newRun(t, c, scenario, keyFile).run() })
			})
		}
	}
}

func TestRestrictionsAreJudgedAsByTheService(t *testing.T) {
	var restrictions struct {
		Apps []struct {
			Scopes   *[]string
			Asked    *string
			Accepted bool
		}
		Nodes any
	}
	readJSON(t, "restrictions.json", &restrictions, nil)
	for _, given := range restrictions.Apps {
		if given.Asked == nil {
			continue
		}
		app := App{}
		if given.Scopes != nil {
			app.scopes, app.isRestricted = *given.Scopes, true
		}
		if app.HasScope(*given.Asked) != given.Accepted {
			t.Errorf("%v with %q: accepted is not %v", given.Scopes, *given.Asked, given.Accepted)
		}
	}
}

// A run plays one scenario.
type run struct {
	t          *testing.T
	c          *conformance
	scenario   scenario
	simulation *simulation
	service    *fakeService
	verifier   *Verifier
	keyFile    string
	log        *lockedBuffer
	texts      []string
	pending    atomic.Int64
}

func newRun(t *testing.T, c *conformance, s scenario, keyFile string) *run {
	simulation := newSimulation()
	r := &run{
		t: t, c: c, scenario: s, simulation: simulation, keyFile: keyFile, log: newLockedBuffer(),
		service: newFakeService(simulation, c, s.Service),
	}
	given := s.Verifier
	config := Config{
		URL: "http://auth.test", AppID: c.Names["own_app_id"], AppKey: c.Names["own_app_key"], ServiceName: "recipes",
		SecretKey: c.Names["secret_key"], SecretKeyPrevious: given.SecretKeyPrevious, Issuer: given.Issuer,
		Audience: given.Audience, OutageGrace: time.Duration(given.OutageGraceSeconds) * time.Second,
	}
	if given.SecretKey != nil {
		config.SecretKey = ""
		if err := json.Unmarshal(given.SecretKey, &config.SecretKey); err != nil {
			t.Fatal(err)
		}
	}
	if given.JWKSURL != nil {
		config.JWKSURL = *given.JWKSURL
	}
	if given.KeyFile != nil {
		r.writeKeyFile(*given.KeyFile)
		config.AppKey, config.AppKeyFile = "", keyFile
	}
	options := []Option{WithLogger(slog.New(slog.NewJSONHandler(r.log, nil))), WithMaxEntries(64)}
	if given.MaxQuestions > 0 {
		options = append(options, WithMaxQuestions(given.MaxQuestions))
	}
	settings, err := toSettings(config, options)
	if err != nil {
		t.Fatal(err)
	}
	r.verifier = newVerifier(t.Context(), settings, r.service)
	return r
}

func (r *run) run() {
	for _, s := range r.scenario.Steps {
		r.simulation.at(event{due: s.At, isOutside: s.Present == nil, work: func() { r.take(s) }})
	}
	last := r.scenario.Steps[len(r.scenario.Steps)-1].At
	r.simulation.run(last)
	if r.pending.Load() > 0 {
		r.simulation.run(last + patienceMS)
	}
	if r.pending.Load() > 0 {
		r.t.Errorf("%d verdicts are not known", r.pending.Load())
	}
	if len(r.service.unexpected) > 0 {
		r.t.Errorf("unexpected: %v", r.service.unexpected)
	}
	r.texts = append(r.texts, r.log.String(), fmt.Sprintf("%v %+v %#v", r.verifier, r.verifier, r.verifier))
	printed, _ := json.Marshal(r.verifier)
	r.texts = append(r.texts, string(printed))
	for _, secret := range r.c.secrets() {
		for _, text := range r.texts {
			if strings.Contains(text, secret) {
				r.t.Errorf("a secret was printed: %s", text)
			}
		}
	}
	if err := r.verifier.Close(r.t.Context()); err != nil {
		r.t.Errorf("close: %v", err)
	}
	synctest.Wait()
}

func (r *run) take(s step) {
	if s.Present != nil {
		r.pending.Add(1)
		go r.present(s)
	}
	for path, list := range s.Service {
		r.service.lists[path] = list
	}
	if s.KeyFile != nil {
		var text *string
		if err := json.Unmarshal(s.KeyFile, &text); err != nil {
			r.t.Fatal(err)
		}
		if err := os.Remove(r.keyFile); err != nil {
			r.t.Fatal(err)
		}
		if text != nil {
			r.writeKeyFile(*text)
		}
	}
	r.simulation.jumpedMS.Add(int64(s.WallJumpMS))
	if s.PauseMS > 0 {
		r.simulation.stop(s.PauseMS)
	}
	if s.SuspendMS > 0 {
		r.simulation.suspend(s.SuspendMS)
	}
	r.checkRequests(s)
	r.checkLog(s)
}

func (r *run) writeKeyFile(text string) {
	if err := os.WriteFile(r.keyFile, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *run) present(s step) {
	found, err := r.verify(s)
	knownAt := r.simulation.readNow()
	defer r.simulation.lock()()
	r.pending.Add(-1)
	expected := toExpectation(s.Expect)
	verdict := "accepted"
	switch {
	case errors.Is(err, ErrRefused):
		verdict = "refused"
	case err != nil:
		verdict = "unavailable"
	}
	if verdict != expected.Verdict {
		r.fail(s, "%s instead of %s: %v", verdict, expected.Verdict, err)
	}
	if expected.By > 0 && knownAt > expected.By {
		r.fail(s, "known at %d, not by %d", knownAt, expected.By)
	}
	if knownAt < expected.NotBefore {
		r.fail(s, "known at %d", knownAt)
	}
	for name, value := range expected.Principal {
		if field := toNeutral(found)[name]; !reflect.DeepEqual(field, value) {
			r.fail(s, "principal.%s: %v instead of %v", name, field, value)
		}
	}
	if err != nil {
		r.checkResponse(s, err, expected)
	}
}

func (r *run) verify(s step) (principal, error) {
	var presented credentialData
	if name, isName := s.Present.(string); isName {
		presented = r.c.Credentials[name]
	} else {
		text, _ := json.Marshal(s.Present)
		if err := json.Unmarshal(text, &presented); err != nil {
			r.t.Error(err)
		}
	}
	headers := http.Header{}
	for _, pair := range slices.Concat(presented.Headers, s.With) {
		headers.Add(pair[0], pair[1])
	}
	ctx := context.Background()
	switch {
	case s.TokenFor != nil:
		token, err := r.verifier.TokenFor(ctx, headers, s.TokenFor.Target, s.TokenFor.Scope)
		return fields{"token": token}, err
	case s.Member != nil:
		// What is not a text is nobody's household: this verifier takes nothing else.
		household, _ := s.Member.Household.(string)
		return toPrincipal(r.verifier.VerifyMember(ctx, headers, household, Demand{role: s.Member.Role}))
	case presented.Door == DoorApp:
		return toPrincipal(r.verifier.VerifyApp(ctx, headers))
	case presented.Door == DoorNode:
		return toPrincipal(r.verifier.VerifyNode(ctx, headers))
	default:
		return toPrincipal(r.verifier.VerifyUser(ctx, headers, toDelegatedDemands(s)...))
	}
}

func toDelegatedDemands(s step) []Demand {
	if s.Demands == nil {
		return nil
	}
	demands := []Demand{AcceptDelegated()}
	if s.Demands.Delegated == "only" {
		demands = []Demand{OnlyDelegated()}
	}
	if s.Demands.Scope != "" {
		demands = append(demands, Scope(s.Demands.Scope))
	}
	return demands
}

func toPrincipal[P any](found P, err error) (principal, error) { return found, err }

func (r *run) fail(s step, format string, arguments ...any) {
	r.t.Errorf(describeStep(s)+": "+format, arguments...)
}

// A lockedBuffer takes log lines of any goroutine. Its lock is a channel, on which synctest can wait.
type lockedBuffer struct {
	mu     chan struct{}
	buffer bytes.Buffer
}

func newLockedBuffer() *lockedBuffer { return &lockedBuffer{mu: make(chan struct{}, 1)} }

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu <- struct{}{}
	defer func() { <-b.mu }()
	return b.buffer.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu <- struct{}{}
	defer func() { <-b.mu }()
	return b.buffer.String()
}
