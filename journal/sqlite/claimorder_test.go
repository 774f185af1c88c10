package sqlite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/sqlite"
)

// claimed claims up to limit operations, and returns their handles.
func claimed(t *testing.T, j *sqlite.Journal, ev machine.Event, limit int) (handles []int64) {
	t.Helper()
	results, err := j.Claim(t.Context(), ev, limit)
	require.NoError(t, err)
	for _, r := range results {
		handles = append(handles, r.Operation.Handle)
	}
	return handles
}

// A claim takes the oldest operations, however many are due.
func TestClaimTakesTheOldest(t *testing.T) {
	for _, many := range []int{30, 400, 700} {
		j := open(t, filepath.Join(t.TempDir(), "journal.db"))
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		now := time.Now()
		sideBySide(many, func(i int) {
			begun, err := j.Apply(t.Context(), generate(fmt.Sprint("op-", i), s))
			if assert.NoError(t, err) {
				park := complete(begun.Operation, s)
				park.Kind, park.Answer, park.Unsent, park.Due = machine.EventPark, nil, true, now.Add(time.Duration(many-int(begun.Operation.Handle))*time.Second)
				_, err = j.Apply(t.Context(), park)
				assert.NoError(t, err)
			}
		})
		ev := claim(s)
		ev.At = now.Add(time.Hour)
		assert.Equal(t, []int64{1, 2, 3}, claimed(t, j, ev, 3), "of %d", many)
		assert.Empty(t, claimed(t, j, ev, 0), "none were asked for")
		rest := claimed(t, j, ev, many)
		assert.Len(t, rest, many-3)
		assert.True(t, slices.IsSorted(rest), "of %d", many)
		assert.Empty(t, claimed(t, j, ev, many))
	}
}

// A claim takes the oldest operations, for whatever reason they are claimed and wherever they are kept.
func TestClaimTakesTheOldestOfAllKinds(t *testing.T) {
	for _, limit := range []int{1, 2, 5, 100} {
		j := open(t, filepath.Join(t.TempDir(), "journal.db"))
		dead, err := j.Join(t.Context())
		require.NoError(t, err)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		var want []int64
		for round := range 4 {
			for _, what := range []string{"held by a dead session", "undelivered", "due", "undelivered", "held by a dead session"} {
				holder := s
				if what == "held by a dead session" {
					holder = dead
				}
				begun, err := j.Apply(t.Context(), generate(fmt.Sprint("op-", len(want)), holder))
				require.NoError(t, err)
				want = append(want, begun.Operation.Handle)
				end := complete(begun.Operation, s)
				end.Delivered = false
				switch what {
				case "held by a dead session":
					continue
				case "due":
					end.Kind, end.Answer, end.Unsent = machine.EventPark, nil, true
				}
				_, err = j.Apply(t.Context(), end)
				require.NoError(t, err)
			}
			if round == 1 {
			}
		}
		require.NoError(t, s.End(t.Context())) // no caller waits for its answers
		sqlite.Kill(dead)
		s, err = j.Join(t.Context())
		require.NoError(t, err)
		ev := claim(s)
		ev.At = ev.At.Add(time.Hour)
		var got []int64
		for some := claimed(t, j, ev, limit); len(some) > 0; some = claimed(t, j, ev, limit) {
			got = append(got, some...)
		}
		assert.Equal(t, want, got, "%d at a time", limit)
	}
}
