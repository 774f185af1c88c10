package mapdb

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/onceward/onceward/journal/internal/rowstore"
)

func (v *view) Bookmark(_ context.Context, name string) (*rowstore.Bookmark, error) {
	defer v.db.lock()()
	return get(v.changed.bookmarks, v.db.bookmarks, name), nil
}

func (v *view) Bookmarks(_ context.Context, after string, limit int) (found []*rowstore.Bookmark, err error) {
	defer v.db.lock()()
	for name, b := range all(v.changed.bookmarks, v.db.bookmarks) {
		if name > after {
			found = append(found, b)
		}
	}
	slices.SortFunc(found, func(a, b *rowstore.Bookmark) int { return strings.Compare(a.Name, b.Name) })
	return found[:min(len(found), limit)], nil
}

func (t *tx) PutBookmark(ctx context.Context, b *rowstore.Bookmark) error {
	defer t.db.lock()()
	if held, err := t.db.take(ctx, t, bookmarkName(b.Name), t.lock); err != nil || !held {
		return cmp.Or(err, rowstore.ErrLocked)
	}
	was := get(t.changed.bookmarks, t.db.bookmarks, b.Name)
	if was == nil && b.Version != 1 || was != nil && was.Version != b.Version-1 {
		return rowstore.ErrMissed
	}
	set(&t.changed.bookmarks, b.Name, b)
	return nil
}
