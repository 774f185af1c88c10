package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"maps"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/checkpoint"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
	"github.com/onceward/onceward/journal/sqlite/internal/statements"
)

// Kill drops a session of j's as the end of its process would.
func Kill(s journal.Session) { s.(*session).leave() }

// Dial opens a connection with one pragma and closes it.
func Dial(path, pragmaName, value, want string) error {
	c, err := conn.Dial(path, []conn.Pragma{{pragmaName, value, want}})
	if err != nil {
		return err
	}
	return c.Close()
}

// SegmentSize is how many operations make a segment.
const SegmentSize = format.SegmentSize

// KeepRows is how many rows the log has at most, and KeepRowsBytes how large they are.
const (
	KeepRows      = keepRows
	KeepRowsBytes = keepRowsBytes
)

// SchemaVersion is the latest one.
var SchemaVersion = len(schema.Migrations)

// Mark has the sidecar name the latest commit, as it is done every few seconds.
func Mark(j *Journal) error { return j.file.checkpoint.Mark() }

// Checkpointed returns once the checkpointer has done what it was woken for.
func Checkpointed(j *Journal) { j.file.checkpoint.Idle() }

// MarkAlways has that done as often as possible, in journals opened from now on, until
// restore is called.
func MarkAlways() (restore func()) { return MarkAfter(0) }

// MarkAfter has that done for commits of that age.
func MarkAfter(age time.Duration) (restore func()) {
	before := checkpoint.SidecarAfter
	checkpoint.SidecarAfter = age
	return func() { checkpoint.SidecarAfter = before }
}

// MarkNever has that done by Mark alone.
func MarkNever() (restore func()) {
	first, later := checkpoint.SidecarFirst, checkpoint.SidecarAfter
	checkpoint.SidecarFirst, checkpoint.SidecarAfter = time.Hour, time.Hour
	return func() { checkpoint.SidecarFirst, checkpoint.SidecarAfter = first, later }
}

// ClaimInOneGo has a claim be one transaction, however slow the machine is, until restore is called.
func ClaimInOneGo() (restore func()) {
	before := claimFor
	claimFor = time.Hour
	return func() { claimFor = before }
}

// Fold leaves nothing in the log that has no row or is in no block.
func Fold(j *Journal) error {
	return j.file.writer.do(context.Background(), func(b *batch) error { return b.foldAll() })
}

// Flush commits what rides.
func Flush(j *Journal) error { return j.file.writer.flush() }

// Preloaded returns once what is read in the background after Open was read.
func Preloaded(j *Journal) { j.file.loading.Wait() }

// Queued is how many requests wait that the writer has not taken.
func Queued(j *Journal) int { return len(j.file.writer.queue) }

// Turns is how many transactions of the application's wait to begin.
func Turns(j *Journal) int { return len(j.file.writer.turns) }

// Hold has the writer be in a batch, which commits something once release is called.
func Hold(j *Journal) (release func()) {
	held, let := make(chan struct{}), make(chan struct{})
	j.file.writer.queue <- &request{done: make(chan error, 1), do: func(b *batch) error {
		b.wrote = true
		close(held)
		<-let
		return nil
	}}
	<-held
	return func() { close(let) }
}

// HoldTurn has the writer wait before it begins a batch, until release is called.
func HoldTurn(j *Journal) (release func()) {
	t := &turn{granted: make(chan struct{}), over: make(chan struct{})}
	j.file.writer.turns <- t
	<-t.granted
	return func() { close(t.over) }
}

// ClaimFor is for how long a claim keeps the writer.
var ClaimFor = claimFor

