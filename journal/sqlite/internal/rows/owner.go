package rows

import (
	"context"
	"errors"
	"fmt"
)

// ErrDeployment is sqlite.ErrDeployment.
var ErrDeployment = errors.New("sqlite: the journal of another deployment")

// refuses returns ErrDeployment for a program that opens another deployment's file. A program that only looks, or
// records single decisions (Options.Existing), need not know the file's owner.
func (o Options) refuses(path, is string) error {
	if is == "" || o.Deployment == is || o.Deployment == "" && o.Existing {
		return nil
	}
	return fmt.Errorf("%w: %s is the journal of %q, and Options.Deployment is %q: give this deployment a journal of its own, if this is a copy, such as a snapshot. "+
		"To go on with it on purpose, open it with Options.Existing and without Deployment, and call AdoptAs", ErrDeployment, path, is, o.Deployment)
}

// mayJoin returns ErrDeployment for a program that did not name the journal's deployment.
func (o Options) mayJoin(path, is string) error {
	o.Existing = false
	return o.refuses(path, is)
}

// own records the deployment from the driver's options in a file without one, or refuses another deployment's file.
func (t *tx) own(ctx context.Context) error {
	opts, is := t.d.opts, t.head.Deployment
	if err := opts.refuses(t.d.path, is); err != nil || is != "" || opts.Deployment == "" {
		return err
	}
	named := t.told
	named.Deployment = opts.Deployment
	return t.Commit(ctx, named, nil)
}

// Refuses returns ErrDeployment for a program that names another deployment.
func (d *ReadOnly) Refuses(deployment string) error {
	return d.with(context.Background(), "open", func(r *readConn) error {
		return refuse(r.c, d.path, Options{Deployment: deployment, Existing: true})
	})
}
