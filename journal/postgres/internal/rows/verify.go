package rows

import (
	"context"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// strays are operations' parts, and flows' steps, without their row.
const strays = `SELECT false, handle FROM {{s}}.requests r WHERE NOT EXISTS (SELECT 1 FROM {{s}}.operations WHERE handle = r.handle)
	UNION SELECT false, handle FROM {{s}}.answers a WHERE NOT EXISTS (SELECT 1 FROM {{s}}.operations WHERE handle = a.handle)
	UNION SELECT true, flow FROM {{s}}.flow_steps s WHERE NOT EXISTS (SELECT 1 FROM {{s}}.flows WHERE handle = s.flow)`

// Check implements rowstore.Source. The server's own files are for amcheck and checksums.
func (d *Driver) Check(ctx context.Context, found func(journal.Violation)) error {
	return d.Read(ctx, func(r rowstore.Reader) error {
		p := &pipeline{d: d}
		p.queue(columns.Stray(found), strays)
		_, err := p.send(ctx, r.(*reader).c)
		return meaning(err)
	})
}
