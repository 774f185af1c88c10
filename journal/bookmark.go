package journal

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Bookmarks is a Journal with bookmarks: how far a program has read a growing list, such as a provider's events. It is
// optional. This module's stores implement Bookmarks.
type Bookmarks interface {
	// Bookmark returns the bookmark of a name. If there is none, it returns one with the Name alone.
	Bookmark(ctx context.Context, name string) (Bookmark, error)

	// SetBookmark records a bookmark that the caller has read, with another At or Note, and returns the recorded one.
	// If another caller has changed the bookmark since, SetBookmark returns ErrBookmarkChanged and the present
	// bookmark: merge both, and call SetBookmark again. So two processes never lose a note.
	//
	// The time only moves forward: an earlier At leaves the recorded one. A bookmark that is recorded already is returned
	// without an error, so a call whose answer was lost can be repeated.
	//
	// It returns ErrInvalidBookmark for a bookmark outside of the limits, and ErrRestored until a restored journal is
	// adopted.
	SetBookmark(ctx context.Context, b Bookmark) (Bookmark, error)

	// ListBookmarks yields all bookmarks by name, in pages, as Journal.List yields operations.
	ListBookmarks(ctx context.Context) iter.Seq2[Bookmark, error]
}

// Bookmark is a place in a list, with what its readers have to remember. A journal never removes one.
type Bookmark struct {
	Name string    // 1 to MaxBookmarkName bytes
	At   time.Time // the list was read up to here, in milliseconds
	// Note is for the program, such as events to be read again: at most MaxBookmarkNote bytes, and no secrets.
	Note []byte
	// Version rises with each change. 0 means that the bookmark was never recorded.
	Version int64
}

const (
	// MaxBookmarkName is how many bytes a bookmark's name has at most.
	MaxBookmarkName = 256
	// MaxBookmarkNote is how many bytes a bookmark's note has at most.
	MaxBookmarkNote = 256 << 10
)

var (
	// ErrBookmarkChanged means that another caller has changed the bookmark since the read.
	ErrBookmarkChanged = errors.New("journal: another caller has changed the bookmark since it was read: merge both, and set it again")
	// ErrInvalidBookmark means that a bookmark has no name or time, or is too large.
	ErrInvalidBookmark = errors.New("journal: invalid bookmark")
)
