package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// Get returns the whole operation, or journal.ErrNotFound. It waits for the writer only if another process
// wrote since the writer last read, or at the first search for an ID since the file was opened.
func (j *logJournal) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	if err := j.open(ctx); err != nil {
		return journal.Operation{}, err
	}
	if j.file.writer.readOnly {
		return j.getBeside(ctx, ref)
	}
	var op journal.Operation
	var found bool
	handles, whole := j.file.writer.segments.Find(ref)
	if whole {
		err := j.file.readers.Read(ctx, func(r *read.Reader) (err error) {
			op, found, _, whole, err = j.get(r, ref, handles)
			return err
		})
		if err != nil || whole && (found || len(handles) == 0) {
			return orNotFound(j.file.path, op, found, err)
		}
	}
	// The writer sees the commits of other processes, and whether a possible operation was removed. Until it
	// reads the log again, after a failed commit, its memory is incomplete.
	for confirm := false; ; {
		var through int64
		err := j.file.writer.do(ctx, func(b *batch) (err error) {
			through = b.seq
			if handles, err = b.candidates(ref); err == nil && confirm {
				_, err = b.byRef(ref)
			}
			return err
		})
		if err != nil {
			return journal.Operation{}, err
		}
		seq := int64(0)
		err = j.file.readers.Read(ctx, func(r *read.Reader) (err error) {
			op, found, seq, _, err = j.get(r, ref, handles)
			return err
		})
		known := seq >= through
		if err != nil || found || known && (confirm || len(handles) == 0) {
			return orNotFound(j.file.path, op, found, err)
		}
		confirm = known
	}
}

func orNotFound(path string, op journal.Operation, found bool, err error) (journal.Operation, error) {
	if err != nil {
		return journal.Operation{}, err
	}
	if !found {
		return journal.Operation{}, journal.ErrNotFound
	}
	if op.State == journal.StateCompleted && !op.Tombstone && op.Answer == nil {
		return journal.Operation{}, conn.Explain(path, "read an answer", format.ErrDamaged)
	}
	return op, nil
}

// get looks for an operation in the log, at its possible handles, and by its name. It returns the row up to
// which the log is known, and whether that is its end.
func (j *logJournal) get(r *read.Reader, ref journal.Ref, handles []int64) (op journal.Operation, found bool, seq int64, current bool, err error) {
	k, seq := j.file.writer.memtable.Committed(ref)
	isCurrent := func(latest driver.Value) { current = latest == seq }
	for _, handle := range handles {
		if k != nil {
			break
		}
		err = r.Each(blockAndLog, func(v []driver.Value) error {
			isCurrent(v[2])
			k, err = format.FindInBlock(v, handle)
			return err
		}, handle)
		if k != nil && !store.IsNamed(&k.Op, ref) {
			k = nil
		}
		if err == nil && k == nil {
			op, found, err = read.Row(r, "o.handle = ?", handle)
			found = found && store.IsNamed(&op, ref)
		}
		if err != nil || found {
			break
		}
	}
	if err == nil && !current {
		err = r.Each("SELECT max(seq) FROM onceward_log"+whereTakenIn, func(v []driver.Value) error { isCurrent(v[0]); return nil })
	}
	switch {
	case err != nil || found:
	case k != nil:
		op, err = k.Operation()
		found = true
	default:
		op, found, err = read.Row(r, "identified = 1 AND id = ? AND scope = ? AND parent = ?", ref.ID, ref.Scope, ref.Parent)
	}
	return op, found, seq, current, err
}
