package leased

import "sync"

// Acknowledged are the latest batches that lanes know to be committed, for readers outside of the lanes.
type Acknowledged struct {
	mu    sync.Mutex
	lanes map[any]acknowledgement
}

type acknowledgement struct {
	member *Member
	number int
	batch  int64
}

// Set records the latest batch that a lane, a pointer, knows to be committed. number is of the lane's row.
func (a *Acknowledged) Set(lane any, m *Member, number int, batch int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lanes == nil {
		a.lanes = make(map[any]acknowledgement)
	}
	a.lanes[lane] = acknowledgement{m, number, batch}
}

// Forget drops all of them: the database lacks some, and says so.
func (a *Acknowledged) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.lanes)
}

// Of returns the batches by the lane rows' numbers.
func (a *Acknowledged) Of(m *Member) map[int]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	told := make(map[int]int64)
	for _, l := range a.lanes {
		if l.member == m && l.batch > 0 {
			told[l.number] = l.batch
		}
	}
	return told
}
