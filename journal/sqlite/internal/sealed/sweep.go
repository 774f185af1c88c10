package sealed

import (
	"database/sql/driver"
	"encoding/binary"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// Sweep is an event of the clock for every operation without an answer. A sweep of many operations goes on in pages, each a
// commit of its own. An operation that is read before its page has come is given the event first. So
// each decision is as if the commit that began the sweep had given the event to all operations.
type Sweep struct {
	Seq               int64
	Event             journal.Event
	Through, Position int64 // it is for the handles after Position, up to Through
}

// Covers reports whether the sweep has still to come to this handle.
func (s *Sweep) Covers(handle int64) bool { return handle > s.Position && handle <= s.Through }

// Sum returns the sum of its row.
func (s *Sweep) Sum() int64 {
	var row []byte
	for _, n := range [...]int64{s.Seq, s.Event.At.UnixMilli(), s.Event.Last.UnixMilli(), s.Event.Since.UnixMilli(), s.Through, s.Position} {
		row = binary.LittleEndian.AppendUint64(row, uint64(n))
	}
	return int64(format.Sum(row))
}

// SweepColumns are what ReadSweep reads.
const SweepColumns = "seq, at, last_at, since, through, position, sum"

// ReadSweep reads SweepColumns, and returns format.ErrDamaged for a row that is not as it was written.
func ReadSweep(v []driver.Value) (s Sweep, err error) {
	s = Sweep{Seq: v[0].(int64), Event: journal.Event{Kind: journal.EventClock, At: format.ToTime(v[1]), Last: format.ToTime(v[2]), Since: format.ToTime(v[3])},
		Through: v[4].(int64), Position: v[5].(int64)}
	if s.Sum() != v[6] {
		err = format.ErrDamaged
	}
	return s, err
}
