package platformauth

import "sync/atomic"

// A Verdict on a credential.
type Verdict string

// The verdicts.
const (
	Accepted Verdict = "accepted"
	Refused  Verdict = "refused"
	// Unavailable: the credential could not be verified (503).
	Unavailable Verdict = "unavailable"
)

// verdictCounts has one number for each door and verdict.
type verdictCounts struct{ accepted, refused, unavailable [3]atomic.Uint64 }

func doorIndex(door Door) int {
	switch door {
	case DoorApp:
		return 0
	case DoorNode:
		return 1
	default:
		return 2
	}
}

func (v *Verifier) count(door Door, verdict Verdict) {
	v.counts.of(verdict)[doorIndex(door)].Add(1)
	if v.settings.onVerdict != nil {
		v.settings.onVerdict(door, verdict)
	}
}

func (c *verdictCounts) of(verdict Verdict) *[3]atomic.Uint64 {
	switch verdict {
	case Accepted:
		return &c.accepted
	case Refused:
		return &c.refused
	default:
		return &c.unavailable
	}
}

// Count returns how many requests had this verdict at this door since the verifier was made.
func (v *Verifier) Count(door Door, verdict Verdict) uint64 {
	return v.counts.of(verdict)[doorIndex(door)].Load()
}
