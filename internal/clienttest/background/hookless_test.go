package background_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// beside starts a further program on a journal. Its hook is b's, or it has none.
func beside(t *testing.T, j *memory.Journal, box *providertest.Server, b *booking, all bool) *onceward.Client {
	t.Helper()
	cfg := onceward.Config{
		Journal: j, Providers: []providers.Provider{box.Provider()}, Backoff: once, Reconcile: plain(),
		HTTPClient: &http.Client{Transport: box.Client().Transport},
		Authorize:  func(r *http.Request) error { r.Header.Set("Authorization", "Bearer t0ken"); return nil },
	}
	if b != nil {
		cfg.Outcomes = &onceward.Outcomes{Handle: b.settle, Heard: all}
	}
	c, err := onceward.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Shutdown(context.Background()) })
	return c
}

// inBackground runs a program until the test ends.
func inBackground(t *testing.T, c *onceward.Client) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

// A program without the hook leaves each of its outcomes to the program that has it, whichever began first. Once the hook is
// retired, the outcomes that it has not got count as delivered.
func TestOutcomesOfAProgramWithoutTheHook(t *testing.T) {
	t.Parallel()
	for end, makes := range map[string]func(t *testing.T, l *teller){
		"answered": func(t *testing.T, l *teller) { require.NoError(t, l.Pays(invoice).Err) },
		"sent again by Resume": func(t *testing.T, l *teller) {
			l.Box.Script(providertest.DropAfter())
			require.Error(t, l.Pays(invoice).Err)
			pass(time.Hour)
			_, err := l.Resume(t.Context())
			require.NoError(t, err)
		},
		"heard of": func(t *testing.T, l *teller) {
			l.Box.Script(providertest.DropAfter())
			require.Error(t, l.Pays(invoice).Err)
			_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", l.Stands(invoice).Key, "obj_1", time.Now()))
			require.NoError(t, err)
		},
	} {
		for _, order := range []string{"the hook is first", "the hook is second", "the hook is retired"} {
			virtual(t, end+"/"+order, func(t *testing.T) {
				j, b := memory.New(), &booking{}
				box := oncetest.OpenBank(t, oncetest.Unlooked, func(p *providers.Provider) {
					e := &p.Endpoints[0]
					e.Retention, e.Remembers, e.InFlightGuard = 24*time.Hour, providers.Everything, true
				})
				var with, without *onceward.Client
				if order == "the hook is second" {
					without = beside(t, j, box, nil, false)
					inBackground(t, without)
					pass(time.Minute)
				}
				with = beside(t, j, box, b, false)
				pass(6 * time.Second) // the other reads each five seconds whether there is a hook
				if without == nil {
					without = beside(t, j, box, nil, false)
				}
				l := &teller{Process: oncetest.Of(t, without, nil), Box: box}
				makes(t, l)
				op, err := j.Get(t.Context(), onceward.Ref{ID: invoice})
				require.NoError(t, err)
				require.Equal(t, onceward.StateCompleted, op.State)
				require.False(t, op.Delivered)
				if order == "the hook is retired" {
					require.NoError(t, with.Shutdown(t.Context()))
					require.NoError(t, j.KeepHook(t.Context(), false))
				} else {
					inBackground(t, with)
				}
				if order != "the hook is second" {
					inBackground(t, without)
				}
				pass(time.Hour)
				op, err = j.Get(t.Context(), onceward.Ref{ID: invoice})
				require.NoError(t, err)
				assert.True(t, op.Delivered)
				assert.Equal(t, order != "the hook is retired", slices.Equal(b.got(), []string{invoice + " completed"}), b.got())
			})
		}
	}
}
