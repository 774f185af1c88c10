package shown_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// All operations that were created before a time come before the handle, and with them at most some hundred later
// ones.
func TestBefore(t *testing.T) {
	j := memory.New()
	handle, err := shown.Before(t.Context(), j, time.Now())
	require.NoError(t, err)
	assert.EqualValues(t, 1, handle, "there is nothing")
	session, err := j.Join(t.Context())
	require.NoError(t, err)
	began := time.Now().Truncate(time.Millisecond).Add(-time.Hour)
	const n = 3000
	for i := range n {
		_, err := j.Apply(t.Context(), machine.Event{
			Kind: machine.EventBegin, Ref: journal.Ref{ID: fmt.Sprint(i)}, At: began.Add(time.Duration(i) * time.Second), Session: session.ID(), Asker: int64(i + 1),
			Intent: &machine.Intent{Fingerprint: "f", Request: journal.Request{Method: "POST"}},
		})
		require.NoError(t, err)
	}
	for _, older := range []int{0, 1, 700, 1500, 2999, 3000, 5000} {
		handle, err := shown.Before(t.Context(), j, began.Add(time.Duration(older)*time.Second))
		require.NoError(t, err)
		is, others := 0, 0
		for op, err := range j.List(t.Context(), journal.Filter{Before: handle}) {
			require.NoError(t, err)
			if op.CreatedAt.Before(began.Add(time.Duration(older) * time.Second)) {
				is++
			} else {
				others++
			}
		}
		assert.Equal(t, min(older, n), is, older)
		assert.LessOrEqual(t, others, 600, older)
	}
}
