package platformauth

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	connectTimeout = 500 * time.Millisecond
	maxConnections = 64
	// Ten times the size of a list of 1,000 changes.
	maxAnswerBytes = 1_000_000
)

type request struct {
	method, url string
	headers     map[string]string
	body        string
	// presentsOwnKey: this service's own key is sent with the request.
	presentsOwnKey bool
	// line: polls, and the reading of events, have a connection each.
	line line
	// timeout is that of an attempt; by default attemptTimeout.
	timeout time.Duration
}

type line int

const (
	lineOfQuestions line = iota
	lineOfPolls
	lineOfEvents
)

type answer struct {
	status  int
	headers http.Header
	body    []byte
}

var (
	// errConnection: the connection was refused, or broke before the answer was complete.
	errConnection = errors.New("the connection was refused or broken")
	// errTimeout: no connection, or no answer, in time.
	errTimeout = errors.New("no answer in time")
)

// A transport is HTTP over connections that are kept alive. It follows no redirect, and uses no proxy of the environment:
// both would carry credentials elsewhere.
type transport struct{ lines map[line]http.RoundTripper }

func newTransport(given http.RoundTripper) *transport {
	if given != nil {
		return &transport{lines: map[line]http.RoundTripper{lineOfQuestions: given, lineOfPolls: given, lineOfEvents: given}}
	}
	return &transport{lines: map[line]http.RoundTripper{
		lineOfQuestions: newRoundTripper(maxConnections), lineOfPolls: newRoundTripper(1), lineOfEvents: newRoundTripper(1),
	}}
}

func newRoundTripper(connections int) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout: connectTimeout,
		MaxConnsPerHost:     connections,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     90 * time.Second,
	}
}

func (t *transport) send(ctx context.Context, r request) (answer, error) {
	outgoing, err := http.NewRequestWithContext(ctx, r.method, r.url, strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	for name, value := range r.headers {
		outgoing.Header.Set(name, value)
	}
	response, err := t.lines[r.line].RoundTrip(outgoing)
	if err != nil {
		return answer{}, toConnectionError(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return answer{}, toConnectionError(err)
	}
	// JSON is UTF-8 (RFC 8259 §8.1), and a body that is too long is none of the service's.
	if len(body) > maxAnswerBytes || !utf8.Valid(body) {
		body = nil
	}
	return answer{status: response.StatusCode, headers: response.Header, body: body}, nil
}

func (t *transport) close() {
	for _, roundTripper := range t.lines {
		if idle, ok := roundTripper.(interface{ CloseIdleConnections() }); ok {
			idle.CloseIdleConnections()
		}
	}
}

// toConnectionError leaves out the text of the error, which may contain a credential.
func toConnectionError(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errTimeout
	}
	return errConnection
}

const (
	attemptTimeout   = time.Second
	minRetryPause    = 20 * time.Millisecond
	retryPauseJitter = 80 * time.Millisecond
)

// A timedAnswer has the moment when its attempt was sent, from which its terms count.
type timedAnswer struct {
	answer
	sent instant
}

// A serviceClient sends requests to the authentication service, with bounded waits.
type serviceClient struct {
	runtime runtime
	ownKey  *ownKey
}

// send presents the own key where the request asks for it. After a refusal the key's file is read again, because the
// key may have been rotated. An attempt takes a second at most, and ends at the deadline.
func (c *serviceClient) send(ctx context.Context, r request, deadline instant) (timedAnswer, error) {
	if !r.presentsOwnKey {
		return c.sendOnce(ctx, r, deadline)
	}
	key, version := c.ownKey.current()
	found, err := c.sendOnce(ctx, c.withOwnKey(r, key), deadline)
	if err != nil || !isOwnKeyRefused(found.answer) || !c.ownKey.replaceRefused(version) {
		return found, err
	}
	key, _ = c.ownKey.current()
	return c.sendOnce(ctx, c.withOwnKey(r, key), deadline)
}

func (c *serviceClient) withOwnKey(r request, key string) request {
	headers := map[string]string{appIDHeader: c.ownKey.appID, appKeyHeader: key}
	for name, value := range r.headers {
		headers[name] = value
	}
	r.headers = headers
	return r
}

func (c *serviceClient) sendOnce(ctx context.Context, r request, deadline instant) (timedAnswer, error) {
	sent := c.runtime.now()
	timeout := min(cmp.Or(r.timeout, attemptTimeout), deadline.since(sent))
	if timeout <= 0 {
		return timedAnswer{}, errTimeout
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := c.runtime.afterFunc(timeout, func() { cancel(errTimeout) })
	defer stop()
	found, err := c.runtime.send(ctx, r)
	if cause := context.Cause(ctx); cause != nil {
		return timedAnswer{}, cause
	}
	return timedAnswer{answer: found, sent: sent}, err
}

// sendWithRetry repeats the request once, after a refused or broken connection or a 503, but never after a time-out.
// beforeAttempt is called right before each attempt is sent.
func (c *serviceClient) sendWithRetry(
	ctx context.Context, r request, deadline instant, beforeAttempt func(),
) (timedAnswer, error) {
	beforeAttempt()
	found, err := c.send(ctx, r, deadline)
	if (err != nil && !errors.Is(err, errConnection)) || (err == nil && found.status != http.StatusServiceUnavailable) {
		return found, err
	}
	sleep(ctx, c.runtime, minRetryPause+time.Duration(c.runtime.random()*float64(retryPauseJitter)))
	beforeAttempt()
	return c.send(ctx, r, deadline)
}
