package platformauth

import (
	"crypto/subtle"
	"encoding/binary"
	"sync/atomic"
	"time"
)

// The longest time for which an answer is remembered.
const maxRemember = time.Minute

// An entry is a yes of the service that is remembered.
type entry struct {
	digest    digest
	principal principal
	// sent is when the question was sent, from which the term counts.
	sent instant
	// ends is when the entry may no longer be used, by either clock.
	ends instant
	// changes evict it.
	changes []change
	uses    *usesOfKey

	// wasUsed saves it from the next eviction for want of room.
	wasUsed  atomic.Bool
	askAgain atomic.Bool
}

const ways = 8

// A cache remembers the credentials of one door by their digests. Reads take no lock. A digest has its place in one
// set of eight, and a full set gives up an entry that was not used since the last search for room (second chance).
type cache struct {
	lease *lease
	sets  []([ways]atomic.Pointer[entry])
	mask  uint64
	// byChange is guarded by the lock of the lease, as every write is.
	byChange map[change]map[*entry]struct{}
	hand     int
}

func newCache(l *lease, maxEntries int) *cache {
	sets := 1
	for sets*ways < maxEntries {
		sets *= 2
	}
	c := &cache{lease: l, sets: make([][ways]atomic.Pointer[entry], sets), mask: uint64(sets - 1)}
	c.evictAll()
	l.onChange(c.evict, c.evictAll)
	return c
}

func (c *cache) setOf(d digest) *[ways]atomic.Pointer[entry] {
	return &c.sets[binary.LittleEndian.Uint64(d[:])&c.mask]
}

// recall returns an entry that may be used, and the moment at which that was so. It reads the lease, then the entry, then
// both clocks: an entry that was read before a poll evicted it must not be used under the term which that poll has
// renewed.
func (c *cache) recall(d digest) (*entry, instant, bool) {
	until := c.lease.until.Load()
	found := c.find(d)
	now := c.lease.now()
	if until == nil || found == nil || !now.isBefore(*until) || !now.isBefore(found.ends) {
		return nil, now, false
	}
	if !found.wasUsed.Load() {
		found.wasUsed.Store(true)
	}
	return found, now, true
}

// find may return an entry that must not be used any more: it was valid once, and no change of it was reported since.
func (c *cache) find(d digest) *entry {
	set := c.setOf(d)
	for i := range set {
		if found := set[i].Load(); found != nil && found.digest[0] == d[0] &&
			subtle.ConstantTimeCompare(found.digest[:], d[:]) == 1 {
			return found
		}
	}
	return nil
}

// put is to be called under the lock of the lease.
func (c *cache) put(e *entry) {
	c.removeDigest(e.digest)
	set := c.setOf(e.digest)
	slot := c.findRoom(set)
	c.unlist(slot.Swap(e))
	for _, changed := range e.changes {
		if c.byChange[changed] == nil {
			c.byChange[changed] = map[*entry]struct{}{}
		}
		c.byChange[changed][e] = struct{}{}
	}
}

func (c *cache) findRoom(set *[ways]atomic.Pointer[entry]) *atomic.Pointer[entry] {
	for i := range set {
		if set[i].Load() == nil {
			return &set[i]
		}
	}
	// A second round finds the entries that the first one has marked, unless they are all in use at this moment.
	for range 2 * ways {
		c.hand = (c.hand + 1) % ways
		if !set[c.hand].Load().wasUsed.Swap(false) {
			break
		}
	}
	return &set[c.hand]
}

// removeDigest is to be called under the lock of the lease.
func (c *cache) removeDigest(d digest) {
	if found := c.find(d); found != nil {
		c.remove(found)
	}
}

func (c *cache) remove(e *entry) {
	set := c.setOf(e.digest)
	for i := range set {
		set[i].CompareAndSwap(e, nil)
	}
	c.unlist(e)
}

func (c *cache) unlist(e *entry) {
	if e == nil {
		return
	}
	for _, changed := range e.changes {
		delete(c.byChange[changed], e)
		if len(c.byChange[changed]) == 0 {
			delete(c.byChange, changed)
		}
	}
}

func (c *cache) evict(changed change) {
	for e := range c.byChange[changed] {
		c.remove(e)
	}
}

func (c *cache) evictAll() {
	for i := range c.sets {
		for way := range c.sets[i] {
			c.sets[i][way].Store(nil)
		}
	}
	c.byChange = map[change]map[*entry]struct{}{}
}
