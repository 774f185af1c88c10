package rows

import (
	"context"
	"database/sql/driver"
)

const freeBytes = "SELECT (SELECT page_size FROM pragma_page_size) * (SELECT freelist_count FROM pragma_freelist_count)"

// FreeBytes returns how much of the file is free for reuse.
func (d *Driver) FreeBytes(ctx context.Context) (n int64, err error) {
	err = d.with(ctx, "read", func(r *readConn) error { return r.freeBytes(ctx, &n) })
	return n, err
}

// FreeBytes returns how much of the file is free for reuse.
func (d *ReadOnly) FreeBytes(ctx context.Context) (n int64, err error) {
	err = d.with(ctx, "read", func(r *readConn) error { return r.freeBytes(ctx, &n) })
	return n, err
}

func (r *reader) freeBytes(ctx context.Context, n *int64) error {
	return r.each(ctx, freeBytes, nil, func(v []driver.Value) error {
		*n = v[0].(int64)
		return nil
	})
}
