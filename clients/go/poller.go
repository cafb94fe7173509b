package platformauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"
)

const (
	pollsPerLease = 3
	// defaultLease is used until the first answer tells the lease.
	defaultLease    = 500 * time.Millisecond
	maxFailurePause = time.Second
	// pollJitter spreads the polls of verifiers that start together.
	pollJitter = 0.2
	// lapsePause limits log lines about lapsed leases, because an overloaded machine loses several a second.
	lapsePause = time.Minute

	changesPath = "/internal/changes"
)

var never = instant{monotonic: math.MaxInt64, wall: math.MaxInt64}

var (
	errOtherService   = errors.New("the key of another service")
	errUnreadablePoll = errors.New("status 400")
)

// A poller keeps the lease by polling for changes, one poll at a time.
type poller struct {
	settings settings
	runtime  runtime
	client   *serviceClient
	lease    *lease
	uses     *uses
	checks   *checks
	// spawn runs work on a goroutine that Close waits for, unless the verifier is closed.
	spawn func(work func(context.Context))

	mu        sync.Mutex
	isPolling bool

	// The fields below belong to the goroutine that polls.
	leaseFor    time.Duration
	failures    int
	hasLease    bool
	lapses      int
	lapseLogged *instant
}

// start starts polling; also again, after the service had no lease to hand on (REVOCATION_LEASE_MS=0).
func (p *poller) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isPolling {
		return
	}
	p.isPolling = true
	p.spawn(p.run)
}

func (p *poller) run(ctx context.Context) {
	for {
		sent := p.runtime.now()
		p.poll(ctx, sent)
		p.checks.serviceName.finish()
		if ctx.Err() != nil {
			return
		}
		if p.leaseFor == 0 {
			p.mu.Lock()
			p.isPolling = false
			p.mu.Unlock()
			return
		}
		sleep(ctx, p.runtime, p.computePause(sent))
	}
}

func (p *poller) poll(ctx context.Context, sent instant) {
	used, putBack := p.uses.take(sent)
	err := p.renew(ctx, used, sent)
	if err == nil {
		if p.failures > 0 {
			p.settings.logger.Warn("verifier_polls_answered_again", "failures", p.failures)
		}
		p.failures = 0
		p.checks.misconfigurations.clear(changesPath)
		return
	}
	if ctx.Err() != nil {
		return
	}
	// What the service could not read would be refused again with each further poll.
	if !errors.Is(err, errUnreadablePoll) {
		putBack()
	}
	if p.failures == 0 {
		p.settings.logger.Warn("verifier_polls_not_answered", "url", p.settings.url, "reason", err.Error())
	}
	p.failures++
}

// renew survives any panic, because the next poll may succeed, and without polls every request becomes a question.
func (p *poller) renew(ctx context.Context, used []reportedUse, sent instant) (err error) {
	defer p.checks.unexpected.recoverAsError(&err)
	renewed, answered, err := p.ask(ctx, used)
	if err != nil {
		return err
	}
	wasHeld := p.lease.isHeld()
	p.lease.renew(answered, *renewed)
	if p.leaseFor == 0 {
		// Without a lease nothing is held, whatever the grace.
		p.lease.end()
	}
	p.reportLapse(wasHeld, sent)
	return nil
}

// ask returns the renewal and the moment from which its term counts.
func (p *poller) ask(ctx context.Context, used []reportedUse) (*renewal, instant, error) {
	body, _ := json.Marshal(struct {
		Cursor string        `json:"cursor,omitempty"`
		Used   []reportedUse `json:"used,omitempty"`
	}{p.lease.readCursor(), used})
	found, err := p.client.send(ctx, request{
		method:         http.MethodPost,
		url:            p.settings.url + changesPath,
		headers:        map[string]string{"Content-Type": "application/json"},
		body:           string(body),
		presentsOwnKey: true,
		line:           lineOfPolls,
	}, never)
	if err != nil {
		return nil, instant{}, err
	}
	p.checks.clock.compare(found.headers.Get("Date"))
	if isOwnKeyRefused(found.answer) {
		p.lease.endGrace()
	}
	leaseFor, renewed, mistake := readPollAnswer(found.answer)
	if mistake != "" {
		p.checks.misconfigurations.report(changesPath, mistake)
	}
	if found.status == http.StatusBadRequest {
		return nil, instant{}, errUnreadablePoll
	}
	if renewed == nil {
		return nil, instant{}, fmt.Errorf("status %d", found.status)
	}
	p.checks.serviceName.compare(found.headers.Get("X-Platform-Caller"))
	if p.checks.serviceName.isWrong.Load() {
		return nil, instant{}, errOtherService
	}
	p.leaseFor = leaseFor
	return renewed, found.sent, nil
}

// reportLapse reports polls that are answered too late: the process or the service is too slow. An outage has log lines
// of its own.
func (p *poller) reportLapse(wasHeld bool, sent instant) {
	hadLease := p.hasLease
	p.hasLease = p.leaseFor > 0
	hasLapsed := (hadLease && !wasHeld) || (p.hasLease && !p.lease.isHeld())
	if p.failures > 0 || !hasLapsed {
		return
	}
	p.lapses++
	now := p.runtime.now()
	if p.lapseLogged != nil && now.since(*p.lapseLogged) < lapsePause {
		return
	}
	p.settings.logger.Warn("verifier_lease_lapsed",
		"lapses", p.lapses, "answer_after_seconds", now.since(sent).Round(time.Millisecond).Seconds())
	p.lapseLogged = &now
	p.lapses = 0
}

func (p *poller) computePause(sent instant) time.Duration {
	interval := float64(p.leaseFor) / pollsPerLease
	jitter := 1 - pollJitter*p.runtime.random()
	if p.failures > 0 {
		const maxDoublings = 10
		doubled := interval * math.Pow(2, float64(min(p.failures-1, maxDoublings)))
		return time.Duration(min(float64(maxFailurePause), doubled) * jitter)
	}
	return max(0, time.Duration(interval*jitter)-p.runtime.now().since(sent))
}
