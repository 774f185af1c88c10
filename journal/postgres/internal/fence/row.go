package fence

import (
	"time"

	"github.com/onceward/onceward/journal/postgres/internal/member"
)

// Row is the row of a lane, as the lane knows it. One goroutine at a time uses it.
type Row struct {
	Member *member.Member // whose row it is; nil if it has none yet
	Number int
	Batch  int64 // the latest that is known to be committed

	tenure  int64
	batches int // since the row was made

	usual, latest time.Duration // how long the guard takes
}

// step is how far the numbers of one lane's rows lie apart.
const step = 100_000

func (r *Row) next() int { return r.Number + step }

// Start takes over the row that was made for a member.
func (r *Row) Start(m *member.Member, made State) {
	r.Member, r.Batch, r.tenure, r.batches = m, made.Batch, made.Tenure, 0
}

// Committed records that the next batch was committed.
func (r *Row) Committed() {
	r.Batch++
	r.batches++
}

// Raised takes over the row's tenure, which was raised.
func (r *Row) Raised(tenure int64) { r.tenure = tenure }

// Leave leaves the row as it is: the lane's next user starts a row of its own.
func (r *Row) Leave() { r.Member, r.Number = nil, r.next() }

// LeaveBoth is Leave if the row may have been rotated: the next one begins with a row that no lane has.
func (r *Row) LeaveBoth() { r.Member, r.Number = nil, r.next()+step }

// Rotated takes over the row that replaces this one.
func (r *Row) Rotated(made State) {
	r.Number, r.Batch, r.tenure, r.batches, r.usual, r.latest = r.next(), made.Batch, made.Tenure, 0, 0, 0
}

// Guarded records how long a round trip with the guard took.
func (r *Row) Guarded(took time.Duration) {
	if r.latest = took; r.usual == 0 || took < r.usual {
		r.usual = took
	}
	r.usual += r.usual / 1000 // a network may become slower for good
}

// IsWorn reports whether it is time for another row: after so many batches, or after a tenth of them if the guard takes
// longer than usual.
func (r *Row) IsWorn(after int) bool {
	return r.batches >= after || r.batches >= after/10 && r.latest >= 3*r.usual
}
