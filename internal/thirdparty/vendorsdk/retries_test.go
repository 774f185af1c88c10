package vendorsdk_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers/providertest"
)

// A failing provider gets no more requests than our policy makes, however often the SDK retries.
func TestRetriesOfAnSDKAtAFailingProvider(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault providertest.Fault
		told  bool // by the status line, that it took effect
		fails bool // by the status line
	}{
		{"a connection dropped before the effect", providertest.DropBefore(), false, false},
		{"a connection dropped after the effect", providertest.DropAfter(), false, false},
		{"an answer cut short", providertest.CutAt(1), true, false},
		{"503", providertest.Status(http.StatusServiceUnavailable, nil), false, true},
	} {
		for _, isNamed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, named: %t", row.name, isNamed), func(t *testing.T) {
				t.Parallel()
				eachSDK(t, func(t *testing.T, s sdk) {
					b := s.inBox(t, nil)
					b.Script(slices.Repeat([]providertest.Fault{providertest.None()}, s.tokens)...)
					b.Script(slices.Repeat([]providertest.Fault{row.fault}, 50)...)
					p := s.start(t, filepath.Join(t.TempDir(), "journal.db"), b.URL, ours)
					ctx := context.Context(t.Context())
					switch {
					case isNamed:
						ctx = named(t)
					case s.keyless:
						return // see TestUnnamedCallWithoutAKey
					}
					_, err := p.pay(ctx)
					require.Error(t, err)

					requests, state := ours.MaxAttempts, onceward.StatePending
					switch {
					case s.brief && row.told:
						state = onceward.StateCompleted
					case s.brief:
						state = onceward.StateUnknown
					case s.lostOnly && row.fails:
						requests, state = 1, onceward.StateUnknown
					case s.resends:
					case row.told:
						requests, state = 1, onceward.StateCompleted
					default:
						requests, state = 1, onceward.StateUnknown
					}
					keys := b.seen()
					require.Len(t, keys, requests)
					for _, key := range keys {
						assert.Equal(t, keys[0], key)
					}
					id := payment
					if !isNamed {
						id = keys[0]
					}
					op := p.operation(t, id)
					assert.Equal(t, state, op.State)
					assert.Equal(t, requests, op.Attempts)
					assert.LessOrEqual(t, len(b.Effects()), 1)
					if !isNamed {
						return
					}
					_, err = p.pay(ctx)
					switch state {
					case onceward.StatePending:
						requireOurs(t, err, onceward.ErrPending, s)
					case onceward.StateUnknown:
						requireOurs(t, err, onceward.ErrOutcomeUnknown, s)
					default:
						require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the recorded answer is as short as it came")
					}
					if s.brief && state == onceward.StateCompleted {
						requests++ // the provider still remembers the key, so its answer is fetched again
					}
					assert.Len(t, b.seen(), requests, "nothing is sent before it is due, or at all")
				})
			})
		}
	}
}
