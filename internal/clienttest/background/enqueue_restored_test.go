package background_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
)

// A shop finds an operation that it enqueued in a restored backup. It is charged once, or is unknown. The shop's own
// tables in the same file went back too, so the shop enqueues everything again.
func TestEnqueuedBesideABackup(t *testing.T) {
	t.Parallel()
	cfg := onceward.Config{Secret: []byte("0123456789abcdef"), Backoff: once}
	enqueues := func(t *testing.T, s *shop, ctx context.Context) {
		_, err := s.orders(ctx, true)
		require.NoError(t, err)
		s.Wake()
		pass(time.Minute)
	}
	order := func(t *testing.T) context.Context { return named(t, invoice) }
	soon := func(t *testing.T) context.Context {
		return onceward.WithNotAfter(named(t, invoice), time.Now().Add(time.Second/2))
	}
	for name, row := range map[string]struct {
		before, after func(t *testing.T, s *shop) // the backup is made
		gone          time.Duration               // since
		state         onceward.State
		sent          int
	}{
		"it waits since": {before: func(t *testing.T, s *shop) { enqueues(t, s, onceward.WithDue(order(t), time.Now().Add(5*time.Minute))) },
			state: onceward.StateCompleted, sent: 1},
		"it was sent since": {before: func(t *testing.T, s *shop) {
			enqueues(t, s, onceward.WithDue(order(t), time.Now().Add(2*time.Minute)))
		},
			after: func(_ *testing.T, _ *shop) { pass(3 * time.Minute) },
			state: onceward.StateCompleted, sent: 2},
		"it was sent since, and its key may be forgotten": {before: func(t *testing.T, s *shop) {
			enqueues(t, s, onceward.WithDue(order(t), time.Now().Add(2*time.Minute)))
		},
			after: func(_ *testing.T, _ *shop) { pass(3 * time.Minute) }, gone: 23 * time.Hour,
			state: onceward.StateUnknown, sent: 1},
		"it was sent before": {before: func(t *testing.T, s *shop) { enqueues(t, s, order(t)) },
			state: onceward.StateCompleted, sent: 1},
		"it was enqueued since": {after: func(t *testing.T, s *shop) { enqueues(t, s, order(t)) },
			state: onceward.StateCompleted, sent: 2},
		"it was rolled back before, and enqueued since": {
			before: func(t *testing.T, s *shop) {
				_, err := s.orders(order(t), false)
				require.NoError(t, err)
			},
			after: func(t *testing.T, s *shop) { enqueues(t, s, order(t)) },
			state: onceward.StateCompleted, sent: 2},
		"its time had passed before, and it was enqueued once more": {
			before: func(t *testing.T, s *shop) { enqueues(t, s, onceward.WithDue(soon(t), time.Now().Add(time.Hour))) },
			after:  func(t *testing.T, s *shop) { enqueues(t, s, order(t)) },
			state:  onceward.StateUnknown, sent: 1},
	} {
		virtual(t, name, func(t *testing.T) {
			dir, l := t.TempDir(), &line{}
			was := openShop(t, filepath.Join(dir, "journal.db"), l, cfg)
			running, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- was.Run(running) }()
			pass(time.Second)
			if row.before != nil {
				row.before(t, was)
			}
			backup := filepath.Join(dir, "backup.db")
			require.NoError(t, was.journal.Backup(t.Context(), backup))
			if row.after != nil {
				row.after(t, was)
			}
			stop()
			<-ended
			require.NoError(t, was.Shutdown(t.Context()))
			pass(row.gone)

			s := openShop(t, backup, l, cfg)
			_, err := s.orders(order(t), false)
			require.ErrorIs(t, err, onceward.ErrJournalRestored)
			require.NoError(t, s.journal.Adopt(t.Context()))
			op, err := s.orders(order(t), true)
			require.NoError(t, err)
			s.runs(t, seldom())
			pass(15 * time.Minute)
			again, err := s.orders(order(t), true)
			require.NoError(t, err)
			assert.Equal(t, row.state, again.State)
			assert.Equal(t, op.Ref, again.Ref)
			require.Len(t, l.Sent(), row.sent)
			assert.Len(t, distinct(l.Keys()), 1, "its provider knows it again")
			assert.Less(t, l.Sent()[row.sent-1].At.Sub(l.Sent()[0].At), 24*time.Hour)
		})
	}
}
