package background_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
)

// Enqueued and rolled back, withdrawn and reinstated, and resolved by who tells the truth, in any order and while the handler
// fails now and then: there is one effect, nothing is sent that nobody wants, and the last that is booked is how it ended.
func TestOutcomesAreBookedInAnyOrder(t *testing.T) {
	t.Parallel()
	seed := soak.Seed(t, 1)
	for life := range soak.Times(2, 100) {
		virtual(t, fmt.Sprint(life), func(t *testing.T) {
			random, failing := rand.New(rand.NewPCG(seed, uint64(life))), rand.New(rand.NewPCG(seed, ^uint64(life)))
			var mu sync.Mutex
			l, told := &line{}, []string{}
			s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), l, onceward.Config{Backoff: once, Outcomes: &onceward.Outcomes{HandleTx: func(ctx context.Context, tx journal.Tx, op onceward.Operation) error {
				err := books(ctx, tx, op)
				mu.Lock() // the background and the callers ask at any moment
				defer mu.Unlock()
				if failing.IntN(4) == 0 {
					return errors.Join(err, errors.New("sorry"))
				}
				return err
			}}})
			s.runs(t, seldom())
			ref, wanted := onceward.Ref{ID: "order-1"}, true
			answers := []reply{says(200, paid), loses(), refuses(), unavailable}
			for range 12 {
				before := len(l.Sent())
				may := wanted
				var what string
				var err error
				l.Always(answers[random.IntN(len(answers))])
				switch random.IntN(8) {
				case 0, 1:
					what = "enqueued"
					_, err = s.orders(named(t, ref.ID), true)
				case 2:
					what = "rolled back"
					_, err = s.orders(named(t, ref.ID), false)
				case 3:
					what = "withdrawn"
					if _, err = s.Withdraw(t.Context(), ref, onceward.ResolveOptions{By: "ada"}); err == nil {
						wanted, may = false, false
					}
				case 4:
					what = "reinstated"
					if _, err = s.Reinstate(t.Context(), ref, onceward.ResolveOptions{By: "ada"}); err == nil {
						wanted, may = true, true
					}
				case 5:
					what = "resolved"
					as := onceward.NotExecuted
					if len(l.Sent()) > 0 {
						as = onceward.Executed
					} else if random.IntN(2) == 0 {
						as = onceward.SendAgain
					}
					_, err = s.ResolveAs(ref, as, nil)
				case 6:
					what = "asked for"
					err = s.Ask(named(t, ref.ID)).Err
				}
				told = append(told, fmt.Sprint(what, ": ", err))
				pass(time.Duration(random.IntN(3)) * time.Minute)
				if !may {
					require.Len(t, l.Sent(), before, "%q", told)
				}
			}
			l.Always(says(200, paid))
			if _, err := s.Operation(t.Context(), ref); errors.Is(err, onceward.ErrNotFound) {
				return
			}
			pass(20 * time.Minute)
			op, err := s.journal.Get(t.Context(), ref)
			require.NoError(t, err)
			booked := s.booked(t)
			assert.LessOrEqual(t, len(distinct(l.Keys())), 1, "%q", told)
			assert.Zero(t, op.SecondEffects)
			for i := range booked[min(1, len(booked)):] {
				if !strings.HasSuffix(booked[i], "cancelled") { // which can be enqueued, and cancelled, again
					assert.NotEqual(t, booked[i], booked[i+1], "booked twice: %q, %q", booked, told)
				}
			}
			if len(booked) > 0 && op.State != onceward.StatePending {
				assert.True(t, strings.HasSuffix(booked[len(booked)-1], op.State.String()), "%s, %q, %q", op.State, booked, told)
			}
			if op.State == onceward.StateCompleted {
				assert.NotEmpty(t, booked, "%q", told)
			}
			assert.Equal(t, len(l.Sent()) > 0, op.MayHaveRun, "%q", told)
		})
	}
}
