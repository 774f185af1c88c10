package journaltest

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// receiver is a server that receives requests under keys.
type receiver struct {
	*caller
	receipts machine.Receipts
	h        Harness
}

// receiving makes a test of a receiver. It is skipped if the store keeps no receipts.
func receiving(name string, run func(t *testing.T, r *receiver)) test {
	return test{name, func(t *testing.T, h Harness) {
		receipts, ok := h.Journal.(machine.Receipts)
		if !ok {
			t.Skip("the store keeps no receipts")
		}
		require.NoError(t, receipts.MakeReceipts(t.Context(), "keys"))
		run(t, &receiver{caller: newCaller(t, h.Journal), receipts: receipts, h: h})
	}}
}

func (r *receiver) tx() journal.Tx {
	r.t.Helper()
	if r.h.Tx != nil {
		return r.h.Tx(r.t)
	}
	tx, err := r.receipts.BeginTx(r.t.Context())
	require.NoError(r.t, err)
	return tx
}

func received(key string) journal.ReceiptKey { return journal.ReceiptKey{Scope: "t acme", Key: key} }

// reserve returns the event of a request under a key. Another body makes another request.
func (r *receiver) reserve(key, body string) machine.ReceiptEvent {
	return machine.ReceiptEvent{
		Kind: machine.ReceiptReserve, ReceiptKey: received(key), At: r.now, Place: "payments.create", Fingerprint: body,
		Same: func(receipt *journal.Receipt) (bool, error) { return receipt.Fingerprint == body, nil }, Keep: 24 * time.Hour, Refuse: 48 * time.Hour,
	}
}

func (r *receiver) complete(key string, claim int64, body []byte) machine.ReceiptEvent {
	return machine.ReceiptEvent{
		Kind: machine.ReceiptComplete, ReceiptKey: received(key), At: r.now, Claim: claim,
		Answer: &journal.Answer{Status: http.StatusCreated, Header: http.Header{"Location": {"/payments/" + key}}, Body: body},
	}
}

// in applies an event within tx.
func (r *receiver) in(tx journal.Tx, ev machine.ReceiptEvent, want machine.Decision) machine.ReceiptResult {
	r.t.Helper()
	result, err := r.receipts.ReceiveTx(r.t.Context(), tx, ev)
	require.NoError(r.t, err)
	require.Equal(r.t, want.String(), result.Decision.String())
	return result
}

// alone applies an event in a separate transaction.
func (r *receiver) alone(ev machine.ReceiptEvent, want machine.Decision) machine.ReceiptResult {
	r.t.Helper()
	tx := r.tx()
	result := r.in(tx, ev, want)
	require.NoError(r.t, tx.Commit(r.t.Context()))
	return result
}

// serve receives a request and commits its answer.
func (r *receiver) serve(key, body string, answer []byte) {
	r.t.Helper()
	tx := r.tx()
	begun := r.in(tx, r.reserve(key, body), machine.Execute)
	r.in(tx, r.complete(key, begun.Receipt.Claim, answer), machine.Recorded)
	require.NoError(r.t, tx.Commit(r.t.Context()))
}

func (r *receiver) stands(key string) journal.Receipt {
	r.t.Helper()
	receipt, err := r.receipts.GetReceipt(r.t.Context(), received(key))
	require.NoError(r.t, err)
	return receipt
}

func (r *receiver) isAbsent(key string) {
	r.t.Helper()
	_, err := r.receipts.GetReceipt(r.t.Context(), received(key))
	require.ErrorIs(r.t, err, journal.ErrNotFound)
}

