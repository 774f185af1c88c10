package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// Get returns the whole operation, or journal.ErrNotFound. It waits for the writer only if another process
// wrote since the writer last read, or at the first search for an ID since the file was opened.
func (j *Journal) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	if err := j.open(ctx); err != nil {
		return journal.Operation{}, err
	}
	if j.file.writer.readOnly {
		return j.getBeside(ctx, ref)
	}
	var op journal.Operation
	var found bool
	handles, whole := j.file.writer.segments.find(ref)
	if whole {
		err := j.file.readers.read(ctx, func(r *reader) (err error) {
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
		err = j.file.readers.read(ctx, func(r *reader) (err error) {
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
func (j *Journal) get(r *reader, ref journal.Ref, handles []int64) (op journal.Operation, found bool, seq int64, current bool, err error) {
	k, seq := j.file.writer.memtable.Committed(ref)
	isCurrent := func(latest driver.Value) { current = latest == seq }
	for _, handle := range handles {
		if k != nil {
			break
		}
		err = r.each(blockAndLog, func(v []driver.Value) error {
			isCurrent(v[2])
			k, err = format.FindInBlock(v, handle)
			return err
		}, handle)
		if k != nil && !store.IsNamed(&k.Op, ref) {
			k = nil
		}
		if err == nil && k == nil {
			op, found, err = getRow(r, "o.handle = ?", handle)
			found = found && store.IsNamed(&op, ref)
		}
		if err != nil || found {
			break
		}
	}
	if err == nil && !current {
		err = r.each("SELECT max(seq) FROM onceward_log"+whereTakenIn, func(v []driver.Value) error { isCurrent(v[0]); return nil })
	}
	switch {
	case err != nil || found:
	case k != nil:
		op, err = k.Operation()
		found = true
	default:
		op, found, err = getRow(r, "identified = 1 AND id = ? AND scope = ? AND parent = ?", ref.ID, ref.Scope, ref.Parent)
	}
	return op, found, seq, current, err
}

// getRow reads one whole operation that has a row of its own.
func getRow(r *reader, where string, args ...any) (op journal.Operation, found bool, err error) {
	err = r.each(`SELECT `+qualified+`, o.request_body, a.answer, a.body
		FROM onceward_operations o LEFT JOIN onceward_answers a ON a.handle = o.handle AND o.state = 3 AND o.tombstone = 0
		WHERE `+where, func(v []driver.Value) error {
		found = true
		op, err = whole(v)
		return err
	}, args...)
	return op, found, err
}

// whole reads an operation from columns, its request's body, its answer and that
// one's body.
func whole(v []driver.Value) (journal.Operation, error) {
	r, err := format.ReadRow(v)
	if err != nil {
		return journal.Operation{}, err
	}
	k := format.Record{Row: r, Body: format.ToBytes(v[len(v)-3]), Answer: format.ToBytes(v[len(v)-2]), AnswerBody: format.ToBytes(v[len(v)-1])}
	if err := r.GoesWith(k.Answer); err != nil {
		return journal.Operation{}, err
	}
	return k.Operation()
}

// bodiless reads a record from columns, and its answer without both bodies.
func bodiless(v []driver.Value) (*format.Record, error) {
	r, err := format.ReadRow(v)
	if err != nil {
		return nil, err
	}
	answer := format.ToBytes(v[len(v)-1])
	if err := r.GoesWith(answer); err != nil {
		return nil, err
	}
	return &format.Record{Row: r, Answer: answer}, nil
}
