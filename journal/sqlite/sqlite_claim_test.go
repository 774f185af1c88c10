package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

// A claim that takes some, passes over more than a commit looks at, and takes others, takes no more than it may.
func TestClaimOfSeveralCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	sideBySide(320, func(i int) {
		begun, err := j.Apply(t.Context(), generate(fmt.Sprint("invoice-", i), s))
		if assert.NoError(t, err) {
			park := complete(begun.Operation, s)
			park.Kind, park.Answer = journal.EventPark, nil
			_, err = j.Apply(t.Context(), park)
			assert.NoError(t, err)
		}
	})
	ev := claim(s)
	ev.At = ev.At.Add(time.Minute)
	ev.Today = func(op *journal.Operation) (journal.Today, bool) {
		return journal.Today{Terms: terms}, op.Handle <= 2 || op.Handle > 300
	}
	assert.Equal(t, []int64{1, 2, 301, 302, 303}, claimed(t, j, ev, 5))
	assert.Equal(t, []int64{304, 305, 306, 307, 308}, claimed(t, j, ev, 5))
}
