package format

import "time"

// Millis is a time in milliseconds since 1970, 0 for none.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Moment returns the time that Millis was given, to the millisecond.
func Moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
