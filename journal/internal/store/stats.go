package store

import "time"

// Earlier is the earlier of two times, the zero time being none.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
