package leased

import "sync/atomic"

// Member is this process, as the one who writes. It is a session too, and holds nothing.
type Member struct {
	ID    string
	Epoch int64
	Gone  atomic.Bool  // it was buried, or cut off by Adopt: there has to be another
	Heard atomic.Int64 // when its latest beat was answered, in nanoseconds of the wall's clock

	Newest atomic.Int64 // the highest handle that it was given: later inserts get a higher one
}

// Given records the handle of an operation that m has inserted or changed.
func (m *Member) Given(handle int64) {
	for was := m.Newest.Load(); handle > was && !m.Newest.CompareAndSwap(was, handle); was = m.Newest.Load() {
	}
}
