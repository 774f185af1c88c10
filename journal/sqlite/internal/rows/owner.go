package rows

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/deployment"
)

// ErrDeployment is sqlite.ErrDeployment.
var ErrDeployment = deployment.ErrOther

// Own notes in the file that it is open with these options, or refuses that. It warns of a file that another machine had
// open before.
func (d *Driver) Own(opts Options) error {
	var was, is deployment.Owner
	err := d.inTransaction(context.Background(), func(t *tx) (err error) {
		if was, err = d.owner(); err == nil {
			err = was.Refuses(d.path, opts.owner())
		}
		if is = was.After(opts.owner()); err != nil || is == was {
			return err
		}
		if _, err := d.sql.setOwner.Exec(is.Deployment, is.Machine, is.Boot); err != nil {
			return err
		}
		return t.end(false) // it is not a part of the record, so that no number rises
	})
	// Containers of one machine may have different IDs, and a machine that boots has the same.
	if err == nil && was.Machine != "" && was.Machine != is.Machine && was.Boot != is.Boot {
		cmp.Or(opts.Logger, slog.Default()).Warn("onceward: another machine had the journal open before. "+
			"If the file was copied rather than moved, end this process, and see Options.Deployment", "journal", d.path)
	}
	return conn.Explain(d.path, "open", err)
}

// Refuses returns ErrDeployment for a program that names another deployment.
func (d *ReadOnly) Refuses(deployment string) error {
	return d.with(context.Background(), "open", func(r *readConn) error {
		return refuse(r.c, d.path, Options{Deployment: deployment, Existing: true})
	})
}

// mayJoin returns ErrDeployment for a program that did not say whose journal it takes this for.
func (d *Driver) mayJoin(opts Options) error {
	is, err := d.owner()
	if err != nil {
		return err
	}
	opts.Existing = false
	return is.Refuses(d.path, opts.owner())
}

// setDeployment changes whose journal it is.
func (t *tx) setDeployment(to string) error {
	is, err := t.d.owner()
	if err == nil {
		_, err = t.sql.setOwner.Exec(to, is.Machine, is.Boot)
	}
	return err
}

func (d *Driver) owner() (deployment.Owner, error) { return deployment.By(d.sql.owner) }

func (o Options) owner() deployment.Options {
	return deployment.Options{Deployment: o.Deployment, Existing: o.Existing}
}
