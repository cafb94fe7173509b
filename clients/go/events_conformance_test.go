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

// An eventScenario is one of ../conformance/events.json, whose words are in the README there.
type eventScenario struct {
	Name    string
	Answers []struct {
		Status  int               `json:"status,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
		Body    any               `json:"body,omitempty"`
		Fail    string            `json:"fail,omitempty"`
		Events  *[]string         `json:"events,omitempty"`
		More    bool              `json:"more,omitempty"`
		Reset   string            `json:"reset,omitempty"`
	}
	Fails   map[string]int
	UntilMS int `json:"until_ms"`
	Told    []string
	Polls   []struct {
		At    [2]int
		After string
	}
}

func (s eventScenario) list() []any {
	var list []any
	for _, given := range s.Answers {
		answer := map[string]any{}
		if given.Status != 0 {
			answer["status"] = float64(given.Status)
		}
		if given.Fail != "" {
			answer["fail"] = given.Fail
		}
		headers := map[string]any{}
		for name, value := range given.Headers {
			headers[name] = value
		}
		answer["headers"], answer["body"] = headers, given.Body
		if given.Reset != "" {
			answer["body"] = toEventsBody(nil, false, given.Reset)
		} else if given.Events != nil {
			answer["body"] = toEventsBody(*given.Events, given.More, "")
		}
		list = append(list, answer)
	}
	return append(list, map[string]any{"after_ms": float64(20_000), "body": toEventsBody(nil, false, "")})
}

func toEventsBody(cursors []string, isMore bool, reset string) map[string]any {
	events := []any{}
	for _, cursor := range cursors {
		events = append(events, map[string]any{
			"id": cursor, "type": "user.deleted", "time": "2026-01-01T00:00:00.000Z", "cursor": cursor,
			"subject": map[string]any{"kind": "user", "id": "alice"}, "data": map[string]any{},
		})
	}
	body := map[string]any{"events": events, "more": isMore, "reset": reset != ""}
	if reset != "" {
		body["cursor"] = reset
	}
	return body
}

func TestEventsConformance(t *testing.T) {
	var file struct{ Scenarios []eventScenario }
	readJSON(t, "events.json", &file, nil)
	for _, scenario := range file.Scenarios {
		t.Run(scenario.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { scenario.play(t) })
		})
	}
}

func (s eventScenario) play(t *testing.T) {
	simulation := newSimulation()
	service := newFakeService(simulation, readConformance(t), map[string][]any{"events": s.list()})
	settings, err := toSettings(Config{
		URL: "http://auth.test", AppID: "01985f4e-7c3a-7b52-9d1e-000000000c01", AppKey: "pa_app_test", ServiceName: "recipes",
	}, []Option{WithLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		t.Fatal(err)
	}
	var sentAt []int
	auth := newVerifier(t.Context(), settings, &timedService{fakeService: service, sentAt: &sentAt})
	ctx, cancel := context.WithCancel(t.Context())
	var told []string
	handle := func(name string) error {
		told = append(told, name)
		if s.Fails[name] > 0 {
			s.Fails[name]--
			return errors.New("planted")
		}
		return nil
	}
	go func() {
		_ = auth.Events(ctx,
			func(_ context.Context, event Event) error { return handle(event.ID) },
			func(context.Context) error { return handle("reset") })
	}()
	simulation.run(s.UntilMS)
	cancel()
	_ = auth.Close(context.Background())
	synctest.Wait()
	if !slices.Equal(told, s.Told) {
		t.Errorf("told %v instead of %v", told, s.Told)
	}
	polls := service.requests["events"]
	if len(polls) != len(s.Polls) {
		t.Fatalf("%d polls instead of %d", len(polls), len(s.Polls))
	}
	for i, expected := range s.Polls {
		after, _ := parseObject([]byte(polls[i].body))["after"].(string)
		if after != expected.After || sentAt[i] < expected.At[0] || sentAt[i] > expected.At[1] {
			t.Errorf("poll %d: after %q at %d instead of %q within %v", i, after, sentAt[i], expected.After, expected.At)
		}
	}
}

// A timedService notes when polls for events were sent.
type timedService struct {
	*fakeService
	sentAt *[]int
}

func (s *timedService) send(ctx context.Context, r request) (answer, error) {
	if routesOfService[r.method+" "+r.url] == "events" {
		*s.sentAt = append(*s.sentAt, s.readNow())
	}
	return s.fakeService.send(ctx, r)
}
