package rows

import (
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// verify compares the file with its sidecar, and makes one for a new journal. It runs in a transaction, so that no other
// process commits, and nothing that the sidecar names is missing meanwhile.
func (d *Driver) verify(h *head) error {
	why, err := d.isBackup()
	if err != nil {
		return err
	}
	side, err := sidecar.Read(d.path)
	if why == "" {
		if why, err = side.Contradicts(err, h.Identity, h.commits, h.commits); err != nil {
			return err
		}
	}
	if why == "" && side == (sidecar.Content{}) {
		new := sidecar.Content{Identity: h.Identity, Number: h.commits}
		if new.WAL, err = sidecar.WALBeside(d.path); err == nil {
			new.Epoch = h.commits
			err = new.Place(d.path)
		}
		if err != nil {
			return err
		}
	}
	d.verified, d.restored = true, nil
	if why != "" {
		d.restored = fmt.Errorf("%w: %s %s; nothing is sent until it is adopted. "+
			"Make sure that no other copy of it is in use, and call Adopt", journal.ErrRestored, d.path, why)
	}
	d.checkpoint.Trusted.Store(d.restored == nil)
	return nil
}

// isBackup returns the commit and the time of which the file is a backup, or nothing.
func (d *Driver) isBackup() (says string, err error) {
	_, err = d.sql.backup.First(func(v []driver.Value) error {
		says = fmt.Sprintf("is the backup that was made at %s, after commit %d", format.ToTime(v[0]).Format(time.RFC3339), v[1])
		return nil
	})
	return says, err
}

// latest returns the sidecar of the latest commit, without what it says of the file alone.
func latest(c *conn.Conn) (side sidecar.Content, err error) {
	s, err := c.Once("SELECT " + headColumns + " FROM onceward_head")
	if err != nil {
		return side, err
	}
	defer s.Close()
	h, err := readHead(s)
	side.Identity, side.Number, side.Epoch = h.Identity, h.commits, h.commits
	return side, err
}
