package sqlite

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
)

// schema returns the options by which the file is accepted.
func (o Options) schema() schema.Options {
	return schema.Options{Deployment: o.Deployment, Existing: o.Existing, ReadOnly: o.ReadOnly, NoMigration: o.NoMigration}
}

// own notes in the file that it is open with these options, or refuses that. It warns of a file that
// another machine had open before.
func (f *file) own(opts Options) error {
	var was, is schema.Owner
	err := f.writer.do(context.Background(), func(b *batch) (err error) {
		if was, err = schema.OwnerBy(b.sql.ReadOwner); err == nil {
			err = was.Refuses(b.path, opts.schema())
		}
		if is = was.After(opts.schema()); err == nil && is != was {
			err = b.giveUp(is.Write(b.sql.WriteOwner)) // in no row of the log: it is not a part of the record
		}
		return conn.Explain(b.path, "open", err)
	})
	// Containers of one machine may have different IDs, and a machine that boots has the same.
	if err == nil && was.Machine != "" && was.Machine != is.Machine && was.Boot != is.Boot {
		cmp.Or(opts.Logger, slog.Default()).Warn("onceward: another machine had the journal open before. "+
			"If the file was copied rather than moved, end this process, and see Options.Deployment", "journal", f.path)
	}
	return err
}

// mayJoin returns ErrDeployment for a program that did not say whose journal it takes this for.
func (b *batch) mayJoin(opts Options) error {
	is, err := schema.OwnerBy(b.sql.ReadOwner)
	if err != nil {
		return b.fail(err)
	}
	opts.Existing, opts.ReadOnly = false, false
	return is.Refuses(b.path, opts.schema())
}

// AdoptAs is Adopt for a journal that moves to another deployment, restored or not. It records the name,
// which Open then requires. Every operation without an answer counts as sent, as after Adopt. Until it
// returns, the journal counts as restored. If it fails halfway, call it again.
//
// Call it on a Journal that was opened with Options.Existing and without Options.Deployment. With an empty
// name, the next Open with a name sets it.
func (j *logJournal) AdoptAs(ctx context.Context, deployment string) error {
	return j.adopt(ctx, func(*batch) (bool, error) { return true, nil }, func(b *batch) error {
		is, err := schema.OwnerBy(b.sql.ReadOwner)
		if err != nil {
			return err
		}
		is.Deployment = deployment
		return is.Write(b.sql.WriteOwner)
	})
}
