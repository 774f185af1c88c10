package leased

import "sync/atomic"

// Member is this process, as the one who writes. It is a session too, and holds nothing.
type Member struct {
	ID    string
	Epoch int64
	Gone  atomic.Bool  // it was buried, or cut off by Adopt: there has to be another
	Heard atomic.Int64 // when its latest beat was answered, in nanoseconds of the wall's clock
}
