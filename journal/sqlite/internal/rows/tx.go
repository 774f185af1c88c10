package rows

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// statements are the writing connection's statements.
type statements struct {
	reader
	begin, commit, rollback, save, release, undo, setHead, noBackup, skipReceipts, join, leave, member, members, holds stmt

	insert, update, remove, addName, removeName, addMark, removeMark stmt
	request, noRequest, answer, noAnswer, hear, forget               stmt
}

// setHead writes what head.changing returns.
const setHead = "UPDATE onceward_head SET identity = ?, epoch = ?, base = ?, newest = ?, number = ?, last_at = ?, jumped_at = ?, least_margin = ?, ahead_at = ?, hook = ?, naming = ?, restored = ?, adoptions = ?, deployment = ?, leaps = ?, sum = ?"

func newStatements(prepare preparer, path string, known *heads) *statements {
	s := &statements{reader: *newReader(prepare, path, known)}
	prepareAll(prepare, []toPrepare{
		{&s.begin, "BEGIN IMMEDIATE"}, {&s.commit, "COMMIT"}, {&s.rollback, "ROLLBACK"},
		{&s.save, "SAVEPOINT onceward_rows"}, {&s.release, "RELEASE onceward_rows"}, {&s.undo, "ROLLBACK TO onceward_rows"},
		{&s.setHead, setHead},
		{&s.noBackup, "DELETE FROM onceward_backup"},
		{&s.skipReceipts, "UPDATE onceward_receipts_removed SET handle = max(handle, (SELECT coalesce(max(handle), 0) FROM onceward_receipts)) + 10000000000"},
		{&s.join, "INSERT INTO onceward_sessions VALUES (?)"},
		{&s.leave, "DELETE FROM onceward_sessions WHERE id = ?"},
		{&s.member, selectMember},
		{&s.members, "SELECT id FROM onceward_sessions"},
		{&s.holds, "SELECT 1 FROM onceward_rows WHERE holder = ?1 UNION ALL SELECT 1 FROM onceward_flows WHERE state = 1 AND holder = ?1 LIMIT 1"},
		{&s.insert, "INSERT INTO onceward_rows (handle, state, holder, wake_at, settled_at, told, reaped, provider, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"},
		{&s.update, "UPDATE onceward_rows SET state = ?2, holder = ?3, wake_at = ?4, settled_at = ?5, told = ?6, reaped = ?7, provider = ?8, record = ?9 WHERE handle = ?1"},
		{&s.remove, "DELETE FROM onceward_rows WHERE handle = ?"},
		{&s.addName, "INSERT INTO onceward_names (digest, handle) VALUES (?, ?) ON CONFLICT DO NOTHING"},
		{&s.removeName, "DELETE FROM onceward_names WHERE digest = ? AND handle = ?"},
		{&s.addMark, "INSERT INTO onceward_marks (mark, handle) VALUES (?, ?) ON CONFLICT DO NOTHING"},
		{&s.removeMark, "DELETE FROM onceward_marks WHERE mark = ? AND handle = ?"},
		{&s.request, "INSERT OR REPLACE INTO onceward_requests (handle, head, body) VALUES (?, ?, ?)"},
		{&s.noRequest, "DELETE FROM onceward_requests WHERE handle = ?"},
		{&s.answer, "INSERT OR REPLACE INTO onceward_answers (handle, head, body) VALUES (?, ?, ?)"},
		{&s.hear, "INSERT INTO onceward_heard (digest, at) VALUES (?, ?) ON CONFLICT DO NOTHING"},
		{&s.forget, "DELETE FROM onceward_heard WHERE digest IN (SELECT digest FROM onceward_heard WHERE at < ? LIMIT ?)"},
		{&s.noAnswer, "DELETE FROM onceward_answers WHERE handle = ?"},
	})
	return s
}

// tx is a process's only open transaction.
type tx struct {
	*reader
	d     *Driver
	sql   *statements
	head  head          // as it is recorded, or will be
	told  rowstore.Head // as the core has read it
	ended bool
	count func() error // called before a write of a receipt or a flow; nil: Commit counts it
}

// Head implements rowstore.Reader.
func (t *tx) Head(context.Context) (rowstore.Head, error) { return t.told, nil }

// Restored implements rowstore.Reader.
func (t *tx) Restored(context.Context) (string, error) { return t.told.Restored, nil }

// Handle implements rowstore.Tx.
func (t *tx) Handle(context.Context) (int64, error) {
	t.head.Newest++
	return t.head.Newest, nil
}

// RecordEvent implements rowstore.Tx.
func (t *tx) RecordEvent(_ context.Context, digest []byte, at int64) (bool, error) {
	n, err := t.sql.hear.Exec(digest, at)
	return n == 1, conn.Explain(t.d.path, "write", err)
}

// Forget implements rowstore.Tx.
func (t *tx) Forget(_ context.Context, before int64, limit int) error {
	_, err := t.sql.forget.Exec(before, limit)
	return conn.Explain(t.d.path, "write", err)
}

// Put implements rowstore.Tx.
func (t *tx) Put(_ context.Context, changes []*rowstore.Change) error {
	for _, c := range changes {
		if err := t.put(c); err != nil {
			if conn.OfOneStatement(err) {
				err = fmt.Errorf("%w: %w", rowstore.ErrRefused, err)
			}
			return conn.Explain(t.d.path, "write", err)
		}
	}
	return nil
}

