package sqlite

import (
	"database/sql/driver"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/memtable"
	"github.com/onceward/onceward/journal/sqlite/internal/nameindex"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

// cacheSize bounds how many operations the writer remembers.
const cacheSize = 8192

// lastUnkept bounds how far the latest time advances unwritten while nothing else is written. After a kill,
// the time since then is unknown, and looks like a jump of the clock.
const lastUnkept = time.Hour

// state is the writer's knowledge of the file. It is valid until another process writes, which PRAGMA
// data_version shows.
type state struct {
	known    bool  // false: read everything again
	unread   bool  // another process may have written to the outbox
	version  int64 // of the data, as this connection sees it
	newest   int64 // the latest handle given out
	begun    int64 // likewise, as far as the file has it
	folded   int64 // no operation up to this handle is in the log
	seq      int64 // of the log's latest row
	log      []logged
	memtable *memtable.Table
	records  []byte // memory for the log's next row
	encoder  format.BlockEncoder
	rowBytes int // of the log's latest row
	clock    store.Clock
	durable  store.Clock // clock, as it is in the file
	wasReset bool        // another process set the clock back since the last refresh
	cache    map[int64]format.Row
	own      map[string]*session // of this process, by ID
	segments *nameindex.Index

	running    map[int64]journal.Flow // some of the running flows, without their steps
	newestFlow int64                  // the latest handle of a flow; 0: not known

	sweeps []sealed.Sweep // under way, the first one first

	identity string
	epoch    int64
	number   int64 // the latest commit number in the file
	verified bool  // against the sidecar
	restored error // the file can't be trusted to be whole; nil if it can

	seen atomic.Int64 // clock.Last, for those outside the writer
}

func newState() state {
	return state{cache: make(map[int64]format.Row), own: make(map[string]*session), running: make(map[int64]journal.Flow), memtable: memtable.New(), segments: nameindex.New()}
}

// refresh adds the commits of other processes to the state, inside a transaction.
func (b *batch) refresh() error {
	w := b.writer
	var version int64
	if _, err := w.sql.DataVersion.First(func(row []driver.Value) error { version = row[0].(int64); return nil }); err != nil {
		return err
	}
	if w.known && version == w.version {
		return nil
	}
	b.others = w.known
	w.known, w.unread = false, true
	_, err := w.sql.ReadIdentity.First(func(row []driver.Value) (err error) {
		w.identity = row[0].(string)
		if err := schema.Unchanged(w.path, row[2].(int64)); err != nil {
			return err
		}
		w.epoch, err = format.DecodeEpoch(w.identity, row[1].([]byte))
		return err
	})
	if err == nil {
		err = w.notBehind()
	}
	if err == nil {
		err = w.readLog(!b.others)
	}
	if err == nil {
		err = w.readSweeps()
	}
	if err != nil {
		return err
	}
	if w.wasReset {
		w.clock.Last = w.durable.Last
	}
	w.clock.Take(w.durable)
	w.wasReset = false
	w.segments.Truncate(w.newest)
	clear(w.cache)
	clear(w.running)
	w.newestFlow = 0
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

// notBehind returns journal.ErrRestored for a log that ends before the rows that this process has read or
// written. The last row is never removed.
func (w *writer) notBehind() error {
	var last int64
	_, err := w.sql.LogEnds.First(func(row []driver.Value) error { last, _ = row[0].(int64); return nil })
	if err == nil && last < w.seq {
		err = w.files.Lost()
	}
	return err
}

// note appends the batch's changes to the log, if there are any.
func (b *batch) note() error {
	b.seen.Store(b.clock.Last.UnixMilli())
	if !b.clock.Jumped.Equal(b.durable.Jumped) || !b.durable.Last.IsZero() && b.clock.Last.Sub(b.durable.Last) > lastUnkept {
		b.wrote = true // later readers need it
	}
	if !b.wrote {
		return nil
	}
	if err := b.noteRemoved(); err != nil {
		return err
	}
	if b.checkpoint.Turn && b.restored == nil {
		if err := b.beginEpoch(); err != nil {
			return err
		}
	}
	return b.appendToLog()
}

// remember keeps an operation with a row of its own that is likely to be asked for
// again.
func (w *writer) remember(r format.Row) {
	if r.Op.State.Settled() && r.Op.Delivered {
		delete(w.cache, r.Op.Handle)
		return
	}
	if len(w.cache) >= cacheSize {
		clear(w.cache)
	}
	w.cache[r.Op.Handle] = r
}

// beginEpoch has the batch's commit begin an epoch.
func (b *batch) beginEpoch() error {
	if err := b.write(b.sql.WriteIdentity, b.identity, format.EncodeEpoch(b.identity, b.epoch+1)); err != nil {
		return err
	}
	b.epoch++ // after a rollback it is read again
	b.checkpoint.Turn = false
	b.abandoned = append(b.abandoned, func() { b.checkpoint.Turn = true })
	return nil
}
