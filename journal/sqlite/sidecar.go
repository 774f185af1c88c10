package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// verify compares the journal with its sidecar, and makes one for a new journal. It runs in a transaction, so
// that no other process commits, and nothing that the sidecar names is missing meanwhile.
func (b *batch) verify() error {
	why, err := b.isBackup()
	if err != nil {
		return err
	}
	side, err := sidecar.Read(b.path)
	if why == "" {
		if why, err = side.Contradicts(err, b.identity, b.seq, b.number); err != nil {
			return err
		}
	}
	if why == "" && side == (sidecar.Content{}) {
		// Records of the application's transactions have no row in the log yet.
		err := b.read(b.sql.ReadOutbox, func([]driver.Value) error {
			why = "has history, and no sidecar"
			return conn.ErrEnough
		})
		if err != nil && !errors.Is(err, conn.ErrEnough) {
			return err
		}
	}
	if why == "" && side == (sidecar.Content{}) {
		new := sidecar.Content{Identity: b.identity, Number: b.number}
		if new.WAL, err = sidecar.WALBeside(b.path); err == nil {
			new.Epoch = b.epoch
			err = new.Place(b.path)
		}
		if err != nil {
			return err
		}
	}
	b.verified, b.restored = true, nil
	if why != "" {
		b.restored = fmt.Errorf("%w: %s %s; nothing is sent until it is adopted. "+
			"Make sure that no other copy of it is in use, and call Adopt", journal.ErrRestored, b.path, why)
	}
	b.checkpoint.Trusted.Store(b.restored == nil)
	return nil
}

// refuses returns journal.ErrRestored for events that would send, decide or forget by an incomplete record.
func (b *batch) refuses(kind journal.EventKind) error {
	if store.NeedsTrust(kind) {
		return b.restored
	}
	return nil
}
