package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/onceward/onceward/journal"
)

// Kill drops a session of j's as the end of its process would.
func Kill(s journal.Session) { s.(*session).leave() }

// Dial opens a connection with one pragma and closes it.
func Dial(path, pragmaName, value, want string) error {
	c, err := dial(path, []pragma{{pragmaName, value, want}})
	if err != nil {
		return err
	}
	return c.close()
}

// SegmentSize is how many operations make a segment.
const SegmentSize = segmentSize

// MaxWAL is to how many bytes the WAL is cut.
const MaxWAL = maxWAL

// SchemaVersion is the latest one.
var SchemaVersion = len(migrations)

// Mark has the sidecar name the latest commit, as it is done every few seconds.
func Mark(j *Journal) error { return j.file.checkpoint.mark() }

// MarkAlways has that done as often as possible, in journals opened from now on, until
// restore is called.
func MarkAlways() (restore func()) {
	before := sidecarAfter
	sidecarAfter = 0
	return func() { sidecarAfter = before }
}

// Sidecar reads the text of a sidecar and writes it again.
func Sidecar(text string) (string, error) {
	s, err := parseSidecar(text)
	return s.String(), err
}

// Fold leaves nothing in the log that has no row or is in no block.
func Fold(j *Journal) error {
	return j.file.writer.do(context.Background(), func(b *batch) error { return b.foldAll() })
}

// Preloaded returns once what is read in the background after Open was read.
func Preloaded(j *Journal) { j.file.loading.Wait() }

// Queued is how many requests wait that the writer has not taken.
func Queued(j *Journal) int { return len(j.file.writer.queue) }

// Refuse has the writer refuse a request whose asker is back at once, until ctx ends.
func Refuse(ctx context.Context, j *Journal) {
	queue := j.file.writer.queue
	var ask func()
	ask = func() {
		queue <- &request{done: make(chan error, 1), do: func(*batch) error {
			if ctx.Err() == nil {
				ask()
			}
			return errFormat
		}}
	}
	ask()
}

// Change has an operation that has a row become something else, as another process would.
func Change(path string, ref journal.Ref, become func(*journal.Operation)) error {
	c, err := dial(path, []pragma{patience})
	if err != nil {
		return err
	}
	s, err := newStatements(c)
	if err == nil {
		var r row
		_, err = s.byRef.first(func(v []driver.Value) (err error) {
			r, err = readRow(v)
			return err
		}, ref.ID, ref.Scope, ref.Parent)
		become(&r.op)
		if err == nil {
			_, err = s.update.exec(int64(r.op.State), fromTime(r.op.WakeAt), fromTime(r.op.SettledAt), r.op.Delivered,
				encodeFacts(r), nullable(r.op.Holder), r.op.Handle)
		}
	}
	return errors.Join(err, c.close())
}

// Release is a release to come, with one more migration, until restore is called.
func Release(migration string) (restore func()) {
	before := migrations
	migrations = append(migrations[:len(migrations):len(migrations)], migration)
	return func() { migrations = before }
}

// FailEverySecondCommit has commits fail, with all that is in them, until ctx ends.
func FailEverySecondCommit(ctx context.Context, j *Journal) {
	fails := func(b *batch) error {
		b.broken = errFormat
		return nil
	}
	for ctx.Err() == nil {
		_ = j.file.writer.do(ctx, func(b *batch) error {
			b.committed = append(b.committed, func() { b.queue <- &request{done: make(chan error, 1), do: fails} })
			return nil
		})
	}
}

// Candidates is how many operations may have this name, by its hash.
func Candidates(j *Journal, ref journal.Ref) int {
	handles, _ := j.file.writer.segments.find(ref)
	return len(handles)
}

// LeaveOpen has the writer's connection be in a transaction after a commit, as a rollback
// that failed leaves it.
func LeaveOpen(j *Journal) error {
	return j.file.writer.do(context.Background(), func(b *batch) error {
		b.committed = append(b.committed, func() { _, _ = b.sql.begin.exec() })
		return nil
	})
}
