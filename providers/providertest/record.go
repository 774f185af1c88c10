package providertest

import "time"

// record is the server's memory of a key.
type record struct {
	at          time.Time // of the first request
	retention   time.Duration
	fingerprint string
	running     int
	stored      *Answer
}

// free reports whether the key may be used as if for the first time: its request
// left nothing behind, or its retention has ended.
func (r *record) free(now time.Time) bool {
	if r.running > 0 {
		return false
	}
	return r.stored == nil || r.retention > 0 && !now.Before(r.at.Add(r.retention))
}
