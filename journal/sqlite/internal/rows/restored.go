package rows

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/inplace"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
	codes "modernc.org/sqlite/lib"
)

// selectBackup reads the row that marks the file as a backup.
const selectBackup = "SELECT made_at, number FROM onceward_backup"

// gap says why the file may lack commits, by the sidecar and by the file's own words. "" means that the file has all
// commits. A file that the sidecar does not contradict may also have no sidecar yet.
func gap(path string, h *head, backup stmt) (why string, side sidecar.Content, err error) {
	_, err = backup.First(func(v []driver.Value) error {
		why = fmt.Sprintf("is the backup that was made at %s, after commit %d", format.ToTime(v[0]).Format(time.RFC3339), v[1])
		return nil
	})
	if err != nil {
		return "", side, err
	}
	side, err = sidecar.Read(path)
	if why == "" {
		why, err = side.Contradicts(err, h.Identity, h.commits)
		if why == "" {
			return "", side, err
		}
	}
	return path + " " + why, side, nil
}

// trust is this process's knowledge about the file's gap.
type trust struct {
	compared bool // the file was compared with its sidecar
	gap      string
}

// compare compares the file with the sidecar, and makes a sidecar for a new journal. compare runs in a transaction
// with the write lock. So no other process commits, and nothing that the sidecar names is missing meanwhile. compare
// returns h as the core reads h.
func (d *Driver) compare(h *head, backup stmt) (rowstore.Head, error) {
	d.trusting.Lock()
	defer d.trusting.Unlock()
	if !d.trust.compared || d.trust.gap != "" { // another process may have adopted it since
		why, side, err := gap(d.path, h, backup)
		if err == nil && why == "" && side == (sidecar.Content{}) {
			err = sidecar.Content{Identity: h.Identity, Number: h.commits}.Place(d.path)
		}
		if err != nil {
			return h.Head, err
		}
		d.trust = trust{true, why}
	}
	told := h.Head
	told.Restored = cmp.Or(h.Restored, d.trust.gap)
	d.checkpoint.Trusted.Store(told.Restored == "")
	return told, nil
}

// knownGap returns the gap, as this process knows the gap. knownGap asks the file only if there is a gap.
func (d *Driver) knownGap(ctx context.Context) string {
	known := func() string {
		d.trusting.Lock()
		defer d.trusting.Unlock()
		return d.trust.gap
	}
	if known() != "" {
		_ = d.inTransaction(ctx, func(*tx) error { return nil })
	}
	return known()
}

// adopts writes the beginning or the end of an adoption, if the core's head differs from the head that was read. The
// caller calls over once the transaction has ended.
func (t *tx) adopts(new *rowstore.Head) (over func(committed bool), err error) {
	over = func(bool) {}
	switch {
	case new.Restored == t.told.Restored:
		new.Restored = t.head.Restored // the sidecar says the rest
	case new.Restored != "":
		err = t.bury(true)
	default:
		return t.becomeItsOwn(new)
	}
	return over, err
}

// becomeItsOwn gives the journal an identity that no other copy has. The sidecar is written first: until the commit the
// two differ, so the journal counts as restored, and from the commit on they agree.
func (t *tx) becomeItsOwn(new *rowstore.Head) (over func(committed bool), err error) {
	d := t.d
	// Otherwise the checkpointer may be writing the sidecar, and replace the new sidecar by the old one. So may
	// another process. The old sidecar must not make the file look older than the WAL.
	d.checkpoint.Marking.Lock()
	over = func(committed bool) {
		d.checkpoint.Marking.Unlock()
		d.trusting.Lock()
		defer d.trusting.Unlock()
		d.trust = trust{compared: committed}
		if committed {
			d.checkpoint.Trusted.Store(true)
		}
	}
	new.Identity = sidecar.NewIdentity()
	d.identity = new.Identity // within the writer's turn; without the commit, the next transaction reads the former one
	if side, err := sidecar.Read(d.path); err == nil {
		t.head.commits = max(t.head.commits, side.Number+1)
	}
	_, err = t.sql.backup.First(func(v []driver.Value) error {
		t.head.commits = max(t.head.commits, v[1].(int64)+1)
		return nil
	})
	if err == nil {
		_, err = t.sql.noBackup.Exec()
	}
	// A person who saw a receipt from the gap must not name another receipt by the same handle.
	if err == nil {
		_, err = t.sql.skipReceipts.Exec()
	}
	if err == nil {
		err = (sidecar.Content{Identity: new.Identity, Number: t.head.commits - 1}).Place(d.path)
	}
	return over, err
}

// latest returns the sidecar for the latest commit.
func latest(c *conn.Conn) (sidecar.Content, error) {
	h, err := headOf(c)
	return sidecar.Content{Identity: h.Identity, Number: h.commits}, err
}

// refuseStale returns journal.ErrRestored for a file beside a newer file's WAL. refuseStale changes nothing. A
// read-only connection moves no WAL when the connection closes.
func refuseStale(path string) error {
	if !inplace.HasWAL(path) {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return inplace.Stale(path, 1) // SQLite would remove the WAL
	}
	c, err := conn.DialMode(path, "ro", reading)
	if err == nil {
		err = errors.Join(staleBeside(c, path), c.Close())
	}
	return conn.Explain(path, "open", err)
}

// staleBeside is inplace.Stale for a file that is open with a WAL. The WAL does not belong to a journal that only the
// WAL damages.
func staleBeside(c *conn.Conn, path string) error {
	h, err := headOf(c)
	switch {
	case conn.Code(err) == codes.SQLITE_CORRUPT || errors.Is(err, format.ErrDamaged):
		h.base = math.MaxInt64
	case conn.Code(err) == codes.SQLITE_ERROR || conn.Code(err) == codes.SQLITE_NOTADB:
		return nil // there is no journal of this layout in it, as others say
	case err != nil:
		return err
	}
	return inplace.Stale(path, h.base)
}
