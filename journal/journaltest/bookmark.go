package journaltest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// bookmarksOf skips the test if the journal keeps no bookmarks.
func bookmarksOf(t *testing.T, j machine.Store) journal.Bookmarks {
	t.Helper()
	b, is := j.(journal.Bookmarks)
	if !is {
		t.Skip("the store keeps no bookmarks")
	}
	return b
}

// setBookmark records a bookmark that was read before, and checks the recorded one.
func setBookmark(t *testing.T, j journal.Bookmarks, b journal.Bookmark) journal.Bookmark {
	t.Helper()
	set, err := j.SetBookmark(t.Context(), b)
	require.NoError(t, err)
	requireBookmark(t, j, set)
	return set
}

func requireBookmark(t *testing.T, j journal.Bookmarks, want journal.Bookmark) {
	t.Helper()
	is, err := j.Bookmark(t.Context(), want.Name)
	require.NoError(t, err)
	require.Equal(t, want, is)
}

func listedBookmarks(t *testing.T, j journal.Bookmarks) (all []journal.Bookmark) {
	t.Helper()
	for b, err := range j.ListBookmarks(t.Context()) {
		require.NoError(t, err)
		all = append(all, b)
	}
	return all
}

var bookmarkTests = []test{
	{"a bookmark is kept with its note, and its time only moves forward", func(t *testing.T, h Harness) {
		j := bookmarksOf(t, h.Journal)
		requireBookmark(t, j, journal.Bookmark{Name: "stripe acct_1"})
		note := []byte(`{"failed":["evt_1"]}`)
		b := setBookmark(t, j, journal.Bookmark{Name: "stripe acct_1", At: noon.Add(1234567 * time.Nanosecond), Note: note})
		note[0] = 'x'
		want := journal.Bookmark{Name: "stripe acct_1", At: noon.Add(time.Millisecond), Note: []byte(`{"failed":["evt_1"]}`), Version: 1}
		require.Equal(t, want, b)
		requireBookmark(t, j, want)

		b.At = noon.Add(-time.Hour)
		same, err := j.SetBookmark(t.Context(), b)
		require.NoError(t, err)
		assert.Equal(t, want, same, "nothing has changed")
		b.Note = nil
		b = setBookmark(t, j, b)
		assert.Equal(t, journal.Bookmark{Name: want.Name, At: want.At, Version: 2}, b, "the note is another, and the time is the later one")
		b.At = noon.Add(time.Hour)
		b = setBookmark(t, j, b)
		assert.Equal(t, journal.Bookmark{Name: want.Name, At: noon.Add(time.Hour), Version: 3}, b)
		setBookmark(t, j, journal.Bookmark{Name: "before 1970", At: time.UnixMilli(-5).UTC()})
	}},
	{"a bookmark that another caller has changed is not overwritten", func(t *testing.T, h Harness) {
		j := bookmarksOf(t, h.Journal)
		first := setBookmark(t, j, journal.Bookmark{Name: "feed", At: noon, Note: []byte("a")})
		second := first
		second.At = noon.Add(time.Minute)
		second = setBookmark(t, j, second)
		for _, stale := range []journal.Bookmark{{Name: "feed", At: noon.Add(time.Hour)}, {Name: "feed", At: noon, Note: []byte("b"), Version: first.Version}, {Name: "feed", At: noon.Add(time.Hour), Version: 7}} {
			is, err := j.SetBookmark(t.Context(), stale)
			require.ErrorIs(t, err, journal.ErrBookmarkChanged)
			require.Equal(t, second, is)
		}
		is, err := j.SetBookmark(t.Context(), journal.Bookmark{Name: "feed", At: second.At, Note: second.Note, Version: first.Version})
		require.NoError(t, err, "it was set so before")
		assert.Equal(t, second, is)
		is, err = j.SetBookmark(t.Context(), journal.Bookmark{Name: "another", At: noon, Version: 1})
		require.ErrorIs(t, err, journal.ErrBookmarkChanged, "there is none")
		assert.Equal(t, journal.Bookmark{Name: "another"}, is)
	}},
	{"bookmarks outside of the limits are refused", func(t *testing.T, h Harness) {
		j := bookmarksOf(t, h.Journal)
		long := strings.Repeat("n", journal.MaxBookmarkName+1)
		for _, b := range []journal.Bookmark{
			{At: noon}, {Name: "no time"}, {Name: long, At: noon}, {Name: "large", At: noon, Note: make([]byte, journal.MaxBookmarkNote+1)},
		} {
			_, err := j.SetBookmark(t.Context(), b)
			require.ErrorIs(t, err, journal.ErrInvalidBookmark)
		}
		require.Empty(t, listedBookmarks(t, j))
		setBookmark(t, j, journal.Bookmark{Name: long[1:], At: noon, Note: []byte(strings.Repeat("\x00\xff", journal.MaxBookmarkNote/2))})
	}},
	{"all bookmarks are listed by name", func(t *testing.T, h Harness) {
		j := bookmarksOf(t, h.Journal)
		names := []string{"B", "b", "a\x00c", "\xff\xfe", "é"}
		for i := range 200 { // more than a page
			names = append(names, fmt.Sprint("account ", i))
		}
		var want []journal.Bookmark
		for i, name := range names {
			want = append(want, setBookmark(t, j, journal.Bookmark{Name: name, At: noon.Add(time.Duration(i) * time.Second)}))
		}
		slices.SortFunc(want, func(a, b journal.Bookmark) int { return strings.Compare(a.Name, b.Name) })
		assert.Equal(t, want, listedBookmarks(t, j))
		for b, err := range j.ListBookmarks(t.Context()) {
			require.NoError(t, err)
			assert.Equal(t, want[0], b)
			break
		}
	}},
	{"callers of two stores lose no note of each other", func(t *testing.T, h Harness) {
		stores := []journal.Bookmarks{bookmarksOf(t, h.Journal)}
		if h.Open != nil {
			stores = append(stores, bookmarksOf(t, h.Open(t)))
		}
		const callers, each = 4, 5
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				j := stores[c%len(stores)]
				for n := range each {
					if err := addNote(t, j, byte('a'+c), noon.Add(time.Duration(c*each+n)*time.Second)); !assert.NoError(t, err) {
						return
					}
				}
			})
		}
		wg.Wait()
		is, err := stores[0].Bookmark(t.Context(), "feed")
		require.NoError(t, err)
		assert.Equal(t, int64(callers*each), is.Version)
		assert.Equal(t, noon.Add((callers*each-1)*time.Second), is.At)
		slices.Sort(is.Note)
		assert.Equal(t, "aaaaabbbbbcccccddddd", string(is.Note))
	}},
	{"bookmarks outlive the process", func(t *testing.T, h Harness) {
		if h.Reopen == nil {
			t.Skip("the store keeps nothing")
		}
		b := setBookmark(t, bookmarksOf(t, h.Journal), journal.Bookmark{Name: "feed", At: noon, Note: []byte("note")})
		if h.Crash != nil {
			requireBookmark(t, bookmarksOf(t, h.Crash(t)), b)
		}
		j := bookmarksOf(t, h.Reopen(t))
		requireBookmark(t, j, b)
		b.At = noon.Add(time.Hour)
		setBookmark(t, j, b)
	}},
	{"a restored journal shows its bookmarks, and changes none until it is adopted", func(t *testing.T, h Harness) {
		if h.Restored == nil {
			t.Skip("the store can't tell that it was restored")
		}
		b := setBookmark(t, bookmarksOf(t, h.Journal), journal.Bookmark{Name: "feed", At: noon})
		j := bookmarksOf(t, h.Restored(t))
		requireBookmark(t, j, b)
		next := b
		next.At = noon.Add(time.Hour)
		_, err := j.SetBookmark(t.Context(), next)
		require.ErrorIs(t, err, journal.ErrRestored)
		requireBookmark(t, j, b)
		assert.Equal(t, []journal.Bookmark{b}, listedBookmarks(t, j))
	}},
	{"a closed journal has no bookmarks", func(t *testing.T, h Harness) {
		j := bookmarksOf(t, h.Journal)
		require.NoError(t, h.Journal.Close())
		_, err := j.Bookmark(t.Context(), "feed")
		require.ErrorIs(t, err, journal.ErrClosed)
		_, err = j.SetBookmark(t.Context(), journal.Bookmark{Name: "feed", At: noon})
		require.ErrorIs(t, err, journal.ErrClosed)
		for _, err := range j.ListBookmarks(t.Context()) {
			require.ErrorIs(t, err, journal.ErrClosed)
		}
	}},
}

// addNote adds a byte to a bookmark's note, and moves its time.
func addNote(t *testing.T, j journal.Bookmarks, note byte, at time.Time) error {
	is, err := j.Bookmark(t.Context(), "feed")
	for err == nil {
		to := is
		to.Note, to.At = append(slices.Clone(is.Note), note), at
		if is, err = j.SetBookmark(t.Context(), to); !errors.Is(err, journal.ErrBookmarkChanged) {
			break
		}
		err = nil
	}
	return err
}
