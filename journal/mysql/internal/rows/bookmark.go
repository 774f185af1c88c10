package rows

import (
	"context"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Bookmark implements rowstore.Reader.
func (r *reader) Bookmark(ctx context.Context, name string) (b *rowstore.Bookmark, err error) {
	found, err := r.bookmarks(ctx, "WHERE name = ?", name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// Bookmarks implements rowstore.Reader.
func (r *reader) Bookmarks(ctx context.Context, after string, limit int) ([]*rowstore.Bookmark, error) {
	return r.bookmarks(ctx, "WHERE name > ? ORDER BY name LIMIT ?", after, limit)
}

func (r *reader) bookmarks(ctx context.Context, which string, args ...any) (found []*rowstore.Bookmark, err error) {
	err = r.query(ctx, columns.Into(&found, columns.Bookmark), "SELECT name, version, record FROM {{s}}.bookmarks "+which, args...)
	return found, err
}

// PutBookmark implements rowstore.Tx.
func (t *tx) PutBookmark(ctx context.Context, b *rowstore.Bookmark) error {
	text, args := "UPDATE {{s}}.bookmarks SET record = ?, version = ? WHERE name = ? AND version = ?", []any{b.Record, b.Version, b.Name, b.Version - 1}
	if b.Version == 1 {
		text, args = "INSERT INTO {{s}}.bookmarks (record, version, name) VALUES (?, ?, ?)", args[:3]
	}
	written, err := t.write(ctx, text, args...)
	if err == nil && !written {
		err = rowstore.ErrMissed
	}
	return err
}