var receiptTests = []test{
	receiving("an answer is recorded with its transaction, and given again as it was", func(t *testing.T, r *receiver) {
		for name, body := range map[string][]byte{"none": nil, "empty": {}, "short": []byte(`{"id":"p-1"}`), "long": everyByteOften()} {
			r.isAbsent(name)
			r.serve(name, "a", body)
			want := journal.Receipt{
				ReceiptKey: received(name), Place: "payments.create", State: journal.ReceiptCompleted, Claim: 1, Fingerprint: "a",
				CreatedAt: r.now, SettledAt: r.now, ExpiresAt: r.now.Add(24 * time.Hour), RefusedUntil: r.now.Add(72 * time.Hour),
				Answer: r.complete(name, 1, body).Answer,
			}
			got := r.stands(name)
			assert.Positive(t, got.Handle)
			want.Handle = got.Handle
			assert.Equal(t, want, got)
			looked, err := r.receipts.LookReceipt(t.Context(), r.reserve(name, "a"))
			require.NoError(t, err)
			assert.Equal(t, machine.ReceiptResult{Receipt: want, Decision: machine.Replay}, looked)
			tx := r.tx()
			assert.Equal(t, want, r.in(tx, r.reserve(name, "a"), machine.Replay).Receipt)
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}),
	receiving("a transaction that is rolled back leaves nothing, and the key free", func(t *testing.T, r *receiver) {
		tx := r.tx()
		r.in(tx, r.reserve("key-1", "a"), machine.Execute)
		require.NoError(t, tx.Rollback(t.Context()))
		r.isAbsent("key-1")
		tx = r.tx()
		begun := r.in(tx, r.reserve("key-1", "a"), machine.Execute)
		r.in(tx, r.complete("key-1", begun.Receipt.Claim, nil), machine.Recorded)
		require.NoError(t, tx.Rollback(t.Context()))
		r.isAbsent("key-1")
		r.serve("key-1", "a", nil)
	}),
	receiving("many keys are reserved at once, each as alone", func(t *testing.T, r *receiver) {
		r.serve("done", "a", nil)
		r.serve("other", "b", nil)
		tx := r.tx()
		var evs []machine.ReceiptEvent
		for _, key := range []string{"new-1", "done", "new-2", "other"} {
			evs = append(evs, r.reserve(key, "a"))
		}
		results, err := r.receipts.ReserveTx(t.Context(), tx, evs)
		require.NoError(t, err)
		for i, want := range []machine.Decision{machine.Execute, machine.Replay, machine.Execute, machine.Misuse} {
			require.Equal(t, want.String(), results[i].Decision.String())
		}
		for _, i := range []int{2, 0} {
			ev := r.complete(evs[i].Key, results[i].Receipt.Claim, []byte(evs[i].Key))
			ev.Reserved = &results[i].Receipt
			r.in(tx, ev, machine.Recorded)
		}
		require.NoError(t, tx.Commit(t.Context()))
		assert.Equal(t, "new-1", string(r.stands("new-1").Answer.Body))
		assert.Equal(t, "new-2", string(r.stands("new-2").Answer.Body))
		assert.NotEqual(t, r.stands("new-1").Handle, r.stands("new-2").Handle)
	}),
	receiving("another request under the key is a misuse, and another scope's key is its own", func(t *testing.T, r *receiver) {
		r.serve("key-1", "a", nil)
		tx := r.tx()
		r.in(tx, r.reserve("key-1", "b"), machine.Misuse)
		require.NoError(t, tx.Rollback(t.Context()))
		theirs := r.reserve("key-1", "b")
		theirs.Scope = "t globex"
		r.alone(theirs, machine.Execute)
	}),
	receiving("a reservation that was committed by itself stops the key until a person resolves it", func(t *testing.T, r *receiver) {
		for key, as := range map[string]journal.Resolution{"executed": journal.Executed, "not": journal.NotExecuted} {
			begun := r.alone(r.reserve(key, "a"), machine.Execute)
			assert.Equal(t, journal.ReceiptReserved, r.stands(key).State)
			r.alone(r.reserve(key, "a"), machine.Stop)
			stale := r.complete(key, begun.Receipt.Claim+1, nil)
			r.alone(stale, machine.Stale)
			resolve := r.complete(key, 0, []byte("found"))
			resolve.Kind, resolve.Resolution, resolve.By, resolve.Why = machine.ReceiptResolve, as, "ada", "see the ledger"
			r.alone(resolve, machine.Recorded)
			if as == journal.NotExecuted {
				r.isAbsent(key)
				r.serve(key, "a", nil)
				continue
			}
			assert.Equal(t, []byte("found"), r.stands(key).Answer.Body)
			assert.Contains(t, r.stands(key).Cause, "ada")
		}
	}),
	receiving("an answer without a reservation is recorded once", func(t *testing.T, r *receiver) {
		record := r.reserve("key-1", "a")
		record.Kind, record.Answer = machine.ReceiptRecord, &journal.Answer{Status: 200, Body: []byte("first")}
		r.alone(record, machine.Recorded)
		record.Answer = &journal.Answer{Status: 200, Body: []byte("second")}
		assert.Equal(t, []byte("first"), r.alone(record, machine.Replay).Receipt.Answer.Body)
		assert.Equal(t, []byte("first"), r.stands("key-1").Answer.Body)
	}),
	receiving("an expired receipt is reaped in two steps, and its key is refused between them", func(t *testing.T, r *receiver) {
		reap := func(limit int) int {
			n, err := r.receipts.ReapReceipts(t.Context(), machine.ReceiptEvent{Kind: machine.ReceiptReap, At: r.now}, limit)
			require.NoError(t, err)
			return n
		}
		for i := range 5 {
			r.serve(fmt.Sprint("key-", i), "a", []byte("body"))
		}
		r.alone(r.reserve("reserved", "a"), machine.Execute)
		assert.Zero(t, reap(10))
		r.pass(r.now.Add(24 * time.Hour))
		assert.Equal(t, 3, reap(3))
		assert.Equal(t, 2, reap(3))
		assert.Zero(t, reap(3))
		assert.Nil(t, r.stands("key-0").Answer)
		r.alone(r.reserve("key-0", "a"), machine.Gone)
		r.serve("later", "a", []byte("body"))
		r.pass(r.now.Add(48 * time.Hour))
		assert.Equal(t, 6, reap(10))
		r.isAbsent("key-0")
		assert.Nil(t, r.stands("later").Answer)
		assert.Equal(t, journal.ReceiptReserved, r.stands("reserved").State)
		handle := r.stands("reserved").Handle
		r.serve("key-0", "b", nil)
		assert.Greater(t, r.stands("key-0").Handle, handle, "no handle is used again")
	}),
	receiving("a key that is not refused any more begins a new life, also before it was reaped", func(t *testing.T, r *receiver) {
		r.serve("key-1", "a", []byte("first"))
		r.pass(r.now.Add(72 * time.Hour))
		tx := r.tx()
		begun := r.in(tx, r.reserve("key-1", "b"), machine.Execute)
		assert.True(t, begun.Again)
		assert.EqualValues(t, 2, begun.Receipt.Claim)
		r.in(tx, r.complete("key-1", 1, nil), machine.Stale)
		r.in(tx, r.complete("key-1", 2, []byte("second")), machine.Recorded)
		require.NoError(t, tx.Commit(t.Context()))
		assert.Equal(t, []byte("second"), r.stands("key-1").Answer.Body)
	}),
	receiving("receipts are listed in the order of their creation", func(t *testing.T, r *receiver) {
		list := func(f journal.ReceiptFilter) (keys []string) {
			for receipt, err := range r.receipts.ListReceipts(t.Context(), f) {
				require.NoError(t, err)
				if receipt.Answer != nil {
					assert.Empty(t, receipt.Answer.Body)
				}
				keys = append(keys, receipt.Key)
			}
			return keys
		}
		assert.Empty(t, list(journal.ReceiptFilter{}))
		for i := range 5 {
			r.serve(fmt.Sprint("key-", i), "a", []byte("body"))
		}
		elsewhere := r.reserve("reserved", "a")
		elsewhere.Scope, elsewhere.Place = "t globex", "refunds.create"
		r.alone(elsewhere, machine.Execute)
		assert.Equal(t, []string{"key-0", "key-1", "key-2", "key-3", "key-4", "reserved"}, list(journal.ReceiptFilter{}))
		assert.Equal(t, []string{"key-0", "key-1"}, list(journal.ReceiptFilter{Limit: 2}))
		assert.Equal(t, []string{"key-3", "key-4"}, list(journal.ReceiptFilter{After: r.stands("key-2").Handle, Limit: 2}))
		assert.Equal(t, []string{"reserved"}, list(journal.ReceiptFilter{Scope: "t globex"}))
		assert.Equal(t, []string{"reserved"}, list(journal.ReceiptFilter{Place: "refunds.create"}))
		assert.Equal(t, []string{"reserved"}, list(journal.ReceiptFilter{States: []journal.ReceiptState{journal.ReceiptReserved}}))
		assert.Equal(t, []string{"reserved", "key-4", "key-3"}, list(journal.ReceiptFilter{Newest: true, Limit: 3}))
		assert.Equal(t, []string{"key-1", "key-0"}, list(journal.ReceiptFilter{Newest: true, Before: r.stands("key-2").Handle}))
		assert.Equal(t, []string{"key-3"}, list(journal.ReceiptFilter{After: r.stands("key-2").Handle, Before: r.stands("key-4").Handle}))
	}),
	receiving("more receipts than a page are listed in both directions, and counted", func(t *testing.T, r *receiver) {
		counter, ok := r.h.Journal.(journal.ReceiptCounter)
		if !ok {
			t.Skip("the store does not count receipts")
		}
		counted := func() journal.ReceiptCounts {
			c, err := counter.CountReceipts(t.Context())
			require.NoError(t, err)
			return c
		}
		assert.Zero(t, counted())
		tx, many := r.tx(), 1203
		for i := range many {
			record := r.reserve(fmt.Sprint("key-", i), "a")
			record.Kind, record.Answer = machine.ReceiptRecord, &journal.Answer{Status: 200}
			r.in(tx, record, machine.Recorded)
		}
		require.NoError(t, tx.Commit(t.Context()))
		assert.Equal(t, journal.ReceiptCounts{Completed: int64(many), NextEnd: r.now.Add(24 * time.Hour)}, counted())
		first := r.now
		for _, key := range []string{"reserved-1", "reserved-2"} {
			r.alone(r.reserve(key, "a"), machine.Execute)
			r.pass(r.now.Add(time.Minute))
		}
		assert.Equal(t, journal.ReceiptCounts{Completed: int64(many), Reserved: 2, OldestReserved: first, NextEnd: first.Add(24 * time.Hour)}, counted())
		for _, newest := range []bool{false, true} {
			var handles []int64
			for receipt, err := range r.receipts.ListReceipts(t.Context(), journal.ReceiptFilter{Newest: newest}) {
				require.NoError(t, err)
				handles = append(handles, receipt.Handle)
			}
			require.Len(t, handles, many+2)
			if newest {
				slices.Reverse(handles)
			}
			assert.True(t, slices.IsSorted(handles))
		}
	}),
	receiving("of many simultaneous callers one executes, and the others get its answer", func(t *testing.T, r *receiver) {
		var all sync.WaitGroup
		var mu sync.Mutex
		decided := map[string]int{}
		for range 8 {
			all.Go(func() {
				for {
					tx, err := r.receipts.BeginTx(t.Context())
					if !assert.NoError(t, err) {
						return
					}
					result, err := r.receipts.ReceiveTx(t.Context(), tx, r.reserve("key-1", "a"))
					if err == nil && result.Decision == machine.Execute {
						_, err = r.receipts.ReceiveTx(t.Context(), tx, r.complete("key-1", result.Receipt.Claim, []byte("once")))
						if err == nil {
							err = tx.Commit(t.Context())
						}
					}
					_ = tx.Rollback(t.Context())
					if !assert.NoError(t, err) {
						return
					}
					mu.Lock()
					decided[result.Decision.String()]++
					mu.Unlock()
					if result.Decision != machine.Wait {
						return
					}
				}
			})
		}
		all.Wait()
		assert.Equal(t, 1, decided["execute"])
		assert.Equal(t, 7, decided["replay"])
		assert.Equal(t, []byte("once"), r.stands("key-1").Answer.Body)
	}),
	receiving("the number of an entity only rises, and with its transaction", func(t *testing.T, r *receiver) {
		advance := func(tx journal.Tx, seq int64) bool {
			later, err := r.receipts.AdvanceTx(t.Context(), tx, "stripe", "p-1", seq)
			require.NoError(t, err)
			return later
		}
		tx := r.tx()
		assert.True(t, advance(tx, 5))
		assert.False(t, advance(tx, 5))
		require.NoError(t, tx.Rollback(t.Context()))
		tx = r.tx()
		assert.True(t, advance(tx, 3), "what was rolled back does not count")
		require.NoError(t, tx.Commit(t.Context()))
		tx = r.tx()
		assert.False(t, advance(tx, 2))
		assert.True(t, advance(tx, 4))
		require.NoError(t, tx.Commit(t.Context()))
	}),
	receiving("an operation, the answer and a receipt are one commit", func(t *testing.T, r *receiver) {
		outbox, ok := r.h.Journal.(machine.Outbox)
		if !ok {
			t.Skip("the store records no operations in transactions of others")
		}
		b := &box{caller: r.caller, outbox: outbox, tx: r.tx}
		for _, commits := range []bool{false, true} {
			tx := r.tx()
			begun := r.in(tx, r.reserve("key-1", "a"), machine.Execute)
			b.in(tx, b.enqueueEvent("key-1/charge"), machine.Recorded)
			r.in(tx, r.complete("key-1", begun.Receipt.Claim, nil), machine.Recorded)
			if !commits {
				require.NoError(t, tx.Rollback(t.Context()))
				r.isAbsent("key-1")
				_, err := r.journal.Get(t.Context(), named("key-1/charge"))
				require.ErrorIs(t, err, journal.ErrNotFound)
				continue
			}
			require.NoError(t, tx.Commit(t.Context()))
			assert.Equal(t, journal.StatePending, r.get(named("key-1/charge")).State)
			assert.Equal(t, journal.ReceiptCompleted, r.stands("key-1").State)
		}
	}),
	receiving("the next process finds the receipts", func(t *testing.T, r *receiver) {
		if r.h.Reopen == nil {
			t.Skip("the store keeps nothing")
		}
		r.serve("key-1", "a", []byte("body"))
		want := r.stands("key-1")
		next := r.h.Reopen(t).(machine.Receipts)
		require.NoError(t, next.MakeReceipts(t.Context(), "keys"))
		got, err := next.GetReceipt(t.Context(), received("key-1"))
		require.NoError(t, err)
		assert.Equal(t, want, got)
		require.ErrorContains(t, next.MakeReceipts(t.Context(), "keys of each endpoint"), "keys of each endpoint")
	}),
}

func everyByteOften() (b []byte) {
	for range 100 {
		b = append(b, everyByte...)
	}
	return b
}
