package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/postgres/internal/check"
)

// memory is this process's latest sighting of the database. A server that was put back to an earlier state, or that
// the others have left, agrees with its own journal. But it is behind the processes that have seen more.
type memory struct {
	mu   sync.Mutex
	seen sighting

	joined     time.Time // by the database's clock, when the latest session began
	joinedSeen time.Time
}

// sighting is one view of the database. An epoch of 0 means that there is none.
type sighting struct {
	epoch, witnessed int64
	place            check.Place
	member           string // this process
	beats            *int64 // its own, as far as that server has them; nil if its session is not there
}

func (m *memory) last() sighting {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// keep remembers a sighting, unless another goroutine has seen more meanwhile.
func (m *memory) keep(is sighting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.seen
	if is.epoch > was.epoch {
		m.joined = time.Time{}
	}
	if is.epoch == was.epoch {
		is.place = is.place.Or(was.place)
	}
	switch {
	case is.epoch < was.epoch, is.epoch == was.epoch && older(is.place, was.place):
		return
	case is.epoch == was.epoch && is.place == was.place:
		is.witnessed = max(is.witnessed, was.witnessed)
		if is.member == was.member && (is.beats == nil || was.beats != nil && *was.beats > *is.beats) {
			is.beats = was.beats
		}
	}
	m.seen = is
}

// forget drops the sighting. From now on the database is trusted as it is: an operator has adopted or confirmed it,
// or the journal records that it counts as restored.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen, m.joined = sighting{}, time.Time{}
}

// beatsOf returns the latest beat of a member that was seen, or 0 for none.
func (m *memory) beatsOf(member string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen.member != member || m.seen.beats == nil {
		return 0
	}
	return *m.seen.beats
}

func (m *memory) beat(member string, beats int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen.epoch != 0 && beats > 0 && (m.seen.member != member || m.seen.beats == nil || *m.seen.beats < beats) {
		m.seen.member, m.seen.beats = member, &beats
	}
}

// joinedAt records when the latest session began. The row of that session stays for keepDead/2 at least.
func (m *memory) joinedAt(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !at.Before(m.joined) || time.Since(m.joinedSeen) > keepDead/2 {
		m.joined, m.joinedSeen = at, time.Now()
	}
}

// lastJoin returns when the latest session began whose row must still be there, or zero for none.
func (m *memory) lastJoin() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.joinedSeen) > keepDead/2 {
		return time.Time{}
	}
	return m.joined
}

// older reports whether a place is on an earlier timeline than another one of the same server's line. A promotion
// makes a later timeline. Timelines are numbers of eight digits.
func older(is, was check.Place) bool { return is.Timeline != "" && is.Timeline < was.Timeline }

// recall compares what is seen with this process's earlier sighting. It returns the sign that the database has gone
// back, or "" for none.
func (j *Journal) recall(ctx context.Context, conn *pgx.Conn, was, is sighting) (why string, err error) {
	switch {
	case is.epoch > was.epoch: // there is no earlier sighting, or the journal was adopted or confirmed since
	case is.epoch < was.epoch:
		return fmt.Sprintf("it was adopted or confirmed %d times, and is as if that had been %d times", was.epoch-1, is.epoch-1), nil
	case is.witnessed < was.witnessed:
		return fmt.Sprintf("it is at %d, after %d", is.witnessed, was.witnessed), nil
	case check.Differs(&was.place.System, is.place.System), check.Differs(&was.place.Database, is.place.Database), check.Differs(&was.place.Table, is.place.Table):
		return "it lies elsewhere than this process has seen it", nil
	case older(is.place, was.place):
		return fmt.Sprintf("it is on timeline %s, after %s", is.place.Timeline, was.place.Timeline), nil
	case is.beats == nil: // see missing
	case is.place.Timeline == "", is.place.Timeline != was.place.Timeline: // a standby may lack beats, as they don't wait for it
		return j.lacking(ctx, conn)
	case is.member == was.member && was.beats != nil && *is.beats < *was.beats:
		return fmt.Sprintf("session %s is at beat %d, after %d", is.member, *is.beats, *was.beats), nil
	}
	return "", nil
}

// isOlder is looksRestored for a database that is behind what this process knows.
func (j *Journal) isOlder(ctx context.Context, conn *pgx.Conn, epoch int64, why string) error {
	err := j.looksRestored(ctx, conn, epoch, "the database has gone back: "+why)
	if err == nil && !j.opts.Existing { // it is written down
		j.memory.forget()
	}
	return err
}
