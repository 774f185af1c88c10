package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"

	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// ownerTables are for whose the file is.
const ownerTables = `
-- One row.
CREATE TABLE onceward_owner (
	one        INTEGER PRIMARY KEY CHECK (one = 1),
	deployment TEXT NOT NULL, -- Options.Deployment; '': no Open has named one
	machine    TEXT NOT NULL, -- of the latest Open, hashed; '': it can't tell
	boot       TEXT NOT NULL  -- of that machine, likewise
) STRICT;
INSERT INTO onceward_owner VALUES (1, '', '', '');
`

// ownerSince is the first version of the schema that has ownerTables.
const ownerSince = 4

// owner is the deployment of the file, and the machine and boot at its last Open.
type owner struct{ deployment, machine, boot string }

const (
	readOwner  = "SELECT deployment, machine, boot FROM onceward_owner"
	writeOwner = "UPDATE onceward_owner SET deployment = ?, machine = ?, boot = ?"
)

func ownerBy(read *conn.Stmt) (is owner, err error) {
	_, err = read.First(func(v []driver.Value) error {
		is = owner{v[0].(string), v[1].(string), v[2].(string)}
		return nil
	})
	return is, err
}

// ownerOf is ownerBy for a connection that has no such statement.
func ownerOf(c *conn.Conn) (is owner, err error) {
	read, err := c.Prepare(readOwner)
	if err != nil {
		return is, err
	}
	return ownerBy(read)
}

func (is owner) write(update *conn.Stmt) error {
	_, err := update.Exec(is.deployment, is.machine, is.boot)
	return err
}

// refuses returns ErrDeployment for a program that opens the file of another deployment. A program that
// only looks, or records single decisions (Options.Existing), need not know whose the file is.
func (is owner) refuses(path string, opts Options) error {
	if is.deployment == "" || opts.Deployment == is.deployment || opts.Deployment == "" && (opts.Existing || opts.ReadOnly) {
		return nil
	}
	return fmt.Errorf("%w: %s is that of %q, and Options.Deployment is %q: if it is a copy, such as a snapshot of the volume, start this deployment with a journal of its own; "+
		"to go on with it on purpose, open it with Options.Existing and without Deployment, and call AdoptAs", ErrDeployment, path, is.deployment, opts.Deployment)
}

// after is the owner once the file is open with these options here.
func (is owner) after(opts Options) owner {
	if machine, boot := osfile.Machine(); machine != "" && !opts.Existing {
		is.machine, is.boot = machine, boot
	}
	is.deployment = cmp.Or(is.deployment, opts.Deployment)
	return is
}

// own notes in the file that it is open with these options, or refuses that. It warns of a file that
// another machine had open before.
func (f *file) own(opts Options) error {
	var was, is owner
	err := f.writer.do(context.Background(), func(b *batch) (err error) {
		if was, err = ownerBy(b.sql.readOwner); err == nil {
			err = was.refuses(b.path, opts)
		}
		if is = was.after(opts); err == nil && is != was {
			err = b.giveUp(is.write(b.sql.writeOwner)) // in no row of the log: it is not a part of the record
		}
		return conn.Explain(b.path, "open", err)
	})
	// Containers of one machine may have different IDs, and a machine that boots has the same.
	if err == nil && was.machine != "" && was.machine != is.machine && was.boot != is.boot {
		cmp.Or(opts.Logger, slog.Default()).Warn("onceward: another machine had the journal open before: if it was moved, all is well; "+
			"if it was copied, end this process, and see Options.Deployment", "journal", f.path)
	}
	return err
}

// mayJoin returns ErrDeployment for a program that did not say whose journal it takes this for.
func (b *batch) mayJoin(opts Options) error {
	is, err := ownerBy(b.sql.readOwner)
	if err != nil {
		return b.fail(err)
	}
	opts.Existing, opts.ReadOnly = false, false
	return is.refuses(b.path, opts)
}

// AdoptAs is Adopt for a journal that moves to another deployment, restored or not. It records the name,
// which Open then requires. Every operation without an answer counts as sent, as after Adopt. Until it
// returns, the journal counts as restored. If it fails halfway, call it again.
//
// Call it on a Journal that was opened with Options.Existing and without Options.Deployment. With an empty
// name, the next Open with a name sets it.
func (j *Journal) AdoptAs(ctx context.Context, deployment string) error {
	return j.adopt(ctx, func(*batch) (bool, error) { return true, nil }, func(b *batch) error {
		is, err := ownerBy(b.sql.readOwner)
		if err != nil {
			return err
		}
		is.deployment = deployment
		return is.write(b.sql.writeOwner)
	})
}
