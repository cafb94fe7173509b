package platformauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// checks are what answers tell about the configuration, and where mistakes are reported.
type checks struct {
	clock             *clockCheck
	serviceName       *nameCheck
	tokenSettings     *tokenSettings
	misconfigurations *misconfigurations
	unexpected        *unexpectedErrors
}

func newChecks(s settings, r runtime) *checks {
	m := &misconfigurations{logger: s.logger, causes: map[string]bool{}}
	return &checks{
		clock:             &clockCheck{now: r.now, misconfigurations: m},
		serviceName:       &nameCheck{name: s.serviceName, runtime: r, misconfigurations: m, compared: make(chan struct{})},
		tokenSettings:     &tokenSettings{runtime: r, misconfigurations: m, doubts: map[tokenVerdict]*doubt{}},
		misconfigurations: m,
		unexpected:        &unexpectedErrors{settings: s, reported: map[string]bool{}},
	}
}

// misconfigurations logs each cause once, until it is gone.
type misconfigurations struct {
	logger *slog.Logger
	mu     sync.Mutex
	causes map[string]bool
}

// report takes a path of the service or a variable as the cause, and what the service answered: a status and a code,
// never a credential.
func (m *misconfigurations) report(cause, detail string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.causes[cause] {
		return
	}
	m.causes[cause] = true
	m.logger.Warn("verifier_misconfigured", "cause", cause, "detail", detail)
}

func (m *misconfigurations) clear(cause string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.causes, cause)
}

const (
	// clockTolerance equals the tolerance of token times, so that a smaller difference changes no verdict.
	clockTolerance = time.Minute
	clockCause     = "clock"
)

// A clockCheck compares the wall clock of this machine with the Date of the service's answers.
type clockCheck struct {
	now               func() instant
	misconfigurations *misconfigurations
	isOff             atomic.Bool
	// compared is when the clocks were last compared; nil before.
	compared atomic.Pointer[instant]
}

// isWrong: what this clock says about the times of a token is not a verdict. After a jump it counts as wrong until the
// next answer.
func (c *clockCheck) isWrong() bool {
	if c.isOff.Load() {
		return true
	}
	compared, now := c.compared.Load(), c.now()
	if compared == nil {
		return false
	}
	jump := time.Duration(now.wall-compared.wall) - now.since(*compared)
	return jump.Abs() > clockTolerance
}

// compare takes the header of an answer that has just arrived; an unreadable one changes nothing.
func (c *clockCheck) compare(date string) {
	known, err := http.ParseTime(date)
	if err != nil {
		return
	}
	now := c.now()
	off := time.Duration(now.wall - known.UnixNano())
	c.compared.Store(&now)
	c.isOff.Store(off.Abs() > clockTolerance)
	if c.isOff.Load() {
		c.misconfigurations.report(clockCause, fmt.Sprintf("differs from the service's by %.0f s", off.Seconds()))
	} else {
		c.misconfigurations.clear(clockCause)
	}
}

const nameCause = "SERVICE_NAME"

// A nameCheck compares the configured name of this service with the one that the authentication service knows it by.
type nameCheck struct {
	name              string
	runtime           runtime
	misconfigurations *misconfigurations
	// isWrong: every verdict would be about another service, so nothing is asked or accepted.
	isWrong atomic.Bool

	compared chan struct{}
	finished sync.Once
}

// compare takes the header of the answer to a poll; nothing when a proxy has dropped it.
func (n *nameCheck) compare(caller string) {
	n.isWrong.Store(caller != "" && caller != n.name)
	if !n.isWrong.Load() {
		n.misconfigurations.clear(nameCause)
		return
	}
	owner := "another service"
	if serviceNameForm.MatchString(caller) {
		owner = caller
	}
	n.misconfigurations.report(nameCause,
		fmt.Sprintf("%s is configured, but AUTH_APP_ID is a key of %s", n.name, owner))
}

// finish ends the wait after the first poll, whether it was answered or not.
func (n *nameCheck) finish() { n.finished.Do(func() { close(n.compared) }) }

