package severed

import (
	"context"
	"iter"

	"github.com/onceward/onceward/journal"
)

var _ journal.Bookmarks = (*Journal)(nil)

func (j *Journal) Bookmark(ctx context.Context, name string) (journal.Bookmark, error) {
	if err := j.Alive(); err != nil {
		return journal.Bookmark{}, err
	}
	return j.Store.(journal.Bookmarks).Bookmark(ctx, name)
}

func (j *Journal) SetBookmark(ctx context.Context, b journal.Bookmark) (journal.Bookmark, error) {
	if err := j.Alive(); err != nil {
		return journal.Bookmark{}, err
	}
	set, err := j.Store.(journal.Bookmarks).SetBookmark(ctx, b)
	if cut := j.Alive(); cut != nil {
		return journal.Bookmark{}, cut
	}
	return set, err
}

func (j *Journal) ListBookmarks(ctx context.Context) iter.Seq2[journal.Bookmark, error] {
	if err := j.Alive(); err != nil {
		return func(yield func(journal.Bookmark, error) bool) { yield(journal.Bookmark{}, err) }
	}
	return j.Store.(journal.Bookmarks).ListBookmarks(ctx)
}
