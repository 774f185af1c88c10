package sqlite

import (
	"database/sql/driver"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/journal/internal/store"
)

// cacheSize bounds how many operations the writer remembers.
const cacheSize = 8192

// state is what the writer knows of the file without asking it. It stands as long
// as nobody else writes, which PRAGMA data_version tells.
type state struct {
	known    bool  // false: read everything again
	version  int64 // of the data, as this connection sees it
	newest   int64 // the latest handle given out
	clock    store.Clock
	durable  store.Clock // what the file has of clock
	cache    map[int64]row
	own      map[string]*session // of this process, by ID
	segments segments

	identity   string
	number     int64 // the latest commit number in the file
	unnumbered int   // commits since
	verified   bool  // against the sidecar
	restored   error // the file can't be trusted to be whole; nil if it can

	seen atomic.Int64 // clock.Last, for those outside the writer
}

func newState() state {
	return state{cache: make(map[int64]row), own: make(map[string]*session), segments: segments{loaded: -1}}
}

// refresh brings the state up to what others have written, inside a transaction.
func (b *batch) refresh() error {
	w := b.writer
	var version int64
	if _, err := w.sql.dataVersion.first(func(row []driver.Value) error { version = row[0].(int64); return nil }); err != nil {
		return err
	}
	if w.known && version == w.version {
		return nil
	}
	b.others = w.known
	w.known = false
	_, err := w.sql.readJournal.first(func(row []driver.Value) error {
		w.durable = store.Clock{Last: toTime(row[0]), LeastMargin: time.Duration(row[1].(int64))}
		w.newest = max(row[2].(int64), row[3].(int64))
		w.identity, w.number = row[4].(string), row[5].(int64)
		return nil
	})
	if err != nil {
		return err
	}
	if w.durable.Last.After(w.clock.Last) {
		w.clock.Last = w.durable.Last
	}
	w.clock.LeastMargin = w.durable.LeastMargin
	w.clock.Forget()
	w.segments.truncate(w.newest)
	clear(w.cache)
	for _, s := range w.own {
		s.verified = false
	}
	w.seen.Store(w.clock.Last.UnixMilli())
	if !w.verified || w.restored != nil { // another process may have adopted it since
		if err := b.verify(); err != nil {
			return err
		}
	}
	w.version, w.known = version, true
	return nil
}

// maxUnnumbered is how many commits may share a number at most.
const maxUnnumbered = 100

// note writes what the batch changed of the journal's one row. That row is a page of
// its own to write, so that the commit number grows where it is written anyway: with
// the first commit of each millisecond.
func (b *batch) note() error {
	w := b.writer
	b.writer.seen.Store(w.clock.Last.UnixMilli())
	moved := !w.clock.Last.Equal(w.durable.Last) || w.clock.LeastMargin != w.durable.LeastMargin
	if !b.wrote || !moved && !b.numberIt && w.unnumbered < maxUnnumbered {
		return nil
	}
	number := w.number
	if w.restored == nil { // else it would catch up with its sidecar
		number++
	}
	if _, err := w.sql.writeJournal.exec(fromTime(w.clock.Last), int64(w.clock.LeastMargin), number); err != nil {
		return err
	}
	b.numbered = number > w.number
	return nil
}

// remember keeps an operation that is likely to be asked for again.
func (w *writer) remember(r row) {
	if r.op.State.Settled() && r.op.Delivered {
		delete(w.cache, r.op.Handle)
		return
	}
	if len(w.cache) >= cacheSize {
		clear(w.cache)
	}
	w.cache[r.op.Handle] = r
}
