package rowstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// Bookmark is a bookmark as a database has it.
type Bookmark struct {
	Name    string
	Version int64
	Record  []byte // the rest, with a checksum of all of the row
}

// BookmarkReader reads bookmarks.
type BookmarkReader interface {
	// Bookmark returns the bookmark of a name. Nil means none.
	Bookmark(ctx context.Context, name string) (*Bookmark, error)
	// Bookmarks returns bookmarks in ascending order of their names' bytes, after one.
	Bookmarks(ctx context.Context, after string, limit int) ([]*Bookmark, error)
}

// BookmarkWriter writes bookmarks.
type BookmarkWriter interface {
	// PutBookmark writes a bookmark. It returns ErrMissed if the stored row does not have the version before, or, for
	// version 1, if there is a row.
	PutBookmark(ctx context.Context, b *Bookmark) error
}

// Bookmark implements journal.Bookmarks.
func (s *Store) Bookmark(ctx context.Context, name string) (b journal.Bookmark, err error) {
	if err := s.open(ctx); err != nil {
		return b, err
	}
	err = s.source.Read(ctx, func(r Reader) error {
		b, err = bookmark(ctx, r, name)
		return err
	})
	return b, err
}

func bookmark(ctx context.Context, r Reader, name string) (journal.Bookmark, error) {
	row, err := r.Bookmark(ctx, name)
	if err != nil || row == nil {
		return journal.Bookmark{Name: name}, err
	}
	return decodeBookmark(row)
}

func decodeBookmark(row *Bookmark) (journal.Bookmark, error) {
	b := journal.Bookmark{Name: row.Name, Version: row.Version}
	err := format.DecodeBookmark(&b, row.Record)
	if err != nil {
		err = fmt.Errorf("bookmark %q: %w", row.Name, err)
	}
	return b, err
}

// SetBookmark implements journal.Bookmarks.
func (s *Store) SetBookmark(ctx context.Context, b journal.Bookmark) (is journal.Bookmark, err error) {
	if err := s.writable(ctx); err != nil {
		return is, err
	}
	if err := checkBookmark(&b); err != nil {
		return is, err
	}
	b.Note = append([]byte(nil), b.Note...) // the caller may change its own
	err = s.alone(ctx, &request{run: func(t *batch) (err error) {
		is, err = t.setBookmark(b)
		return err
	}})
	if err != nil && !errors.Is(err, journal.ErrBookmarkChanged) {
		return journal.Bookmark{}, err
	}
	return is, err
}

func checkBookmark(b *journal.Bookmark) error {
	switch {
	case b.Name == "":
		return fmt.Errorf("%w: it needs a name", journal.ErrInvalidBookmark)
	case len(b.Name) > journal.MaxBookmarkName:
		return fmt.Errorf("%w: its name has %d bytes: at most %d are kept", journal.ErrInvalidBookmark, len(b.Name), journal.MaxBookmarkName)
	case len(b.Note) > journal.MaxBookmarkNote:
		return fmt.Errorf("%w: the note of %q has %d bytes: at most %d are kept", journal.ErrInvalidBookmark, b.Name, len(b.Note), journal.MaxBookmarkNote)
	case b.At.IsZero():
		return fmt.Errorf("%w: %q needs a time", journal.ErrInvalidBookmark, b.Name)
	}
	return nil
}

// setBookmark returns the bookmark as it is recorded then.
func (b *batch) setBookmark(to journal.Bookmark) (journal.Bookmark, error) {
	if err := b.head.trusted(); err != nil {
		return to, err
	}
	is, err := bookmark(b.ctx, b.tx, to.Name)
	if err != nil {
		return is, b.fail(err)
	}
	if to.At = time.UnixMilli(to.At.UnixMilli()).UTC(); to.At.Before(is.At) {
		to.At = is.At
	}
	switch {
	case to.At.Equal(is.At) && bytes.Equal(to.Note, is.Note):
		return is, nil
	case to.Version != is.Version:
		return is, journal.ErrBookmarkChanged
	}
	to.Version++
	b.keep = true
	record := format.EncodeBookmark(&to)
	err = b.tx.PutBookmark(b.ctx, &Bookmark{to.Name, to.Version, record})
	return to, b.fail(err)
}

// bookmarkPage is how many bookmarks are read at once, with notes of 16 MiB at most.
const bookmarkPage = 64

// ListBookmarks implements journal.Bookmarks.
func (s *Store) ListBookmarks(ctx context.Context) iter.Seq2[journal.Bookmark, error] {
	return func(yield func(journal.Bookmark, error) bool) {
		var passed error // of the first damaged one
		after := ""
		for more := true; more; {
			page, err := s.bookmarkPage(ctx, after)
			for _, row := range page {
				after = row.Name
				b, damaged := decodeBookmark(row)
				if !passes(damaged, &passed) && !yield(b, nil) {
					return
				}
			}
			more = err == nil && len(page) == bookmarkPage
			if !more {
				err = cmp.Or(err, passed)
			}
			if err != nil {
				yield(journal.Bookmark{}, err)
			}
		}
	}
}

func (s *Store) bookmarkPage(ctx context.Context, after string) (page []*Bookmark, err error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	err = s.source.Read(ctx, func(r Reader) error {
		page, err = r.Bookmarks(ctx, after, bookmarkPage)
		return err
	})
	return page, err
}
