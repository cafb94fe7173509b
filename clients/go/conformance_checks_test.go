//go:build go1.25

package platformauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// What a step of a scenario expects: of a response, of the requests to the service, and of the log.

func (r *run) checkResponse(s step, err error, expected expectation) {
	var explained *Error
	if !errors.As(err, &explained) {
		r.fail(s, "not an *Error: %v", err)
		return
	}
	recorder := httptest.NewRecorder()
	WriteError(recorder, err)
	r.texts = append(r.texts, fmt.Sprintf("%v %+v %#v", err, err, err), recorder.Body.String())
	if expected.Verdict == "unavailable" {
		expected.Status, expected.Code = http.StatusServiceUnavailable, "unavailable"
	} else if expected.Status == 0 {
		expected.Status = http.StatusUnauthorized
	}
	header := recorder.Header()
	if recorder.Code != expected.Status || explained.Status != expected.Status {
		r.fail(s, "status %d instead of %d", recorder.Code, expected.Status)
	}
	code := parseObject(recorder.Body.Bytes())["code"]
	if code != explained.Code || (expected.Code != "" && code != expected.Code) {
		r.fail(s, "code %v instead of %s", code, expected.Code)
	}
	if header.Get("Content-Type") != "application/problem+json" {
		r.fail(s, "content type %s", header.Get("Content-Type"))
	}
	if recorder.Code == http.StatusUnauthorized && header.Get("WWW-Authenticate") == "" {
		r.fail(s, "no WWW-Authenticate")
	}
	if recorder.Code == http.StatusServiceUnavailable && header.Get("Retry-After") == "" {
		r.fail(s, "no Retry-After")
	}
}

func (r *run) checkRequests(s step) {
	for path, count := range s.Asked {
		if sent := len(r.service.requests[path]); !matches(sent, count) {
			r.fail(s, "asked %s %d times instead of %v", path, sent, count)
		}
	}
	if s.Reported != nil {
		times := 0
		for _, poll := range r.service.requests["changes"] {
			if slices.ContainsFunc(readUsed(poll), func(used fields) bool {
				return used["kind"] == s.Reported.Kind && used["id"] == s.Reported.ID
			}) {
				times++
			}
		}
		if times != s.Reported.Times {
			r.fail(s, "reported %d times instead of %d", times, s.Reported.Times)
		}
	}
	if s.Last != nil {
		r.checkLast(s)
	}
}

func (r *run) checkLast(s step) {
	sent := r.service.requests[s.Last.Path]
	if len(sent) == 0 {
		r.fail(s, "no request to %s", s.Last.Path)
		return
	}
	last := sent[len(sent)-1]
	headers := http.Header{}
	for name, value := range last.headers {
		headers.Set(name, value)
	}
	for name, value := range s.Last.Headers {
		if headers.Get(name) != value {
			r.fail(s, "%s: %q instead of %q", name, headers.Get(name), value)
		}
	}
	for _, name := range s.Last.WithoutHeaders {
		if headers.Get(name) != "" {
			r.fail(s, "has the header %s", name)
		}
	}
	body := readBody(last)
	for name, value := range s.Last.Body {
		if !reflect.DeepEqual(body[name], value) {
			r.fail(s, "%s: %v instead of %v", name, body[name], value)
		}
	}
	for _, name := range s.Last.WithoutBodyFields {
		if _, isPresent := body[name]; isPresent {
			r.fail(s, "has the field %s", name)
		}
	}
	if s.Last.Used != nil {
		r.checkUsed(s, readUsed(last))
	}
}

func (r *run) checkUsed(s step, used []fields) {
	if len(used) != len(s.Last.Used) {
		r.fail(s, "%d uses instead of %d", len(used), len(s.Last.Used))
	}
	for _, expected := range s.Last.Used {
		isFound := slices.ContainsFunc(used, func(found fields) bool {
			return found["kind"] == expected["kind"] && found["id"] == expected["id"] &&
				found["previous"] == expected["previous"] &&
				matches(int(found["ago_ms"].(float64)), expected["ago_ms"])
		})
		if !isFound {
			r.fail(s, "used %v instead of %v", used, expected)
		}
	}
}

func readBody(r request) fields {
	if r.headers["Content-Type"] != "application/x-www-form-urlencoded" {
		return parseObject([]byte(r.body))
	}
	form, _ := url.ParseQuery(r.body)
	body := fields{}
	for name := range form {
		body[name] = form.Get(name)
	}
	return body
}

func readUsed(r request) []fields {
	var used []fields
	list, _ := parseObject([]byte(r.body))["used"].([]any)
	for _, element := range list {
		used = append(used, element.(map[string]any))
	}
	return used
}

func (r *run) checkLog(s step) {
	logged := map[string]int{}
	causes := []string{}
	for line := range strings.Lines(r.log.String()) {
		entry := parseObject([]byte(line))
		logged[entry["msg"].(string)]++
		if entry["msg"] == "verifier_misconfigured" {
			causes = append(causes, entry["cause"].(string))
		}
	}
	for name, times := range s.Logged {
		if logged[name] != times {
			r.fail(s, "logged %s %d times instead of %d", name, logged[name], times)
		}
	}
	if s.Causes != nil && !slices.Equal(causes, s.Causes) {
		r.fail(s, "causes %v instead of %v", causes, s.Causes)
	}
}

func toExpectation(given any) expectation {
	if verdict, isVerdict := given.(string); isVerdict {
		return expectation{Verdict: verdict}
	}
	var expected expectation
	text, _ := json.Marshal(given)
	if err := json.Unmarshal(text, &expected); err != nil {
		panic(err)
	}
	return expected
}

// toNeutral gives the fields of a principal the names of the suite.
func toNeutral(found principal) fields {
	neutral := fields{}
	switch p := found.(type) {
	case App:
		neutral = fields{"door": "app", "app_id": p.ID, "caller": p.Caller, "target": p.Target}
		if scopes, isRestricted := p.Scopes(); isRestricted {
			neutral["scopes"] = scopes
		}
	case Node:
		neutral = fields{"door": "node", "node_id": p.ID, "household_id": p.HouseholdID}
	case fields:
		return p
	case User:
		neutral = fields{
			"door": "user", "user_id": p.ID, "session_id": p.SessionID, "email": p.Email,
			"amr": append([]string{}, p.AMR()...), "caller": nil,
		}
		if delegation, isDelegated := p.Delegation(); isDelegated {
			neutral["caller"], neutral["scopes"] = delegation.Caller(), delegation.Scopes()
			chain := []fields{}
			for _, link := range delegation.Chain() {
				chain = append(chain, fields{"service": link.Service, "app_id": link.AppID})
			}
			neutral["chain"] = chain
		}
		if households, isKnown := p.Households(); isKnown {
			list := []fields{}
			for _, membership := range households {
				list = append(list, fields{"id": membership.HouseholdID, "role": membership.Role})
			}
			neutral["households"] = list
		}
	}
	var plain fields
	text, _ := json.Marshal(neutral)
	_ = json.Unmarshal(text, &plain)
	return plain
}
