package leased

import (
	"sync"
	"time"
)

// Memory is this process's latest sighting of the database. A server that was put back to an earlier state, or cut off
// from the others, agrees with its own journal. But the server is behind the processes that have seen more.
type Memory struct {
	mu   sync.Mutex
	seen Sighting

	joined     time.Time // by the database's clock, when the latest session began
	joinedSeen time.Time
}

// Sighting is one view of the database. An epoch of 0 means that there is none.
type Sighting struct {
	Epoch, Witnessed int64
	Place            Place
	Member           string // this process
	Beats            *int64 // its own, as far as that server has them; nil if its session is not there
}

// Last returns the latest sighting.
func (m *Memory) Last() Sighting {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// Keep remembers a sighting, unless another goroutine has seen more meanwhile.
func (m *Memory) Keep(is Sighting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.seen
	if is.Epoch > was.Epoch {
		m.joined = time.Time{}
	}
	if is.Epoch == was.Epoch {
		is.Place = is.Place.Or(was.Place)
	}
	switch {
	case is.Epoch < was.Epoch, is.Epoch == was.Epoch && Older(is.Place, was.Place):
		return
	case is.Epoch == was.Epoch && is.Place == was.Place:
		is.Witnessed = max(is.Witnessed, was.Witnessed)
		if is.Member == was.Member && (is.Beats == nil || was.Beats != nil && *was.Beats > *is.Beats) {
			is.Beats = was.Beats
		}
	}
	m.seen = is
}

// Forget drops the sighting. From now on the memory trusts the database: an operator has adopted or confirmed the
// database, or the journal records a restore.
func (m *Memory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen, m.joined = Sighting{}, time.Time{}
}

// BeatsOf returns the latest beat of a member that was seen, or 0 for none.
func (m *Memory) BeatsOf(member string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen.Member != member || m.seen.Beats == nil {
		return 0
	}
	return *m.seen.Beats
}

// Beat records a beat of a member that the database has.
func (m *Memory) Beat(member string, beats int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen.Epoch != 0 && beats > 0 && (m.seen.Member != member || m.seen.Beats == nil || *m.seen.Beats < beats) {
		m.seen.Member, m.seen.Beats = member, &beats
	}
}

// JoinedAt records when the latest session began. The row of that session stays for KeepDead/2 at least.
func (m *Memory) JoinedAt(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !at.Before(m.joined) || time.Since(m.joinedSeen) > KeepDead/2 {
		m.joined, m.joinedSeen = at, time.Now()
	}
}

// LastJoin returns when the latest session began whose row must still be there, or zero for none.
func (m *Memory) LastJoin() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.joinedSeen) > KeepDead/2 {
		return time.Time{}
	}
	return m.joined
}

// Older reports whether a place is on an earlier timeline than another one of the same server's line. A promotion
// makes a later timeline. Timelines are numbers of eight digits.
func Older(is, was Place) bool { return is.Timeline != "" && is.Timeline < was.Timeline }

// KeepDead is how long the rows of dead sessions stay at least. A row that is missing earlier was lost by the
// database.
const KeepDead = 24 * time.Hour
