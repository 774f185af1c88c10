package rowstoretest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

func damagedBookmark(t *testing.T, db Database) {
	j := db.Open(t)
	at := time.Now().UTC().Truncate(time.Millisecond)
	for _, name := range []string{"before", "damaged", "later"} {
		_, err := j.SetBookmark(t.Context(), journal.Bookmark{Name: name, At: at, Note: []byte("note")})
		require.NoError(t, err)
	}
	db.DamageBookmark(t, "damaged")
	found, err := j.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, []journal.Violation{{Invariant: `the bookmark "damaged" is as it was written`}}, found)

	_, err = j.Bookmark(t.Context(), "damaged")
	require.ErrorIs(t, err, format.ErrDamaged)
	_, err = j.SetBookmark(t.Context(), journal.Bookmark{Name: "damaged", At: at, Version: 1})
	require.ErrorIs(t, err, format.ErrDamaged)
	later, err := j.SetBookmark(t.Context(), journal.Bookmark{Name: "later", At: at, Version: 1})
	require.NoError(t, err)
	assert.Equal(t, journal.Bookmark{Name: "later", At: at, Version: 2}, later)
	var listed []string
	err = nil
	for b, e := range j.ListBookmarks(t.Context()) {
		if err = e; err == nil {
			listed = append(listed, b.Name)
		}
	}
	require.ErrorIs(t, err, format.ErrDamaged, "once all others were listed")
	assert.Equal(t, []string{"before", "later"}, listed)
}
