package platformauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	eventsPath = "/internal/events"
	// An answer with as many events stays far below the size that the transport accepts.
	eventsBatch     = 250
	eventsWait      = 20
	eventsTimeout   = 30 * time.Second
	minEventsPause  = time.Second
	maxEventsPause  = time.Minute
	eventsJitter    = 0.2
	maxEventsAge    = 10 * time.Second
	maxPauseDoubles = 10
)

// ErrNotSubscribed: the map of the platform gives this service no subscription to events.
var ErrNotSubscribed = errors.New("platformauth: no subscription to events")

// An Event is a reason to read the state and does not carry it: the state may have changed again.
type Event struct {
	// ID is the same when the event comes again.
	ID string
	// Type is such as user.deleted.
	Type    string
	Time    time.Time
	Subject Subject
	// Data are ids, names and reasons, as JSON.
	Data json.RawMessage
}

// A Subject is the resource that an event is about.
type Subject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// Events reads what happened, each event at least once and in the order in which it was sealed, until the context ends
// or the verifier is closed. An event is acknowledged when onEvent returns nil, and comes again after an error: after a
// second, doubling to a minute.
//
// onReset is called when events may have been missed, after a restore for example: compare what this service knows of
// users with POST /internal/users/lookup. After an error it is called again, too.
//
// The error is ErrNotSubscribed, or that of the context. One call at a time reads for a process; another process of
// this service stands by.
func (v *Verifier) Events(
	ctx context.Context, onEvent func(context.Context, Event) error, onReset func(context.Context) error,
) error {
	if onEvent == nil || onReset == nil {
		return errors.New("platformauth: Events needs onEvent and onReset: it compares users after a reset")
	}
	closing, done, ok := v.begin()
	if !ok {
		return newUnavailable(nil)
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(closing, cancel)()
	v.events.mu.Lock()
	defer v.events.mu.Unlock()
	v.events.items = nil
	return v.events.read(ctx, onEvent, onReset)
}

// An eventItem is an event, or a reset, whose event is nil.
type eventItem struct {
	cursor string
	event  *Event
}

// An eventReader sends a cursor only when its event, or the comparison after its reset, is done; so what fails comes
// again.
type eventReader struct {
	settings settings
	runtime  runtime
	client   *serviceClient
	checks   *checks
	// consumer is one name for each process, under which its next call of Events goes on at once.
	consumer string

	mu         sync.Mutex
	after      string
	items      []eventItem
	polled     instant
	failures   int
	unanswered int
}

func (e *eventReader) read(
	ctx context.Context, onEvent func(context.Context, Event) error, onReset func(context.Context) error,
) error {
	for ctx.Err() == nil {
		// The service hands the subscription to another process some time after the last poll.
		isHeld := e.runtime.now().since(e.polled) < maxEventsAge
		if len(e.items) == 0 || !isHeld {
			if err := e.poll(ctx); err != nil {
				return err
			}
			continue
		}
		item := e.items[0]
		if err := e.deliver(ctx, item, onEvent, onReset); err != nil {
			e.failures++
			e.items = nil
			e.pause(ctx, computeEventsPause(e.failures))
			continue
		}
		e.items = e.items[1:]
		e.failures = 0
		e.after = item.cursor
	}
	return ctx.Err()
}

func (e *eventReader) deliver(
	ctx context.Context, item eventItem, onEvent func(context.Context, Event) error, onReset func(context.Context) error,
) error {
	if item.event == nil {
		return onReset(ctx)
	}
	return onEvent(ctx, *item.event)
}

func (e *eventReader) poll(ctx context.Context) error {
	sent := e.runtime.now()
	found, err := e.ask(ctx)
	if ctx.Err() != nil {
		return nil
	}
	code, _ := parseObject(found.body)["code"].(string)
	if err == nil && found.status == http.StatusForbidden && code == "not_subscribed" {
		return fmt.Errorf("%w: name the types that it reads in the map of the platform, "+
			"%s: { events: [user.deleted] }, and run platform-auth apply", ErrNotSubscribed, e.settings.serviceName)
	}
	if err == nil && found.status == http.StatusConflict && code == "events_busy" {
		// Another process of this service reads, from the stored position on.
		e.after, e.items = "", nil
		e.pause(ctx, max(minEventsPause, readRetryAfter(found.answer)))
		return nil
	}
	items, hasMore, ok := readEvents(found.answer)
	if err != nil || !ok {
		e.backOff(ctx, found.answer, err)
		return nil
	}
	if e.unanswered > 0 {
		e.settings.logger.Warn("verifier_events_answered_again", "failures", e.unanswered)
	}
	e.unanswered = 0
	e.checks.misconfigurations.clear(eventsPath)
	e.items, e.polled = items, e.runtime.now()
	// The service answers a poll early when it stops, or when the process sends another.
	if isEarly := e.polled.since(sent) < minEventsPause; isEarly && len(items) == 0 && !hasMore {
		e.pause(ctx, minEventsPause)
	}
	return nil
}

func (e *eventReader) ask(ctx context.Context) (_ timedAnswer, err error) {
	defer e.checks.unexpected.recoverAsError(&err)
	// With the key of another service these would be the events of another service.
	if e.checks.serviceName.isWrong.Load() {
		return timedAnswer{}, errOtherService
	}
	body, _ := json.Marshal(struct {
		After       string `json:"after,omitempty"`
		Consumer    string `json:"consumer"`
		Limit       int    `json:"limit"`
		WaitSeconds int    `json:"wait_seconds"`
	}{e.after, e.consumer, eventsBatch, eventsWait})
	return e.client.send(ctx, request{
		method: http.MethodPost, url: e.settings.url + eventsPath, body: string(body),
		headers: map[string]string{"Content-Type": "application/json"}, presentsOwnKey: true,
		line: lineOfEvents, timeout: eventsTimeout,
	}, never)
}

func (e *eventReader) backOff(ctx context.Context, a answer, err error) {
	reason := fmt.Sprintf("status %d", a.status)
	if err != nil {
		reason = err.Error()
	} else if !isUnavailable(a.status) {
		code, _ := parseObject(a.body)["code"].(string)
		e.checks.misconfigurations.report(eventsPath, describe(a, toLoggable(code)))
	}
	if e.unanswered == 0 {
		e.settings.logger.Warn("verifier_events_not_answered", "url", e.settings.url, "reason", reason)
	}
	e.unanswered++
	pause := time.Duration(float64(computeEventsPause(e.unanswered)) * (1 - eventsJitter*e.runtime.random()))
	e.pause(ctx, max(pause, readRetryAfter(a)))
}

func (e *eventReader) pause(ctx context.Context, d time.Duration) { sleep(ctx, e.runtime, d) }

// computeEventsPause is a second, doubling to a minute.
func computeEventsPause(failures int) time.Duration {
	return min(maxEventsPause, minEventsPause<<min(failures-1, maxPauseDoubles))
}

func readRetryAfter(a answer) time.Duration {
	seconds, _ := toWholeNumber(a.headers.Get("Retry-After"))
	return min(maxEventsPause, time.Duration(seconds)*time.Second)
}

// readEvents returns false when this is not an answer with events.
func readEvents(a answer) (items []eventItem, hasMore, ok bool) {
	var body struct {
		Events []struct {
			ID      string
			Type    string
			Time    time.Time
			Subject Subject
			Data    json.RawMessage
			Cursor  string
		}
		More   *bool
		Reset  *bool
		Cursor string
	}
	if a.status != http.StatusOK || json.Unmarshal(a.body, &body) != nil || body.Reset == nil {
		return nil, false, false
	}
	if *body.Reset {
		return []eventItem{{cursor: body.Cursor}}, false, body.Cursor != ""
	}
	if body.More == nil || body.Events == nil {
		return nil, false, false
	}
	for _, found := range body.Events {
		if found.ID == "" || found.Type == "" || found.Cursor == "" || found.Subject.ID == "" {
			return nil, false, false
		}
		event := Event{ID: found.ID, Type: found.Type, Time: found.Time, Subject: found.Subject, Data: found.Data}
		items = append(items, eventItem{cursor: found.Cursor, event: &event})
	}
	return items, *body.More, true
}
