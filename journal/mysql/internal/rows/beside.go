package rows

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

// primary returns statements that fail on a server that is the primary no more. Such a server still serves the connections of
// that time, and may lack later commits.
func (d *Driver) primary() *pipeline {
	p := d.pipeline(true)
	if !d.opts.ReadOnly {
		p.queue(func(rows columns.Row) error {
			var readOnly bool
			err := rows.Scan(&readOnly)
			if err == nil && readOnly {
				err = myerr.IsReadOnly()
			}
			return err
		}, "SELECT @@global.read_only")
	}
	return p
}

// ask sends a statement by beside.
func (d *Driver) ask(ctx context.Context, rows answer, text string, args ...any) error {
	p := d.primary()
	p.queue(rows, text, args...)
	return d.beside(ctx, p)
}

// beside sends statements of primary on a connection beside a transaction. It leaves connections to a former primary.
func (d *Driver) beside(ctx context.Context, p *pipeline) error {
	for try := 0; ; try++ {
		conn, err := d.side.Conn(ctx)
		if err != nil {
			return err
		}
		if err = p.send(ctx, conn); err == nil || myerr.FateOf(err) == myerr.Locked {
			_ = conn.Close()
			return err
		}
		server.HangUp(conn)
		if left := myerr.Number(err) == myerr.ReadOnly || errors.Is(err, driver.ErrBadConn); !left || try == sideConnections {
			return err
		}
	}
}