// waitUntilCompared: questions wait, because with a wrong name the service would refuse every key.
func (n *nameCheck) waitUntilCompared(ctx context.Context, deadline instant) {
	select {
	case <-n.compared:
		return
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := n.runtime.afterFunc(deadline.since(n.runtime.now()), cancel)
	defer stop()
	select {
	case <-n.compared:
	case <-ctx.Done():
	}
}

const (
	// tokenQuestionPause limits the questions about one setting, so that a flood of forged tokens does not reach the
	// service.
	tokenQuestionPause = 10 * time.Second
	wrongSetting       = "the service accepts a token that does not fit this setting: give it the value of the service, and restart"
)

// tokenSettings tell a forged token from a wrong setting of this verifier: a setting is wrong when the service accepts
// the token.
type tokenSettings struct {
	runtime           runtime
	misconfigurations *misconfigurations

	mu     sync.Mutex
	doubts map[tokenVerdict]*doubt
}

type doubt struct {
	asked    instant
	answered chan struct{}
	// known is false until the service has answered.
	known, isWrong bool
}

// isForged asks the service whether it accepts a token that does not fit the setting. ask returns verdictUnknown when
// the service could not tell; then isForged returns false too.
func (t *tokenSettings) isForged(setting tokenVerdict, ask func() verdict) bool {
	t.mu.Lock()
	now := t.runtime.now()
	d := t.doubts[setting]
	if d == nil {
		d = &doubt{}
		t.doubts[setting] = d
	} else if now.since(d.asked) < tokenQuestionPause {
		answered := d.answered
		isKnown := d.known
		t.mu.Unlock()
		if !isKnown {
			<-answered
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		return d.known && !d.isWrong
	}
	d.asked = now
	d.answered = make(chan struct{})
	answered := d.answered
	t.mu.Unlock()
	// Deferred before the question, because others wait for its answer even when it panics.
	defer close(answered)

	found := ask()

	t.mu.Lock()
	defer t.mu.Unlock()
	switch found {
	case verdictYes:
		d.known, d.isWrong = true, true
		t.misconfigurations.report(string(setting), wrongSetting)
	case verdictNo:
		// A refusal does not prove the setting right, because a forged token is refused in any case.
		d.known = true
		return true
	}
	return d.known && !d.isWrong
}

// confirm is called when the service has accepted a token that fits the settings.
func (t *tokenSettings) confirm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for setting, d := range t.doubts {
		d.known, d.isWrong = true, false
		t.misconfigurations.clear(string(setting))
	}
}

// unexpectedErrors logs panics that no rule foresees, once for each place.
type unexpectedErrors struct {
	settings settings
	mu       sync.Mutex
	reported map[string]bool
}

const (
	maxMessageLength = 200
	// Shorter parts of a credential occur in ordinary words.
	minSecretLength = 6
)

// errUnexpected leaves out the text of a panic, which may contain a credential.
var errUnexpected = errors.New("an unexpected error")

var looksLikeSecret = regexp.MustCompile(`\S*(?:pa_[a-z]+_|eyJ[A-Za-z0-9_-]{5}|[A-Za-z0-9_-]{32})\S*`)

// report takes the value of a panic and the credentials that its text may contain.
func (u *unexpectedErrors) report(recovered any, presented ...string) {
	where := findPlace()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reported[where] {
		return
	}
	u.reported[where] = true
	key, _ := u.settings.ownKey.current()
	secrets := append([]string{key}, append(presented, u.settings.secretsToRedact...)...)
	detail := redact(fmt.Sprint(recovered), secrets)
	u.settings.logger.Warn("verifier_failed", "error", fmt.Sprintf("%T", recovered), "detail", detail, "where", where)
}

// recoverAsError is to be deferred: it reports a panic, and returns it as an error.
func (u *unexpectedErrors) recoverAsError(err *error) {
	if recovered := recover(); recovered != nil {
		u.report(recovered)
		*err = errUnexpected
	}
}

func redact(message string, secrets []string) string {
	for _, secret := range secrets {
		for _, part := range append([]string{secret}, strings.FieldsFunc(secret, isSeparator)...) {
			if len(part) >= minSecretLength {
				message = strings.ReplaceAll(message, part, "[redacted]")
			}
		}
	}
	message = looksLikeSecret.ReplaceAllString(message, "[redacted]")
	return message[:min(len(message), maxMessageLength)]
}

func isSeparator(r rune) bool { return r == ':' || r == '.' || r == ' ' }

// findPlace returns the function that panicked, with its line.
func findPlace() string {
	counters := make([]uintptr, 32)
	frames := goruntime.CallersFrames(counters[:goruntime.Callers(0, counters)])
	for hasPanicked := false; ; {
		frame, hasMore := frames.Next()
		if hasPanicked && !strings.HasPrefix(frame.Function, "runtime.") {
			return fmt.Sprintf("%s:%d", frame.Function, frame.Line)
		}
		hasPanicked = hasPanicked || frame.Function == "runtime.gopanic"
		if !hasMore {
			return "unknown"
		}
	}
}
