package reconcile_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers/providertest"
)

// Two operators resolve an operation while a webhook reports it, and one of them is wrong. In any order the webhook
// decides, an operator who is too late gets an error, and nothing is sent twice.
func TestResolveByTwoBesideAnEvent(t *testing.T) {
	t.Parallel()
	for _, wrong := range []onceward.Resolution{onceward.NotExecuted, onceward.SendAgain} {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, nil} {
			virtual(t, fmt.Sprint(wrong, " ", order), func(t *testing.T) {
				l := atBank(t, onceward.Config{Reconcile: plain()}, unlooked)
				l.Loses("invoice-1", providertest.DropAfter())
				seen := l.Stands("invoice-1")
				require.Equal(t, onceward.StateUnknown, seen.State)
				made := l.Box.Effects()
				require.Len(t, made, 1)
				told := `{"type":"payment.succeeded","id":"evt_1","created":` + unix(time.Now()) + `,"request":{"key":"` + string(seen.Key) + `"},"data":{"id":"obj_1","created":` + unix(time.Now()) + `}}`
				errs := make([]error, 3)
				do := []func(){
					func() {
						_, errs[0] = l.Resolve(t.Context(), seen.Seen, onceward.Executed, onceward.ResolveOptions{By: "ada", Answer: &onceward.Answer{Status: 200, Body: []byte(`{"id":"obj_1"}`)}})
					},
					func() {
						_, errs[1] = l.Resolve(t.Context(), seen.Seen, wrong, onceward.ResolveOptions{By: "bob"})
					},
					func() {
						_, errs[2] = l.RecordEvent(t.Context(), "bank", onceward.Event{Body: []byte(told), Evidence: true})
					},
				}
				var all sync.WaitGroup
				for _, i := range order {
					do[i]()
				}
				if order == nil {
					for _, f := range do {
						all.Go(f)
					}
				}
				all.Wait()
				require.NoError(t, errs[2])
				l.Runs(time.Hour)
				op := l.Stands("invoice-1")
				assert.Equal(t, onceward.StateCompleted, op.State, "%v", errs)
				assert.Zero(t, l.Recorded(op.Ref).SecondEffects)
				assert.Len(t, l.Box.Effects(), 1)
				ada, bob, event := slices.Index(order, 0), slices.Index(order, 1), slices.Index(order, 2)
				switch {
				case order == nil:
				case bob > min(ada, event):
					require.Error(t, errs[1], "it had its outcome")
				case ada < event && wrong == onceward.SendAgain:
					require.ErrorIs(t, errs[0], onceward.ErrMoved, "bob's word stood until the event")
				case ada < event:
					require.NoError(t, errs[0], "ada has the proof")
				}
			})
		}
	}
}
