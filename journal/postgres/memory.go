package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// memory is what this process has seen of the database. A server that was put back to what it was, or one that was left for another, agrees
// with its own journal: it is behind those who have seen more.
type memory struct {
	mu   sync.Mutex
	seen sighting

	joined     time.Time // by the database's clock, when somebody joined last
	joinedSeen time.Time
}

// sighting is what somebody sees of the database. An epoch of 0: nobody has looked.
type sighting struct {
	epoch, witnessed int64
	place            place
	member           string // this process
	beats            *int64 // its own, as far as that server has them; nil: its session is not there
}

func (m *memory) last() sighting {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// keep remembers what was seen, unless somebody else has seen more meanwhile.
func (m *memory) keep(is sighting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.seen
	if is.epoch > was.epoch {
		m.joined = time.Time{}
	}
	if is.epoch == was.epoch {
		is.place = is.place.or(was.place)
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

// forget: whatever it is from now on, somebody has said that it is the one to go on with, or the journal says that nobody has yet.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen, m.joined = sighting{}, time.Time{}
}

// beatsOf is at which beat a member was seen; 0: at none.
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

// joinedAt takes note that somebody joined at that time, by a row that stays for keepDead/2 at least.
func (m *memory) joinedAt(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !at.Before(m.joined) || time.Since(m.joinedSeen) > keepDead/2 {
		m.joined, m.joinedSeen = at, time.Now()
	}
}

// lastJoin is when somebody joined last whose row has to be there; zero: nobody.
func (m *memory) lastJoin() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.joinedSeen) > keepDead/2 {
		return time.Time{}
	}
	return m.joined
}

// older tells of two places of one server's line: a promotion makes a later timeline. They are numbers of eight digits.
func older(is, was place) bool { return is.timeline != "" && is.timeline < was.timeline }

// recall compares what is seen with what this process has seen before, and tells what shows that the database has gone back; "": nothing.
func (j *Journal) recall(ctx context.Context, conn *pgx.Conn, was, is sighting) (why string, err error) {
	switch {
	case is.epoch > was.epoch: // nobody has looked, or somebody has adopted or confirmed it since
	case is.epoch < was.epoch:
		return fmt.Sprintf("it was adopted or confirmed %d times, and is as if that had been %d times", was.epoch-1, is.epoch-1), nil
	case is.witnessed < was.witnessed:
		return fmt.Sprintf("it is at %d, after %d", is.witnessed, was.witnessed), nil
	case differs(&was.place.system, is.place.system), differs(&was.place.database, is.place.database), differs(&was.place.table, is.place.table):
		return "it lies elsewhere than this process has seen it", nil
	case older(is.place, was.place):
		return fmt.Sprintf("it is on timeline %s, after %s", is.place.timeline, was.place.timeline), nil
	case is.beats == nil: // see missing
	case is.place.timeline == "", is.place.timeline != was.place.timeline: // a standby may lack beats, for which nobody waited
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
