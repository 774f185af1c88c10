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

// free reports whether a request may use the key as if for the first time: the earlier request left nothing behind, or
// the retention has ended.
func (r *record) free(now time.Time) bool {
	if r.running > 0 {
		return false
	}
	return r.stored == nil || r.retention > 0 && !now.Before(r.at.Add(r.retention))
}
