//go:build go1.25

package platformauth

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// How the replicas of a recorded world answer polls: by cursors, each an epoch and a snapshot of PostgreSQL.

func (w *world) answerPoll(replica int, r request, respond func(answer)) {
	if !w.hasLease(replica) {
		respond(toPlainAnswer(http.StatusOK, fields{
			"cursor": "", "reset": true, "lease_ms": 0, "fresh_for_ms": 0, "changes": []fields{},
		}))
		return
	}
	since, hasCursor := w.parseCursor(parseObject([]byte(r.body)))
	now := w.readReplica(replica)
	if w.freshFor(replica, now) <= 0 {
		respond(toPlainAnswer(http.StatusServiceUnavailable, fields{}))
		return
	}
	answerFrom := func(head cursor, isReset bool, changes []fields) {
		freshFor := w.freshFor(replica, w.readReplica(replica))
		if freshFor <= 0 {
			respond(toPlainAnswer(http.StatusServiceUnavailable, fields{}))
			return
		}
		if w.mistake == "list truncated" && len(changes) > 1 {
			changes = changes[:1]
		}
		respond(toPlainAnswer(http.StatusOK, fields{
			"cursor": head.text(), "reset": isReset, "lease_ms": w.Leases[replica], "fresh_for_ms": freshFor,
			"changes": changes,
		}))
	}
	if now.head >= 0 {
		head, start := w.cursorOf(now.head), w.cursorOf(now.start)
		switch {
		case !hasCursor || w.mustReset(since, head, now.head):
			answerFrom(head, true, []fields{})
			return
		case start.isNotNewer(since):
			answerFrom(head, false, w.listChanges(since, now.head, w.cursorOf(now.kept)))
			return
		case w.mistake == "reset remembered per connection":
			answerFrom(head, false, []fields{})
			return
		}
	}
	var head cursor
	isReset, changes := false, []fields{}
	read := func(state int) {
		head = w.cursorOf(state)
		isReset = !hasCursor || w.mustReset(since, head, state)
		if !isReset {
			changes = w.listChanges(since, state, since)
		}
	}
	w.query(replica, read, func(ok bool) {
		if !ok {
			respond(answer{})
			return
		}
		answerFrom(head, isReset, changes)
	})
}

// freshFor is by the clock of the replica.
func (w *world) freshFor(replica int, now replicaNow) int {
	left := float64(now.leaseUntil-w.readNow()) * w.Rates[1+replica]
	if w.mistake == "grace handed on" {
		left += float64(w.Grace)
	}
	if now.leaseUntil == 0 {
		return 0
	}
	return int(left)
}

// A cursor is an epoch and a snapshot of PostgreSQL.
type cursor struct {
	epoch      string
	xmin, xmax int
	open       []int
}

func (w *world) cursorOf(state int) cursor {
	s := w.States[state]
	c := cursor{epoch: fmt.Sprintf("%d.%d", s.server, s.crashes), xmin: s.xmax, xmax: s.xmax, open: s.open}
	if len(s.open) > 0 {
		c.xmin = slices.Min(s.open)
	}
	switch w.mistake {
	case "epoch not compared":
		c.epoch = ""
	case "epoch without the crash":
		c.epoch = strconv.Itoa(s.server)
	case "horizon instead of snapshot":
		c.epoch, c.xmax, c.open = "", c.xmin, nil
	case "seq instead of snapshot":
		c.xmax, c.open = w.latestCommitted(state)+1, nil
	}
	return c
}

func (w *world) latestCommitted(state int) int {
	latest := 99
	for _, c := range w.Changes {
		if c.state <= state {
			latest = max(latest, c.xid)
		}
	}
	return latest
}

func (c cursor) text() string {
	text, _ := json.Marshal([]any{c.epoch, c.xmin, c.xmax, c.open})
	return string(text)
}

func (*world) parseCursor(body fields) (cursor, bool) {
	text, isPresent := body["cursor"].(string)
	var c cursor
	err := json.Unmarshal([]byte(text), &[]any{&c.epoch, &c.xmin, &c.xmax, &c.open})
	return c, isPresent && err == nil
}

// mustReset: the cursor is of another epoch, or changes that it does not show were purged.
func (w *world) mustReset(since, head cursor, state int) bool {
	purged := w.States[state].purged
	if w.mistake == "purge unnoticed" {
		purged = 0
	}
	isTooOld := purged >= since.xmax || slices.ContainsFunc(since.open, func(xid int) bool { return purged >= xid })
	// The protocol with a horizon noticed one that went back.
	wentBack := w.mistake == "horizon instead of snapshot" && head.xmin < since.xmin
	return since.epoch != head.epoch || isTooOld || wentBack
}

func (c cursor) isNotNewer(other cursor) bool {
	return c.xmax <= other.xmax && !slices.ContainsFunc(other.open, func(xid int) bool {
		return xid < c.xmax && !slices.Contains(c.open, xid)
	})
}

func (c cursor) shows(xid int) bool { return xid < c.xmax && !slices.Contains(c.open, xid) }

// listChanges returns the changes that the cursor does not show, as far as they are kept.
func (w *world) listChanges(since cursor, state int, kept cursor) []fields {
	changes := []fields{}
	purged := w.States[state].purged
	for _, c := range w.Changes {
		isUnwritten := c.kind == "user" && w.mistake == "user's change not written"
		if c.state <= state && c.xid > purged && !since.shows(c.xid) && !kept.shows(c.xid) && !isUnwritten {
			changes = append(changes, fields{"kind": c.kind, "id": c.id})
		}
	}
	return changes
}
