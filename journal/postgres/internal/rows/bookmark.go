package rows

import (
	"context"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

const (
	selectBookmark  = "SELECT name, version, record FROM {{s}}.bookmarks WHERE name = $1"
	selectBookmarks = "SELECT name, version, record FROM {{s}}.bookmarks WHERE name > $1 ORDER BY name LIMIT $2"
	putBookmark     = `INSERT INTO {{s}}.bookmarks AS b VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET version = excluded.version, record = excluded.record WHERE b.version = excluded.version - 1`
)

// Bookmark implements rowstore.Reader.
func (r *reader) Bookmark(ctx context.Context, name string) (*rowstore.Bookmark, error) {
	found, err := r.bookmarks(ctx, selectBookmark, []byte(name))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// Bookmarks implements rowstore.Reader.
func (r *reader) Bookmarks(ctx context.Context, after string, limit int) ([]*rowstore.Bookmark, error) {
	return r.bookmarks(ctx, selectBookmarks, []byte(after), limit)
}

func (r *reader) bookmarks(ctx context.Context, text string, args ...any) (found []*rowstore.Bookmark, err error) {
	p := r.pipeline()
	p.queue(columns.Into(&found, columns.Bookmark), text, args...)
	_, err = p.send(ctx, r.c)
	return found, meaning(err)
}

// PutBookmark implements rowstore.Tx.
func (t *tx) PutBookmark(ctx context.Context, b *rowstore.Bookmark) error {
	written, err := t.write(ctx, putBookmark, []byte(b.Name), b.Version, b.Record)
	if err == nil && !written {
		err = rowstore.ErrMissed
	}
	return err
}
