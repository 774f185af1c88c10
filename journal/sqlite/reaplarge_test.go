package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
)

func TestLargeOperationsAreReapedAFewACommit(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]machine.EventKind{"in blocks": machine.EventComplete, "in rows": machine.EventCancel} {
		t.Run(name, func(t *testing.T) {
			j := open(t, filepath.Join(t.TempDir(), "journal.db"))
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			const many, size = 12, 300 << 10
			body := noise(size)
			then := time.Now().Add(-100 * 24 * time.Hour)
			for i := range many {
				ev := begin(fmt.Sprint("op-", i), s)
				ev.At, ev.Intent.Request.Body = then, body
				begun, err := j.Apply(t.Context(), ev)
				require.NoError(t, err)
				ev = complete(begun.Operation, s)
				if ev.At, ev.Kind = then, kind; kind != machine.EventComplete {
					ev.Answer = nil
				}
				_, err = j.Apply(t.Context(), ev)
				require.NoError(t, err)
			}
			seenAt(t, j, time.Now().Add(-2*machine.Confirmation))
			seenAt(t, j, time.Now().Add(-machine.Confirmation))
			before, err := j.Stats(t.Context())
			require.NoError(t, err)
			n, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now(), Keep: time.Hour}, 1000)
			require.NoError(t, err)
			after, err := j.Stats(t.Context())
			require.NoError(t, err)
			require.Equal(t, many, n)
			assert.GreaterOrEqual(t, after.Commits-before.Commits, int64(many*size>>20), "no commit writes over more than a megabyte")
		})
	}
}
