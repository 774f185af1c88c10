package leased

import "time"

// Observer is what this process has seen of others' beats. One goroutine uses it.
type Observer struct {
	at   time.Time // when they were looked at last
	seen map[string]observation
}

type observation struct {
	beats int64
	since time.Time // when it was seen to beat last
	reads int       // since then
}

// Beat is a session as the database has it.
type Beat struct {
	ID    string
	Beats int64
	Over  bool // the lease is over by the database's clock
}

// Look returns the sessions that are not renewed any more. The observer must have seen no beat in three looks or more,
// over the TTL of the process's own time, with no look missed. The lease must be over by the database's clock too. So
// neither a database outage nor a leap in its clock ends a session.
func (o *Observer) Look(pace Pace, all []Beat) (dead []Beat) {
	now := time.Now()
	if now.Sub(o.at) > pace.TTL/3 {
		o.seen = make(map[string]observation)
	}
	o.at = now
	seen := make(map[string]observation)
	for _, b := range all {
		was, known := o.seen[b.ID]
		if !known || was.beats != b.Beats {
			was = observation{beats: b.Beats, since: now}
		}
		was.reads++
		seen[b.ID] = was
		if b.Over && was.reads >= 3 && now.Sub(was.since) >= pace.TTL {
			dead = append(dead, b)
		}
	}
	o.seen = seen
	return dead
}
