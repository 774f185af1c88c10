package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"maps"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/checkpoint"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
	"github.com/onceward/onceward/journal/sqlite/internal/statements"
)

// UseRows has Open open journals of rows.
func UseRows() { openEngine = openRows }

// onRows returns the driver of a journal of rows, or nil.
func onRows(j *Journal) *rows.Driver {
	if r, is := j.engine.(*rowJournal); is {
		return r.driver
	}
	return nil
}

// Kill drops a session of a journal, as the end of its process would.
func Kill(s journal.Session) {
	if s, is := s.(*session); is {
		s.leave()
		return
	}
	rowstore.Kill(s)
}

// Dial opens a connection with one pragma and closes it.
func Dial(path, pragmaName, value, want string) error {
	c, err := conn.Dial(path, []conn.Pragma{{pragmaName, value, want}})
	if err != nil {
		return err
	}
	return c.Close()
}

// SegmentSize is the number of operations in a segment.
const SegmentSize = format.SegmentSize

// KeepRows is the maximum number of the log's rows, and KeepRowsBytes their maximum size.
const (
	KeepRows      = keepRows
	KeepRowsBytes = keepRowsBytes
)

// ReceiptsVersion is the latest version of the receipts' tables.
const ReceiptsVersion = schema.ReceiptsVersion

// SchemaVersion is the latest version of the schema.
var SchemaVersion = len(schema.Migrations)

// Mark makes the sidecar name the latest commit, as happens every few seconds.
func Mark(j *Journal) error { return checkpointer(j).Mark() }

func checkpointer(j *Journal) *checkpoint.Checkpointer {
	if d := onRows(j); d != nil {
		return d.Checkpointer()
	}
	return old(j).file.checkpoint
}

// Checkpointed returns once the checkpointer has finished the work that it was woken for.
func Checkpointed(j *Journal) { checkpointer(j).Idle() }

// MarkAlways makes journals that are opened from now on mark as often as possible, until restore is called.
func MarkAlways() (restore func()) { return MarkAfter(0) }

// MarkAfter makes them mark commits of that age.
func MarkAfter(age time.Duration) (restore func()) {
	before := checkpoint.SidecarAfter
	checkpoint.SidecarAfter = age
	return func() { checkpoint.SidecarAfter = before }
}

// MarkNever leaves marking to Mark.
func MarkNever() (restore func()) {
	first, later := checkpoint.SidecarFirst, checkpoint.SidecarAfter
	checkpoint.SidecarFirst, checkpoint.SidecarAfter = time.Hour, time.Hour
	return func() { checkpoint.SidecarFirst, checkpoint.SidecarAfter = first, later }
}

// ClaimInOneGo makes a claim, or a page of an adoption, one transaction, however slow the machine is, until restore is called.
func ClaimInOneGo() (restore func()) {
	before := claimFor
	claimFor = time.Hour
	return func() { claimFor = before }
}

// Fold gives every operation a row or a place in a block, so that none is in the log alone.
func Fold(j *Journal) error {
	if onRows(j) != nil {
		return Flush(j)
	}
	return old(j).file.writer.do(context.Background(), func(b *batch) error { return b.foldAll() })
}

// Flush commits the events that wait for another commit.
func Flush(j *Journal) error {
	if r, is := j.engine.(*rowJournal); is {
		return r.Flush(context.Background())
	}
	return old(j).file.writer.flush()
}

// Preloaded returns once the background reads after Open have ended.
func Preloaded(j *Journal) {
	if onRows(j) == nil {
		old(j).file.loading.Wait()
	}
}

// Queued is the number of requests that the writer has not taken yet.
func Queued(j *Journal) int {
	if r, is := j.engine.(*rowJournal); is {
		return r.Queued()
	}
	return len(old(j).file.writer.queue)
}

// Turns is the number of application transactions that wait to begin.
func Turns(j *Journal) int { return len(old(j).file.writer.turns) }

// Hold keeps the writer in a batch, which commits something once release is called.
func Hold(j *Journal) (release func()) {
	if r, is := j.engine.(*rowJournal); is {
		return r.Hold()
	}
	held, let := make(chan struct{}), make(chan struct{})
	old(j).file.writer.queue <- &request{done: make(chan error, 1), do: func(b *batch) error {
		b.wrote = true
		close(held)
		<-let
		return nil
	}}
	<-held
	return func() { close(let) }
}

// HoldTurn makes the writer wait before it begins a batch, until release is called.
func HoldTurn(j *Journal) (release func()) {
	if onRows(j) != nil {
		tx, err := j.BeginSQL(context.Background())
		if err != nil {
			panic(err)
		}
		return func() { _ = tx.Rollback() }
	}
	t := &turn{granted: make(chan struct{}), over: make(chan struct{})}
	old(j).file.writer.turns <- t
	<-t.granted
	return func() { close(t.over) }
}

// ClaimFor is how long a claim keeps the writer.
var ClaimFor = claimFor

// Refuse keeps the writer busy with a request that it refuses, and that is repeated at once, until ctx ends.
func Refuse(ctx context.Context, j *Journal) {
	queue := old(j).file.writer.queue
	var ask func()
	ask = func() {
		queue <- &request{done: make(chan error, 1), do: func(*batch) error {
			if ctx.Err() == nil {
				ask()
			}
			return format.ErrDamaged
		}}
	}
	ask()
}