func (t *tx) put(c *rowstore.Change) error {
	if err := t.putRow(c); err != nil {
		return err
	}
	s, handle := t.sql, c.Row.Handle
	for _, name := range c.RemoveNames {
		if _, err := s.removeName.Exec(name[:], handle); err != nil {
			return err
		}
	}
	for _, name := range c.AddNames {
		if err := one(s.addName.Exec(name[:], handle)); err != nil {
			return err
		}
	}
	if err := each(s.removeMark, c.RemoveMarks, handle); err != nil {
		return err
	}
	if err := each(s.addMark, c.AddMarks, handle); err != nil {
		return err
	}
	return each(s.addMark, c.LeaveMarks, 0)
}

// putRow writes the row and the row's parts.
func (t *tx) putRow(c *rowstore.Change) error {
	s, r := t.sql, c.Row
	if c.Remove {
		if err := one(s.remove.Exec(r.Handle)); err != nil {
			return err
		}
		_, request := s.noRequest.Exec(r.Handle)
		_, answer := s.noAnswer.Exec(r.Handle)
		return errors.Join(request, answer)
	}
	write := s.update
	if c.Insert {
		write = s.insert
	}
	var wake, settled any
	if r.HasWake {
		wake = r.Wake
	}
	if r.Settled != 0 {
		settled = r.Settled
	}
	if err := one(write.Exec(r.Handle, int64(r.State), format.Nullable(r.Holder), wake, settled, r.Told, r.Reaped, r.Provider, r.Record)); err != nil {
		return err
	}
	if c.Request {
		if err := putPart(s.request, s.noRequest, r.Handle, r.Request); err != nil {
			return err
		}
	}
	if c.Answer {
		return putPart(s.answer, s.noAnswer, r.Handle, r.Answer)
	}
	return nil
}

func putPart(put, remove stmt, handle int64, p *rowstore.Part) (err error) {
	if p == nil {
		_, err = remove.Exec(handle)
	} else {
		_, err = put.Exec(handle, p.Head, p.Body)
	}
	return err
}

func each(s stmt, marks []int64, handle int64) error {
	for _, mark := range marks {
		if _, err := s.Exec(mark, handle); err != nil {
			return err
		}
	}
	return nil
}

// one is ErrMissed unless one row was changed.
func one(changed int64, err error) error {
	if err == nil && changed != 1 {
		return rowstore.ErrMissed
	}
	return err
}

// Commit implements rowstore.Tx.
func (t *tx) Commit(ctx context.Context, new rowstore.Head, changes []*rowstore.Change) error {
	defer t.Rollback()
	if err := t.Put(ctx, changes); err != nil {
		return err
	}
	new.Newest = max(new.Newest, t.head.Newest)
	// A restored file does not catch up with the sidecar, however much the file records.
	if t.told.Restored == "" || new.Restored == "" {
		t.head.commits++
	}
	over, err := t.adopts(&new)
	defer func() { over(err == nil) }()
	if err != nil {
		return conn.Explain(t.d.path, "adopt it", err)
	}
	if new.Sealed != t.told.Sealed {
		if err = t.seal(new.Sealed); err != nil {
			return conn.Explain(t.d.path, "seal it", err)
		}
	}
	t.head.Head = new
	if err = t.setHead(); err != nil {
		return conn.Explain(t.d.path, "write the head", cmp.Or(t.d.outOfPlace(), err))
	}
	return t.end()
}

// seal writes the keys that have sealed payloads.
func (t *tx) seal(keys string) error {
	if err := t.d.writer.Exec(sealedTable); err != nil {
		return err
	}
	t.head.version = sealedVersion
	return one(t.prepare("UPDATE onceward_sealed SET keys = ?, sum = ?").Exec(keys, int64(format.Sum([]byte(keys)))))
}

// setHead writes the head.
func (t *tx) setHead() error {
	changing := t.head.changing()
	t.known.keep(t.head, changing)
	_, err := t.sql.setHead.Exec(changing...)
	return err
}

// end commits, if the files are in their places before and after. If the files are no longer there, later readers
// find another file. An error from SQLite leaves no record of the transaction, as far as this process can tell.
func (t *tx) end() error {
	defer t.Rollback()
	d := t.d
	if err := d.outOfPlace(); err != nil {
		return conn.Explain(d.path, "commit", err)
	}
	if _, err := t.sql.commit.Exec(); err != nil {
		_, _ = t.sql.rollback.Exec() // SQLite may have done so itself
		_ = d.outOfPlace()           // for its record; its error may not say that nothing was recorded
		return conn.Explain(d.path, "commit", err)
	}
	t.ended = true
	defer d.pass()
	d.commits = t.head.commits
	if err := d.files.StillInPlace(); err != nil {
		_ = d.checkpoint.Keep(d.identity, d.commits)
		return err
	}
	if d.files.BeganAnew() {
		d.rebase()
	}
	d.checkpoint.Wrote(d.writer)
	return nil
}

// rebase writes the base for a WAL that the latest commit has begun. If rebase fails, the next commit writes the
// base.
func (d *Driver) rebase() {
	t := &tx{d: d, sql: d.sql, reader: &d.sql.reader}
	_, err := d.sql.begin.Exec()
	if err != nil {
		return
	}
	if t.head, err = d.sql.readHead(); err == nil {
		err = d.follow(&t.head)
	}
	if err == nil {
		err = t.setHead()
	}
	if err == nil {
		_, err = d.sql.commit.Exec()
	}
	if err != nil {
		_, _ = d.sql.rollback.Exec()
	}
}

// Rollback implements rowstore.Tx.
func (t *tx) Rollback() {
	if t.ended {
		return
	}
	t.ended = true
	_, _ = t.sql.rollback.Exec()
	t.d.pass()
}
