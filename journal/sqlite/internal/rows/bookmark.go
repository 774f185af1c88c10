package rows

import (
	"context"
	"database/sql/driver"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

const (
	selectBookmark  = "SELECT name, version, record FROM onceward_bookmarks WHERE name = ?"
	selectBookmarks = "SELECT name, version, record FROM onceward_bookmarks WHERE name > ? ORDER BY name LIMIT ?"
	putBookmark     = "INSERT INTO onceward_bookmarks VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version, record = excluded.record WHERE version = excluded.version - 1"
)

// Bookmark implements rowstore.Reader.
func (r *reader) Bookmark(ctx context.Context, name string) (*rowstore.Bookmark, error) {
	found, err := r.bookmarks(ctx, selectBookmark, name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// Bookmarks implements rowstore.Reader.
func (r *reader) Bookmarks(ctx context.Context, after string, limit int) ([]*rowstore.Bookmark, error) {
	return r.bookmarks(ctx, selectBookmarks, after, int64(limit))
}

func (r *reader) bookmarks(ctx context.Context, text string, args ...any) (found []*rowstore.Bookmark, err error) {
	err = r.each(ctx, text, args, func(v []driver.Value) error {
		found = append(found, &rowstore.Bookmark{Name: v[0].(string), Version: v[1].(int64), Record: format.ToBytes(v[2])})
		return nil
	})
	return found, err
}

// PutBookmark implements rowstore.Tx.
func (t *tx) PutBookmark(_ context.Context, b *rowstore.Bookmark) error {
	return one(t.exec(putBookmark, b.Name, b.Version, b.Record))
}