// Change changes the row of an operation, as another process would.
func Change(path string, ref journal.Ref, become func(*journal.Operation)) error {
	c, err := conn.Dial(path, []conn.Pragma{conn.Patience})
	if err != nil {
		return err
	}
	s, err := statements.New(c)
	if err == nil {
		var r format.Row
		_, err = s.ByRef.First(func(v []driver.Value) (err error) {
			r, err = format.ReadRow(v)
			return err
		}, ref.ID, ref.Scope, ref.Parent)
		become(&r.Op)
		if err == nil {
			_, err = s.Update.Exec(int64(r.Op.State), format.FromTime(format.Wake(&r.Op)), format.FromTime(r.Op.SettledAt), r.Op.Delivered,
				format.EncodeFacts(r), format.Nullable(r.Op.Holder), r.Op.Handle)
		}
	}
	return errors.Join(err, c.Close())
}

// Release adds one more migration, as a later release would, until restore is called.
func Release(migration string) (restore func()) {
	before := schema.Migrations
	schema.Migrations = append(schema.Migrations[:len(schema.Migrations):len(schema.Migrations)], migration)
	return func() { schema.Migrations = before }
}

// Impatient lets no Open wait for others, until restore is called.
func Impatient() (restore func()) {
	before := conn.Patience
	conn.Patience = conn.Pragma{"busy_timeout", "0", "0"}
	return func() { conn.Patience = before }
}

// Make makes a journal as the release with that schema version did.
func Make(path string, version int) error {
	c, err := conn.Dial(path, []conn.Pragma{conn.Patience, {"journal_mode", "WAL", "wal"}})
	if err != nil {
		return err
	}
	before := schema.Migrations
	defer func() { schema.Migrations = before }()
	schema.Migrations = before[:version]
	if version < 4 { // had no table of the owner, which Migrate writes: this one ends with the connection
		err = c.Exec("CREATE TEMP TABLE onceward_owner AS SELECT '' AS deployment, '' AS machine, '' AS boot")
	}
	if err == nil {
		_, err = schema.Migrate(c, path, schema.Options{})
	}
	return errors.Join(err, c.Close())
}

// FailCommit makes one commit fail.
func FailCommit(j *Journal) {
	if r, is := j.engine.(*rowJournal); is {
		r.FailCommit()
		return
	}
	_ = old(j).file.writer.do(context.Background(), func(b *batch) error { return b.giveUp(format.ErrDamaged) })
}

// FailEverySecondCommit makes every second commit fail, with everything in it, until ctx ends.
func FailEverySecondCommit(ctx context.Context, j *Journal) {
	fails := func(b *batch) error {
		b.broken = format.ErrDamaged
		return nil
	}
	for ctx.Err() == nil {
		_ = old(j).file.writer.do(ctx, func(b *batch) error {
			b.committed = append(b.committed, func() { b.queue <- &request{done: make(chan error, 1), do: fails} })
			return nil
		})
	}
}

// Candidates returns the operations that may have this name, by its hash. Others may be among them by chance.
func Candidates(j *Journal, ref journal.Ref) []int64 {
	handles, _ := old(j).file.writer.segments.Find(ref)
	return handles
}

// Objects returns the objects of operations that only the log has, with their handles, as far as memory holds them.
func Objects(j *Journal) (objects map[string][]int64) {
	_ = old(j).file.writer.do(context.Background(), func(b *batch) error {
		objects = maps.Clone(b.memtable.ByObject)
		return nil
	})
	return objects
}

// LeaveOpen leaves the writer's connection in a transaction after a commit, as a rollback that failed does.
func LeaveOpen(j *Journal) error {
	return old(j).file.writer.do(context.Background(), func(b *batch) error {
		b.committed = append(b.committed, func() { _, _ = b.sql.Begin.Exec() })
		return nil
	})
}

// NewestInOutbox and OutboxOf are the queries of the outbox for each operation that is enqueued.
const (
	NewestInOutbox = newestInOutbox
	OutboxOf       = outboxOf
)

// StandingReceipt is the query of a receipt within the transaction that reserves or completes it.
const StandingReceipt = selectStanding

// ClaimScans makes a claim go through that many due operations in one commit, until restore is called.
func ClaimScans(many int) (restore func()) {
	before := claimScans
	claimScans = many
	return func() { claimScans = before }
}

// ClaimPage makes the next commit of a claim. It returns the operations taken, and whether nothing is left after them.
func ClaimPage(j *Journal, ev journal.Event, limit int, after int64) (taken []string, through int64, done bool, err error) {
	c := &claiming{after: after}
	err = old(j).file.writer.do(context.Background(), func(b *batch) error {
		outs, err := b.claim(old(j).file.writer.prepare(ev), limit, c)
		for _, out := range outs {
			taken = append(taken, out.Op.ID)
		}
		return err
	})
	return taken, c.after, c.done, err
}

// AdoptAtOnce makes an adoption go through that many operations in one commit, until restore is called.
func AdoptAtOnce(many int) (restore func()) {
	before := adoptAtOnce
	adoptAtOnce = many
	return func() { adoptAtOnce = before }
}

// AdoptPage makes the first commit of an adoption.
func AdoptPage(j *Journal) (done bool, err error) {
	a := new(adoption)
	err = old(j).file.writer.do(context.Background(), func(b *batch) error { return b.adopt(a) })
	return a.done, err
}

// SweepAtOnce makes a sweep go through that many operations in one commit, until restore is called.
func SweepAtOnce(many int) (restore func()) {
	before := sweepAtOnce
	sweepAtOnce = many
	return func() { sweepAtOnce = before }
}

// Sweeping reports whether a sweep is under way.
func Sweeping(j *Journal) (is bool) {
	_ = old(j).file.writer.do(context.Background(), func(b *batch) error {
		is = len(b.sweeps) > 0
		return nil
	})
	return is
}

// old returns the journal as the engine that most of these functions look into.
func old(j *Journal) *logJournal { return j.engine.(*logJournal) }
