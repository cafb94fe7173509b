//go:build go1.25

package platformauth

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The replicas of a recorded world, which answer from their recorded states, by the rules S1 to S8.

// A mistake of a service.
type mistake string

const (
	none mistake = ""
	// refusesNothing is not a mistake, and belongs to each: a refusal evicts what is remembered, which no rule demands and
	// which would hide most mistakes. The service answers 503 in its place.
	refusesNothing mistake = "refuses nothing"
)

var mistakesOfServices = []mistake{
	"no wait",
	"repeated revocation does not wait",
	"horizon instead of snapshot",
	"seq instead of snapshot",
	"epoch not compared",
	"epoch without the crash",
	"purge unnoticed",
	"lease of the replica from the answer",
	"grace handed on",
	"verdict from a replica's memory",
	"reset remembered per connection",
	"list truncated",
	"log pruned without raising its start",
	"user's change not written",
	"scopes as signed",
	"expiry of a pair unnoticed",
	"nothing announced without a lease",
}

const (
	// statementTimeoutMS is that of a replica's statement.
	statementTimeoutMS = 600
	// unleasedPromiseMS is how long an answer of a replica without a lease may be used.
	unleasedPromiseMS = 500
)

func (w *world) send(ctx context.Context, r request) (answer, error) {
	answered := make(chan answer, 1)
	network := w.network
	// A connection without an answer is one that the replica broke.
	respond := func(a answer) {
		w.after(network.backMS, func() {
			if !w.isCut {
				// While the process is paused, the answer waits for it.
				w.at(event{due: w.readNow(), work: func() { answered <- a }})
			}
		})
	}
	w.after(network.outMS, func() {
		if w.isCut {
			return
		}
		replica := w.route
		w.whenAwake(replica, func() { w.handle(replica, r, respond) })
	})
	select {
	case found := <-answered:
		if found.status == 0 {
			return answer{}, errConnection
		}
		return found, nil
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

func (w *world) after(ms int, work func()) {
	w.at(event{due: w.readNow() + ms, isOutside: true, work: work})
}

// A replicaNow is a replica at this moment.
type replicaNow struct {
	replicaState
	// kept is the state since which the log has every change.
	kept int
	// renewedAt is when it applied its last lease.
	renewedAt int
}

func (w *world) readReplica(replica int) replicaNow {
	found := replicaNow{replicaState: replicaState{head: -1, start: -1}, kept: -1}
	for _, state := range w.Replicas {
		if state.replica != replica || state.at > w.readNow() {
			continue
		}
		start := state.start
		isPruned := start != found.kept && state.head == found.head
		if isPruned && w.mistake == "log pruned without raising its start" {
			start = found.start
		} else if start == found.kept {
			start = found.start
		}
		renewedAt := found.renewedAt
		if state.leaseUntil != found.leaseUntil {
			renewedAt = state.at
		}
		kept := state.start
		found = replicaNow{replicaState: state, kept: kept, renewedAt: renewedAt}
		found.start = start
	}
	if w.mistake == "lease of the replica from the answer" && found.leaseUntil > 0 {
		found.leaseUntil = found.renewedAt + w.Leases[replica]
	}
	return found
}

// whenAwake waits until the replica is not paused.
func (w *world) whenAwake(replica int, work func()) {
	if !w.readReplica(replica).isPaused() {
		work()
		return
	}
	for _, state := range w.Replicas {
		if state.replica == replica && state.at > w.readNow() && !state.isPaused() {
			w.after(state.at-w.readNow(), work)
			return
		}
	}
}

// query runs a statement in PostgreSQL: read sees the state while it runs, and done is called afterwards.
func (w *world) query(replica int, read func(state int), done func(ok bool)) {
	isDone := false
	finish := func(ok bool) {
		w.whenAwake(replica, func() {
			if !isDone {
				isDone = true
				done(ok)
			}
		})
	}
	network := w.network
	w.after(statementTimeoutMS, func() { finish(false) })
	w.after(network.outMS, func() {
		if w.readReplica(replica).isCut() {
			return
		}
		read(w.readState())
		w.after(network.backMS, func() {
			if !w.readReplica(replica).isCut() {
				finish(true)
			}
		})
	})
}

func (w *world) handle(replica int, r request, respond func(answer)) {
	switch strings.TrimPrefix(r.url, "http://auth.test") {
	case changesPath:
		w.answerPoll(replica, r, respond)
	case tokenPath:
		w.answerExchange(replica, r, respond)
	default:
		w.answerQuestion(replica, r, respond)
	}
}

func (w *world) answerQuestion(replica int, r request, respond func(answer)) {
	now := w.readReplica(replica)
	couldPromise := w.mayPromise(replica)
	presented, isKnown := w.findPresented(replica, r)
	var rights []string
	var body fields
	isLive := false
	read := func(state int) {
		rights, body = w.describe(replica, state, presented)
		isLive = isKnown && w.areLive(state, rights)
	}
	done := func(ok bool) {
		if !ok {
			respond(answer{})
			return
		}
		if !isLive && w.mistake != none {
			respond(toPlainAnswer(http.StatusServiceUnavailable, fields{}))
			return
		}
		if !isLive {
			code := "invalid_access_token"
			if strings.HasSuffix(r.url, nodePath) {
				code = "invalid_node_credentials"
			}
			respond(toPlainAnswer(http.StatusUnauthorized, fields{"code": code}))
			return
		}
		respond(w.promise(replica, couldPromise, rights, body))
	}
	if w.mistake == "verdict from a replica's memory" && now.head >= 0 && w.readNow() < now.leaseUntil {
		read(now.head)
		done(true)
		return
	}
	w.query(replica, read, done)
}

func (w *world) promise(replica int, couldPromise bool, rights []string, body fields) answer {
	freshFor, remember := 0, "no"
	if couldPromise && w.mayPromise(replica) {
		freshFor = unleasedPromiseMS
		if w.hasLease(replica) {
			freshFor, remember = w.Leases[replica], "yes"
		}
	}
	if w.mistake == "expiry of a pair unnoticed" {
		rights = rights[:1]
	}
	found := toPlainAnswer(http.StatusOK, body)
	found.headers.Set("X-Platform-Remember", remember)
	found.headers.Set("X-Platform-Expires-In", strconv.Itoa(w.secondsLeft(rights...)))
	found.headers.Set("X-Platform-Fresh-For-Ms", strconv.Itoa(freshFor))
	return found
}

func (w *world) hasLease(replica int) bool { return w.Leases[replica] > 0 }

// mayPromise: revoking calls wait for what this replica promises.
func (w *world) mayPromise(replica int) bool {
	isUnannounced := w.mistake == "nothing announced without a lease" && !w.hasLease(replica)
	return isUnannounced || w.readNow() < w.readReplica(replica).announcedUntil
}

// findPresented returns the credential of a question: a node has no user's token.
func (w *world) findPresented(replica int, r request) (passedToken, bool) {
	if key, isNode := r.headers[nodeKeyHeader]; isNode {
		id, _, _ := strings.Cut(key, ":")
		return passedToken{session: id}, slices.Contains(credentialsOfWorlds, id)
	}
	token, _ := parseToken(strings.TrimPrefix(r.headers[tokenHeader], "Bearer "))
	isUnderstood := token.chain == nil || (w.Older != replica && r.headers["X-Platform-Target"] == "recipes")
	return passedToken{token.sessionID, token.chain}, isUnderstood
}

// describe returns what has to be live, and the body that says so.
func (w *world) describe(replica, state int, presented passedToken) ([]string, fields) {
	id := presented.session
	if strings.HasPrefix(id, "node") {
		return []string{id}, fields{"valid": true, "node_id": id, "household_id": "home"}
	}
	body := fields{"valid": true, "user_id": userOfWorlds, "session_id": id}
	if presented.chain != nil {
		scopes := []string{"read"}
		if !w.hasEnded(state, scopeOfCaller) || w.mistake == "scopes as signed" {
			scopes = append(scopes, "write")
		}
		maps.Copy(body, fields{"caller": presented.chain[0].Service, "scopes": scopes, "act": presented.act()})
		return presented.rights(), body
	}
	body["email"] = "a@example.org"
	if w.Older != replica {
		body["households"] = w.listMemberships(state)
	}
	return []string{id}, body
}

func (w *world) listMemberships(state int) []fields {
	switch {
	case w.hasEnded(state, placeOfUser):
		return []fields{}
	case w.hasEnded(state, roleOfUser):
		return []fields{{"id": homeOfWorlds, "role": "member"}}
	default:
		return []fields{{"id": homeOfWorlds, "role": "admin"}}
	}
}

func (w *world) answerExchange(replica int, r request, respond func(answer)) {
	form, _ := url.ParseQuery(r.body)
	token, _ := parseToken(form.Get("subject_token"))
	subject := passedToken{token.sessionID, token.chain}
	isLive := false
	w.query(replica, func(state int) { isLive = w.areLive(state, subject.rights()) }, func(ok bool) {
		switch {
		case !ok:
			respond(answer{})
		case !isLive:
			respond(toPlainAnswer(http.StatusBadRequest, fields{"code": "invalid_subject_token"}))
		default:
			issued := passedToken{subject.session, slices.Concat([]Link{ownLinkOfWorlds}, subject.chain)}
			respond(toPlainAnswer(http.StatusOK, fields{"access_token": issued.text(), "expires_in": 300}))
		}
	})
}

func toPlainAnswer(status int, body fields) answer {
	text, _ := json.Marshal(body)
	return answer{status: status, headers: http.Header{"Content-Type": {"application/json"}}, body: text}
}
