package rowstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
)

// A caller that does not know whether its bookmark was recorded sets it again.
func TestBookmarkWhoseCommitIsInDoubt(t *testing.T) {
	for name, fate := range map[string]faultdb.Fate{"it landed": faultdb.LosesAnswer, "it did not": faultdb.LosesCommit} {
		t.Run(name, func(t *testing.T) {
			history(t, func(t *testing.T, db *faultdb.Database, p *process) {
				b := journal.Bookmark{Name: "feed", At: p.now, Note: []byte("evt_1")}
				db.NextCommits(fate)
				_, err := p.j.SetBookmark(t.Context(), b)
				require.ErrorIs(t, err, rowstore.ErrUndecided)
				set, err := p.j.SetBookmark(t.Context(), b)
				require.NoError(t, err)
				assert.Equal(t, int64(1), set.Version)
			})
		})
	}
}

// A commit that another process has overtaken is decided anew, by the bookmark as it is then.
func TestBookmarkThatTwoProcessesSetAtOnce(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		first, err := a.j.SetBookmark(t.Context(), journal.Bookmark{Name: "feed", At: a.now})
		require.NoError(t, err)
		release := db.BlockCommits()
		type result struct {
			journal.Bookmark
			err error
		}
		results := make(chan result, 2)
		for i, p := range []*process{a, b} {
			to := first
			to.At, to.Note = a.now.Add(time.Hour), []byte{byte('a' + i)}
			go func() {
				is, err := p.j.SetBookmark(t.Context(), to)
				results <- result{is, err}
			}()
			synctest.Wait()
		}
		release()
		one, other := <-results, <-results
		if one.err != nil {
			one, other = other, one
		}
		require.NoError(t, one.err)
		require.ErrorIs(t, other.err, journal.ErrBookmarkChanged)
		assert.Equal(t, one.Bookmark, other.Bookmark)
		assert.Equal(t, int64(2), one.Version)
	})
}
