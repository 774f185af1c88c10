package postgres_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// Two processes hear of one object for two operations at the same time. It proves one of them. If both processes
// receive one event, one of them is the first.
func TestObjectProvesOneOfTwo(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	journals := []*postgres.Journal{open(t, server, opts), open(t, server, opts)}
	s := join(t, journals[0])
	for round := range 10 {
		var ops [2]journal.Operation
		for i := range ops {
			begun, err := journals[0].Apply(t.Context(), begin(fmt.Sprint("order-", round, "-", i), s))
			require.NoError(t, err)
			doubt, err := journals[0].Apply(t.Context(), machine.Event{Kind: machine.EventMarkUnknown, Handle: begun.Operation.Handle, Ref: begun.Operation.Ref,
				Claim: begun.Operation.Claim, At: time.Now(), Session: s.ID(), Attempts: 1, Account: "acct_1", Cause: "no answer"})
			require.NoError(t, err)
			ops[i] = doubt.Operation
		}
		var firsts atomic.Int64
		var wg sync.WaitGroup
		for i, j := range journals {
			wg.Go(func() {
				_, err := j.Apply(t.Context(), machine.Event{
					Kind: machine.EventEvidence, Handle: ops[i].Handle, Ref: ops[i].Ref, Claim: ops[i].Claim, Generation: ops[i].Generation, At: time.Now(),
					Account: "acct_1", Object: fmt.Sprint("charge ch_", round),
					Evidence: &journal.Evidence{Source: journal.SourceLook, Finding: journal.FindingTookEffect, Basis: journal.BasisKey, Digest: "d", Rule: "r"},
					Answer:   &journal.Answer{Status: 200, Body: []byte("{}")},
				})
				assert.NoError(t, err)
				_, first, err := j.RecordEvent(t.Context(), machine.Heard{Provider: "ledger", ID: fmt.Sprint("evt_", round)},
					[]machine.Event{{Kind: machine.EventHint, Ref: ops[0].Ref, At: time.Now()}})
				assert.NoError(t, err)
				if first {
					firsts.Add(1)
				}
			})
		}
		wg.Wait()
		completed := 0
		for _, op := range ops {
			got, err := journals[0].Get(t.Context(), op.Ref)
			require.NoError(t, err)
			if got.State == journal.StateCompleted {
				completed++
			}
		}
		assert.Equal(t, 1, completed)
		assert.EqualValues(t, 1, firsts.Load())
	}
}

// An operation in flight is found by its key, of any length and with any bytes, whether the key is its ID or not. No
// other operation is found, even if the keys begin alike.
func TestFindsOperationsInFlight(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	j := open(t, server, options(t, server))
	s := join(t, j)
	for _, length := range []int{1, 2, 46, 47, 48, 49, 60, 126, 127, 128, 129, 300, 20_000} {
		key := strings.Repeat("k\x00\xff", length)[:length-1]
		for _, last := range []string{"a", "b"} {
			for id, naming := range map[string]journal.Naming{"own-" + key + last: journal.Named, key + last: journal.Generated} {
				ev := begin(id, s)
				ev.New, ev.Intent.Naming, ev.Intent.Key = naming == journal.Generated, naming, key+last
				begun, err := j.Apply(t.Context(), ev)
				require.NoError(t, err)
				require.Equal(t, machine.Execute, begun.Decision)
			}
		}
		for _, last := range []string{"a", "b"} {
			matches, err := j.FindBy(t.Context(), "ledger", machine.ByKey, key+last)
			require.NoError(t, err)
			var ids []string
			for _, m := range matches {
				ids = append(ids, m.Operation.ID)
			}
			assert.ElementsMatch(t, []string{"own-" + key + last, key + last}, ids, length)
		}
		matches, err := j.FindBy(t.Context(), "ledger", machine.ByKey, key+"c")
		require.NoError(t, err)
		assert.Empty(t, matches)
	}
}

// Reads succeed after a restart of the server that broke every connection.
func TestReadsOutliveARestart(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	j := open(t, server, options(t, server))
	begun, err := j.Apply(t.Context(), begin("order", join(t, j)))
	require.NoError(t, err)
	var readers sync.WaitGroup
	for range 8 { // so that there are several connections
		readers.Go(func() {
			_, err := j.Get(t.Context(), begun.Operation.Ref)
			assert.NoError(t, err)
		})
	}
	readers.Wait()
	server.Restart(t, postgrestest.Immediate)
	for range 8 {
		op, err := j.Get(t.Context(), begun.Operation.Ref)
		require.NoError(t, err)
		assert.Equal(t, journal.StateInFlight, op.State)
	}
}

// doubts begins operations with these names, and leaves their outcomes unknown.
func doubts(t *testing.T, j *postgres.Journal, s machine.Session, body string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		ev := begin(id, s)
		ev.Intent.Request.Body = []byte(body + id)
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		op := begun.Operation
		doubt, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventMarkUnknown, Handle: op.Handle, Ref: op.Ref, Claim: op.Claim, At: time.Now(), Due: time.Now(), Session: s.ID(), Attempts: 1})
		require.NoError(t, err)
		require.Equal(t, machine.Recorded, doubt.Decision)
	}
}

// looks leases the due operations for hours, and returns their names.
func looks(t *testing.T, j *postgres.Journal, limit int) (ids []string, err error) {
	t.Helper()
	at := time.Now().Add(time.Hour)
	results, err := j.Looks(t.Context(), machine.Event{Kind: machine.EventLook, At: at, Due: at.Add(time.Hour)}, limit)
	for _, r := range results {
		assert.Equal(t, machine.Look, r.Decision)
		ids = append(ids, r.Operation.ID)
	}
	return ids, err
}

// A damaged operation does not block the look-ups of other due operations.
func TestLooksBesideADamagedOperation(t *testing.T) {
	t.Parallel()
	for table, damage := range map[string]string{"operations": zeroFacts, "requests": "UPDATE %[1]s.requests SET body = 'x' WHERE handle = (SELECT min(handle) FROM %[1]s.operations)"} {
		t.Run(table, func(t *testing.T) {
			server := postgrestest.Shared(t)
			opts := options(t, server)
			j := open(t, server, opts)
			doubts(t, j, join(t, j), "", "order-0", "order-1", "order-2")
			server.Exec(t, fmt.Sprintf(damage, `"`+opts.Schema+`"`))
			for _, want := range []string{"order-1", "order-2"} {
				ids, err := looks(t, j, 1)
				require.NoError(t, err)
				assert.Equal(t, []string{want}, ids)
			}
			_, err := looks(t, j, 10)
			require.ErrorContains(t, err, "is passed over")
		})
	}
}

// zeroFacts damages the first operation.
const zeroFacts = "UPDATE %[1]s.operations SET facts = decode(repeat('00', length(facts)), 'hex') WHERE handle = (SELECT min(handle) FROM %[1]s.operations)"

// If requests are large, no more operations are leased than are read at once. Those due longest come first.
func TestLooksAtLargeRequests(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	j := open(t, server, options(t, server))
	const size = 10_000
	postgres.ReadBytes(j, 5*size/2)
	doubts(t, j, join(t, j), strings.Repeat("x", size), "order-0", "order-1", "order-2", "order-3")
	for _, want := range [][]string{{"order-0", "order-1", "order-2"}, {"order-3"}, nil} {
		ids, err := looks(t, j, 10)
		require.NoError(t, err)
		assert.Equal(t, want, ids)
	}
}
