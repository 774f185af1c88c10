// Package deployment has whose the file is: the deployment that opened it, and the machine that had it open last.
package deployment

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// Table is the table of the owner.
const Table = `
-- One row.
CREATE TABLE onceward_owner (
	one        INTEGER PRIMARY KEY CHECK (one = 1),
	deployment TEXT NOT NULL, -- Options.Deployment; '': no Open has named one
	machine    TEXT NOT NULL, -- of the latest Open, hashed; '': it can't tell
	boot       TEXT NOT NULL  -- of that machine, likewise
) STRICT;
INSERT INTO onceward_owner VALUES (1, '', '', '');
`

// ErrOther is sqlite.ErrDeployment.
var ErrOther = errors.New("sqlite: the journal of another deployment")

// Options are the fields of sqlite.Options by which a file is accepted.
type Options struct {
	Deployment string
	Existing   bool
}

// Owner is the deployment of the file, and the machine and boot at its last Open.
type Owner struct{ Deployment, Machine, Boot string }

// Read and Update are the statements of By and Owner.Write.
const (
	Read   = "SELECT deployment, machine, boot FROM onceward_owner"
	Update = "UPDATE onceward_owner SET deployment = ?, machine = ?, boot = ?"
)

// By reads the owner by the statement Read.
func By(read interface {
	First(f func([]driver.Value) error, args ...any) (bool, error)
}) (is Owner, err error) {
	_, err = read.First(func(v []driver.Value) error {
		is = Owner{v[0].(string), v[1].(string), v[2].(string)}
		return nil
	})
	return is, err
}

// Write writes the owner by the statement Update.
func (is Owner) Write(update *conn.Stmt) error {
	_, err := update.Exec(is.Deployment, is.Machine, is.Boot)
	return err
}

// Refuses returns ErrOther for a program that opens the file of another deployment. A program that
// only looks, or records single decisions (Options.Existing), need not know whose the file is.
func (is Owner) Refuses(path string, opts Options) error {
	if is.Deployment == "" || opts.Deployment == is.Deployment || opts.Deployment == "" && opts.Existing {
		return nil
	}
	return fmt.Errorf("%w: %s is the journal of %q, and Options.Deployment is %q: give this deployment a journal of its own, if this is a copy, such as a snapshot. "+
		"To go on with it on purpose, open it with Options.Existing and without Deployment, and call AdoptAs", ErrOther, path, is.Deployment, opts.Deployment)
}

// After is the owner once the file is open with these options here.
func (is Owner) After(opts Options) Owner {
	if machine, boot := osfile.Machine(); machine != "" && !opts.Existing {
		is.Machine, is.Boot = machine, boot
	}
	is.Deployment = cmp.Or(is.Deployment, opts.Deployment)
	return is
}
