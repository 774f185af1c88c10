package leased

import (
	"time"
)

// Row is the row of a lane, as the lane knows it. One goroutine at a time uses it.
type Row struct {
	Member *Member // whose row it is; nil if it has none yet
	Number int
	Batch  int64 // the latest that is known to be committed

	Tenure  int64 // a row with another one is not this process's any more
	batches int   // since the row was made

	usual, latest time.Duration // how long the guard takes
}

// step is how far the numbers of one lane's rows lie apart.
const step = 100_000

// Next is the number of the next row.
func (r *Row) Next() int { return r.Number + step }

// Start takes over the row that was made for a member.
func (r *Row) Start(m *Member, made RowState) {
	r.Member, r.Batch, r.Tenure, r.batches = m, made.Batch, made.Tenure, 0
}

// Committed records that the next batch was committed.
func (r *Row) Committed() {
	r.Batch++
	r.batches++
}

// Raised takes over the row's tenure, which was raised.
func (r *Row) Raised(tenure int64) { r.Tenure = tenure }

// Leave leaves the row as it is: the lane's next user starts a row of its own.
func (r *Row) Leave() { r.Member, r.Number = nil, r.Next() }

// LeaveBoth is Leave if the row may have been rotated: the next one begins with a row that no lane has.
func (r *Row) LeaveBoth() { r.Member, r.Number = nil, r.Next()+step }

// Rotated takes over the row that replaces this one.
func (r *Row) Rotated(made RowState) {
	r.Number, r.Batch, r.Tenure, r.batches, r.usual, r.latest = r.Next(), made.Batch, made.Tenure, 0, 0, 0
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

// RowState is what the database has of a row.
type RowState struct{ Batch, Tenure int64 }