// Refuse has the writer refuse a request whose asker is back at once, until ctx ends.
func Refuse(ctx context.Context, j *Journal) {
	queue := j.file.writer.queue
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

// Change has an operation that has a row become something else, as another process would.
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

// Release is a release to come, with one more migration, until restore is called.
func Release(migration string) (restore func()) {
	before := schema.Migrations
	schema.Migrations = append(schema.Migrations[:len(schema.Migrations):len(schema.Migrations)], migration)
	return func() { schema.Migrations = before }
}

// Impatient has no Open wait for others, until restore is called.
func Impatient() (restore func()) {
	before := conn.Patience
	conn.Patience = conn.Pragma{"busy_timeout", "0", "0"}
	return func() { conn.Patience = before }
}

// Make makes a journal as the release had it whose schema had that version.
func Make(path string, version int) error {
	c, err := conn.Dial(path, []conn.Pragma{conn.Patience, {"journal_mode", "WAL", "wal"}})
	if err != nil {
		return err
	}
	before := schema.Migrations
	defer func() { schema.Migrations = before }()
	schema.Migrations = before[:version]
	_, err = schema.Migrate(c, path, schema.Options{})
	return errors.Join(err, c.Close())
}

// FailCommit has one commit fail.
func FailCommit(j *Journal) {
	_ = j.file.writer.do(context.Background(), func(b *batch) error { return b.giveUp(format.ErrDamaged) })
}

// FailEverySecondCommit has commits fail, with all that is in them, until ctx ends.
func FailEverySecondCommit(ctx context.Context, j *Journal) {
	fails := func(b *batch) error {
		b.broken = format.ErrDamaged
		return nil
	}
	for ctx.Err() == nil {
		_ = j.file.writer.do(ctx, func(b *batch) error {
			b.committed = append(b.committed, func() { b.queue <- &request{done: make(chan error, 1), do: fails} })
			return nil
		})
	}
}

// Candidates are the operations that may have this name, by its hash: others, too, by chance.
func Candidates(j *Journal, ref journal.Ref) []int64 {
	handles, _ := j.file.writer.segments.Find(ref)
	return handles
}

// Objects are what operations are found by that only the log has, and which ones, as far as it is kept in memory.
func Objects(j *Journal) (objects map[string][]int64) {
	_ = j.file.writer.do(context.Background(), func(b *batch) error {
		objects = maps.Clone(b.memtable.ByObject)
		return nil
	})
	return objects
}

// LeaveOpen has the writer's connection be in a transaction after a commit, as a rollback
// that failed leaves it.
func LeaveOpen(j *Journal) error {
	return j.file.writer.do(context.Background(), func(b *batch) error {
		b.committed = append(b.committed, func() { _, _ = b.sql.Begin.Exec() })
		return nil
	})
}

// NewestInOutbox and OutboxOf are what is asked of the outbox for each operation that is enqueued.
const (
	NewestInOutbox = newestInOutbox
	OutboxOf       = outboxOf
)

// ClaimScans has a claim go through so many due operations in one commit, until restore is called.
func ClaimScans(many int) (restore func()) {
	before := claimScans
	claimScans = many
	return func() { claimScans = before }
}

// ClaimPage is the next commit of a claim: what it takes, and whether there is nothing more after it.
func ClaimPage(j *Journal, ev journal.Event, limit int, after int64) (taken []string, through int64, done bool, err error) {
	c := &claiming{after: after}
	err = j.file.writer.do(context.Background(), func(b *batch) error {
		outs, err := b.claim(j.file.writer.prepare(ev), limit, c)
		for _, out := range outs {
			taken = append(taken, out.Op.ID)
		}
		return err
	})
	return taken, c.after, c.done, err
}

// AdoptAtOnce has an adoption go through so many operations in one commit, until restore is called.
func AdoptAtOnce(many int) (restore func()) {
	before := adoptAtOnce
	adoptAtOnce = many
	return func() { adoptAtOnce = before }
}

// AdoptPage is the first commit of an adoption.
func AdoptPage(j *Journal) (done bool, err error) {
	a := new(adoption)
	err = j.file.writer.do(context.Background(), func(b *batch) error { return b.adopt(a) })
	return a.done, err
}

// SweepAtOnce has a sweep go through so many operations in one commit, until restore is called.
func SweepAtOnce(many int) (restore func()) {
	before := sweepAtOnce
	sweepAtOnce = many
	return func() { sweepAtOnce = before }
}

// Sweeping tells whether a sweep is under way.
func Sweeping(j *Journal) (is bool) {
	_ = j.file.writer.do(context.Background(), func(b *batch) error {
		is = len(b.sweeps) > 0
		return nil
	})
	return is
}
