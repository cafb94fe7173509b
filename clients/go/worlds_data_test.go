//go:build go1.25

package platformauth

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// The lines of ../conformance/worlds.jsonl, whose README says what each number means.

// A recordedWorld is a line of the file.
type recordedWorld struct {
	World    string
	Leases   []int
	Rates    []float64
	Grace    int
	Older    int
	End      int
	Steps    []worldStep
	States   []databaseState
	Changes  []committedChange
	Replicas []replicaState
	Rights   []right
}

type worldStep struct {
	at, outMS, backMS int
	act               string
	on, argument      int
}

// A databaseState is what a statement in PostgreSQL sees from a moment on.
type databaseState struct {
	at              int
	server, crashes int
	xmax            int
	open            []int
	purged          int
}

type committedChange struct {
	state, xid int
	kind, id   string
}

type replicaState struct {
	at, replica int
	// head and start are the states that its log ends and begins with; -1 without a log.
	head, start    int
	leaseUntil     int
	flags          int
	announcedUntil int
}

// unchanged stands for an announcement that the line leaves out.
const unchanged = -1

func (s replicaState) isPaused() bool { return s.flags&1 != 0 }
func (s replicaState) isCut() bool    { return s.flags&2 != 0 }

// A right is what a call ends.
type right struct {
	id string
	// expiresAt is -1 for never; endedIn is the state in which its end is committed, or -1.
	expiresAt, endedIn int
	// The moments from which no verifier may accept it, or -1: of a correct service, of one whose revoking calls do not
	// wait, of one where only a repeated call does not, and of one whose replicas without a lease announce nothing
	// (only where there is such a replica).
	dead, deadUnwaited, deadUnwaitedRepeats, deadUnannounced int
}

func (s *worldStep) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&s.at, &s.outMS, &s.backMS, &s.act, &s.on, &s.argument})
}

func (s *databaseState) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&s.at, &s.server, &s.crashes, &s.xmax, &s.open, &s.purged})
}

func (c *committedChange) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&c.state, &c.xid, &c.kind, &c.id})
}

func (s *replicaState) UnmarshalJSON(text []byte) error {
	s.announcedUntil = unchanged
	return json.Unmarshal(text, &[]any{&s.at, &s.replica, &s.head, &s.start, &s.leaseUntil, &s.flags, &s.announcedUntil})
}

func (r *right) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text,
		&[]any{&r.id, &r.expiresAt, &r.endedIn, &r.dead, &r.deadUnwaited, &r.deadUnwaitedRepeats, &r.deadUnannounced})
}

func readWorlds(t *testing.T) []recordedWorld {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(conformanceFolder, "worlds.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var worlds []recordedWorld
	for line := range bytes.Lines(text) {
		var recorded recordedWorld
		if err := json.Unmarshal(line, &recorded); err != nil {
			t.Fatal(err)
		}
		recorded.fillAnnouncements()
		worlds = append(worlds, recorded)
	}
	return worlds
}

// fillAnnouncements: a line names only the announcements that changed.
func (r *recordedWorld) fillAnnouncements() {
	latest := map[int]int{}
	for i := range r.Replicas {
		state := &r.Replicas[i]
		if state.announcedUntil == unchanged {
			state.announcedUntil = latest[state.replica]
		}
		latest[state.replica] = state.announcedUntil
	}
}
