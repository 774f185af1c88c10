// Package till has a shop that sells by a journal's outbox, for store tests that kill the shop after each of its steps.
package till

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

// Steps are those of an order: enqueue, commit, send, settle, deliver. A shop may be killed after each of them.
var Steps = []string{"begun", "enqueued", "ordered", "committed", "claimed", "sent", "completed", "delivering", "booked", "delivered"}

// Till enqueues orders, sends those that are due, and books their outcomes. It reports each step.
type Till struct {
	Journal machine.Outbox
	Session machine.Session
	Begin   func(ctx context.Context) (journal.Tx, error)                   // the application's transactions
	Insert  func(ctx context.Context, tx journal.Tx, into, id string) error // into orders, where a second one changes nothing, or booked
	Ledger  string                                                          // the provider's file: a line for each request that it got, with its key
	Step    func(string)
}

func (s *Till) now() time.Time {
	if clock, is := s.Journal.(machine.Clock); is {
		return clock.Now()
	}
	return time.Now()
}

// Order enqueues an order's operation with it.
func (s *Till) Order(ctx context.Context, id string) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	s.Step("begun")
	if _, err := s.Journal.EnqueueTx(ctx, tx, machine.Event{
		Kind: machine.EventEnqueue, Ref: journal.Ref{ID: id}, At: s.now(),
		Intent: &machine.Intent{
			Provider: "ledger", Fingerprint: "v1:" + id, Key: "key-of-" + id, Terms: journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
			Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(id)},
		},
	}); err != nil {
		return err
	}
	s.Step("enqueued")
	if err := s.Insert(ctx, tx, "orders", id); err != nil {
		return err
	}
	s.Step("ordered")
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	s.Step("committed")
	return nil
}

// Settle sends the operations that are due, and books each outcome.
func (s *Till) Settle(ctx context.Context) error {
	results, err := s.Journal.Claim(ctx, machine.Event{Kind: machine.EventClaim, At: s.now(), Session: s.Session.ID()}, 10)
	if err != nil {
		return err
	}
	for _, res := range results {
		s.Step("claimed")
		op := res.Operation
		if res.Decision == machine.Execute {
			if err := s.send(op.Key); err != nil {
				return err
			}
			s.Step("sent")
			res, err = s.Journal.Apply(ctx, machine.Event{
				Kind: machine.EventComplete, Ref: op.Ref, Handle: op.Handle, At: s.now(), Session: s.Session.ID(),
				Claim: op.Claim, Generation: op.Generation, Attempts: 1, Answer: &journal.Answer{Status: 201, Body: []byte("paid " + op.ID)},
			})
			if err != nil {
				return err
			}
			op = res.Operation
			s.Step("completed")
		}
		_, err := s.Journal.DeliverTx(ctx, machine.Event{
			Kind: machine.EventDeliver, Ref: op.Ref, Handle: op.Handle, At: s.now(), Generation: op.Generation, Outcome: op.State,
		}, func(ctx context.Context, tx journal.Tx) error {
			s.Step("delivering")
			err := s.Insert(ctx, tx, "booked", op.ID)
			s.Step("booked")
			return err
		})
		if err != nil {
			return err
		}
		s.Step("delivered")
	}
	return nil
}

func (s *Till) send(key string) error {
	f, err := os.OpenFile(s.Ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, key)
	return err
}

// Sell runs in a child: it orders and settles one order. After each step it waits for a line on its input.
func Sell(open func(step func(string)) (*Till, error)) error {
	in := bufio.NewScanner(os.Stdin)
	s, err := open(func(step string) {
		fmt.Println(step)
		in.Scan()
	})
	if err == nil {
		err = s.Order(context.Background(), "order-991")
	}
	if err == nil {
		err = s.Settle(context.Background())
	}
	fmt.Println("done")
	return err
}

// Shop is where the tills of one test stand.
type Shop interface {
	Child(t *testing.T) *exec.Cmd                           // another process that calls Sell; not started
	Open(t *testing.T) *Till                                // one of this process
	Count(t *testing.T, table string) int                   // of orders or booked
	Verify(t *testing.T, j machine.Outbox) (wrong []string) // what is wrong with the journal
}

// KilledAtEachStep kills a process after each step. The order and the operation are there together or not at all, the
// provider gets one key, and the outcome is booked once.
func KilledAtEachStep(t *testing.T, shop func(t *testing.T) Shop) {
	for n, last := range Steps {
		t.Run("after it was "+last, func(t *testing.T) {
			p := shop(t)
			killedAfter(t, p.Child(t), Steps[:n+1])

			s := p.Open(t)
			require.Empty(t, p.Verify(t, s.Journal))
			ordered := p.Count(t, "orders")
			assert.Equal(t, n >= 3, ordered == 1)
			assert.Len(t, operations(t, s.Journal), ordered)

			// Whether its commit has landed, nobody knows who was killed: it is all done again.
			require.NoError(t, s.Order(t.Context(), "order-991"))
			require.Eventually(t, func() bool { // it takes a while until the dead are known to be
				if err := s.Settle(t.Context()); !assert.NoError(t, err) {
					return true
				}
				return p.Count(t, "booked") > 0
			}, 30*time.Second, 100*time.Millisecond)
			require.NoError(t, s.Settle(t.Context()))
			assert.Equal(t, 1, p.Count(t, "orders"))
			assert.Equal(t, 1, p.Count(t, "booked"))
			got, err := os.ReadFile(s.Ledger)
			require.NoError(t, err)
			keys := make(map[string]bool)
			for _, key := range strings.Fields(string(got)) {
				keys[key] = true
			}
			assert.Len(t, keys, 1)
			require.Empty(t, p.Verify(t, s.Journal))
			ops := operations(t, s.Journal)
			require.Len(t, ops, 1)
			assert.True(t, ops[0].Delivered)
			assert.Equal(t, journal.StateCompleted, ops[0].State)
		})
	}
}

// killedAfter runs a child until it has made the last of these steps, and kills it there.
func killedAfter(t *testing.T, child *exec.Cmd, steps []string) {
	t.Helper()
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer func() {
		assert.NoError(t, child.Process.Kill())
		_ = child.Wait()
	}()
	told := bufio.NewScanner(out)
	for i, step := range steps {
		require.True(t, told.Scan(), "the child ended: %v", told.Err())
		require.Equal(t, step, told.Text())
		if i < len(steps)-1 {
			_, err := fmt.Fprintln(in)
			require.NoError(t, err)
		}
	}
}

func operations(t *testing.T, j machine.Store) (ops []journal.Operation) {
	t.Helper()
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		ops = append(ops, op)
	}
	return ops
}
