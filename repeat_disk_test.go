//go:build unix

package onceward_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers/providertest"
)

// settledOnce holds that who takes outcomes has got one: that the operation is completed.
func (l *teller) settledOnce() {
	l.T.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if assert.Len(l.T, l.settled, 1) {
		assert.Equal(l.T, onceward.StateCompleted, l.settled[0].State)
	}
}

// On a disk that is full nothing is recorded by half of what is found out, and nothing sent that is not recorded.
// Once there is room it is found out again, and settled once.
func TestRepeatOnAFullDisk(t *testing.T) {
	t.Parallel()
	onFullDisks(t, func(t *testing.T, dir string, fill, free func()) {
		on := func(t *testing.T, name string, f func(t *testing.T, j onceward.Config)) {
			trap(t, name, func(t *testing.T) {
				f(t, onceward.Config{Reconcile: filling(), Journal: openSQLite(t, filepath.Join(dir, name+".db"))})
			})
		}
		on(t, "as a look finds it", func(t *testing.T, cfg onceward.Config) {
			l := atBank(t, cfg, unique)
			l.leftUnknown("found", providertest.DropAfter())
			before := l.stands("found")
			fill()
			require.ErrorIs(t, l.asksLater("found").Err, onceward.ErrJournal)
			l.runs(time.Minute)
			assert.Equal(t, before, l.stands("found"))
			free()
			l.runs(time.Hour)
			assert.Equal(t, onceward.StateCompleted, l.stands("found").State)
			l.settledOnce()
			showing(t, l.transfers("found"), "obj_1")
			assert.Equal(t, 1, l.sent())
			l.truly()
		})
		on(t, "as it is repeated", func(t *testing.T, cfg onceward.Config) {
			l := atBank(t, cfg, unique)
			l.leftUnknown("never arrived", providertest.DropBefore())
			fill()
			require.ErrorIs(t, l.asksLater("never arrived").Err, onceward.ErrJournal)
			assert.Equal(t, 1, l.sent(), "a repeat that is not recorded is not sent")
			free()
			showing(t, l.asksLater("never arrived"), "obj_1")
			assert.Equal(t, 2, l.sent())
			assert.Equal(t, 1, l.effects())
			l.truly()
		})
		on(t, "as the repeat is answered", func(t *testing.T, cfg onceward.Config) {
			l := atBank(t, cfg, unique)
			l.leftUnknown("never arrived", providertest.DropBefore())
			l.fakes(func(r *http.Request) *http.Response {
				if r.Method == http.MethodPost {
					fill()
				}
				return nil
			})
			showing(t, l.asksLater("never arrived"), "obj_1")
			assert.Equal(t, onceward.StateInFlight, l.Recorded(onceward.Ref{ID: "never arrived"}).State)
			free()
			l.runs(time.Hour)
			assert.Equal(t, onceward.StateCompleted, l.Recorded(onceward.Ref{ID: "never arrived"}).State)
			showing(t, l.transfers("never arrived"), "obj_1")
			assert.Equal(t, 2, l.sent())
			assert.Equal(t, 1, l.effects())
			l.truly()
		})
		on(t, "as an event tells of it", func(t *testing.T, cfg onceward.Config) {
			l := atBank(t, cfg, unlooked)
			l.hears(http.StatusOK)
			l.box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
			before := l.stands("invoice-1")
			fill()
			l.box.Advance(time.Minute)
			refused := l.box.Deliveries()
			require.NotEmpty(t, refused)
			for _, d := range refused {
				assert.GreaterOrEqual(t, d.Status, 500)
			}
			assert.Equal(t, before, l.stands("invoice-1"))
			free()
			l.box.Advance(24 * time.Hour)
			all := l.box.Deliveries()
			require.Len(t, all, len(refused)+1)
			assert.Equal(t, http.StatusOK, all[len(refused)].Status, "it comes again")
			op := l.stands("invoice-1")
			assert.Equal(t, onceward.StateCompleted, op.State)
			assert.Len(t, op.Evidence, 1)
			l.runs(time.Hour)
			l.settledOnce()
			assert.Equal(t, 1, l.effects())
			l.truly()
		})
	})
}
