package rows_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/rows"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// trips counts the round trips of a driver, but for those of its heartbeat.
type trips struct{ n atomic.Int64 }

func (c *trips) during(t *testing.T, f func() error) int {
	t.Helper()
	before := c.n.Load()
	require.NoError(t, f())
	return int(c.n.Load() - before)
}

// counted opens a driver whose round trips are counted.
func counted(t *testing.T, server *postgrestest.Cluster, schema string) (*rows.Driver, *trips) {
	t.Helper()
	c := new(trips)
	proxy, err := pgproxy.Start("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	proxy.Arm(pgproxy.Fault{Match: func(ex pgproxy.Exchange) bool {
		if !slices.ContainsFunc(ex.SQL, func(sql string) bool { return strings.Contains(sql, "beats") }) {
			c.n.Add(1)
		}
		return false
	}})
	opts := options(schema)
	opts.Pace = leased.Pace{TTL: time.Hour, Beat: time.Hour, Again: time.Hour, Lost: time.Hour}
	d, err := rows.Open(t.Context(), config(t, server.URLThrough(proxy.Addr().String())), opts)
	require.NoError(t, err)
	return d, c
}

func TestRoundTripsOfAnEvent(t *testing.T) {
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	driver(t, server, schema).Close()
	d, c := counted(t, server, schema)
	j, err := rowstore.Open(t.Context(), d, rowstore.Options{})
	require.NoError(t, err)
	defer j.Close()
	s, err := j.Join(t.Context())
	require.NoError(t, err)

	var begun machine.Result
	begin := func(id string, naming journal.Naming) func() error {
		return func() (err error) {
			begun, err = j.Apply(t.Context(), machine.Event{
				Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, New: naming == journal.Generated, At: time.Now(), Session: s.ID(),
				Intent: &machine.Intent{
					Naming: naming, Provider: "ledger", Fingerprint: "v1:" + id, Key: id,
					Terms:   journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
					Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(id)},
				},
			})
			return err
		}
	}
	complete := func() error {
		_, err := j.Apply(t.Context(), machine.Event{
			Kind: machine.EventComplete, Ref: begun.Operation.Ref, Handle: begun.Operation.Handle, At: time.Now(), Session: s.ID(),
			Claim: begun.Operation.Claim, Generation: begun.Operation.Generation, Attempts: 1, Delivered: true,
			Answer: &journal.Answer{Status: 201, Body: []byte("paid")},
		})
		return err
	}
	once := func(id string) { // it prepares the statements
		require.NoError(t, begin(id, journal.Generated)())
		require.NoError(t, complete())
		require.NoError(t, begin(id+"-named", journal.Named)())
		require.NoError(t, complete())
	}
	once("first")
	once("second")

	for i := range 10 {
		assert.Equal(t, 2, c.during(t, begin(fmt.Sprint("made-up-", i), journal.Generated)), "a made-up name, begun as number %d", i)
	}
	assert.Equal(t, 2, c.during(t, complete))
	assert.Equal(t, 2, c.during(t, begin("carried", journal.Named)))
	assert.Equal(t, 2, c.during(t, complete))
	assert.Equal(t, 2, c.during(t, begin("carried", journal.Named)), "its answer is read, and the transaction rolled back")
	assert.Equal(t, machine.Replay, begun.Decision)
}

// A batch reads all of its rows in one round trip.
func TestRoundTripsOfABatch(t *testing.T) {
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	driver(t, server, schema).Close()
	d, c := counted(t, server, schema)
	defer d.Close()
	var keys rowstore.Keys
	for i := range 100 {
		keys.Names = append(keys.Names, rowstore.Digest{byte(i), 1})
		keys.Handles = append(keys.Handles, int64(i+1))
		keys.Marks = append(keys.Marks, int64(i+1))
	}
	keys.Lock = rowstore.TryLock
	batch := func() error {
		tx, _, _, err := d.Begin(t.Context(), keys)
		if err == nil {
			tx.Rollback()
		}
		return err
	}
	require.NoError(t, batch())
	assert.Equal(t, 2, c.during(t, batch), "the second is the rollback")
}

// The events of a batch read their flows one by one, and write with the next read or with COMMIT.
func TestRoundTripsOfFlows(t *testing.T) {
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	driver(t, server, schema).Close()
	d, c := counted(t, server, schema)
	j, err := rowstore.Open(t.Context(), d, rowstore.Options{})
	require.NoError(t, err)
	defer j.Close()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	begun := func(id string) (f journal.Flow) {
		result, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: s.ID(), InputDigest: "d"})
		require.NoError(t, err)
		require.Equal(t, machine.Execute, result.Decision)
		return result.Flow
	}
	record := func(f journal.Flow, seq int) error {
		_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{
			Kind: machine.FlowEventRecord, Ref: f.Ref, Handle: f.Handle, Claim: f.Claim, At: time.Now(), Session: s.ID(),
			Steps: []journal.StepRecord{{Seq: seq, Name: "step", At: time.Now().UTC().Truncate(time.Millisecond)}},
		})
		return err
	}
	var flows []journal.Flow
	for i := range 10 {
		flows = append(flows, begun(fmt.Sprint("ride-", i)))
		require.NoError(t, record(flows[i], 1))
	}
	assert.Equal(t, 3, c.during(t, func() error { begun("one more"); return nil }), "BEGIN, the read, and the row with COMMIT")
	assert.Equal(t, 3, c.during(t, func() error { return record(flows[0], 2) }))
	assert.Equal(t, 2+len(flows), c.during(t, func() error {
		release := j.Hold()
		var all sync.WaitGroup
		for _, f := range flows {
			all.Go(func() { assert.NoError(t, record(f, 3)) })
		}
		for j.Queued() < len(flows) {
			runtime.Gosched()
		}
		release()
		all.Wait()
		return nil
	})-2, "one transaction of the hold, and one of all flows")
}

func TestRoundTripsOfALookAtAReceipt(t *testing.T) {
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	driver(t, server, schema).Close()
	d, c := counted(t, server, schema)
	j, err := rowstore.Open(t.Context(), d, rowstore.Options{})
	require.NoError(t, err)
	defer j.Close()
	look := func() error {
		result, err := j.LookReceipt(t.Context(), machine.ReceiptEvent{Kind: machine.ReceiptReserve, ReceiptKey: journal.ReceiptKey{Key: "new"}, At: time.Now(), Place: "here",
			Fingerprint: "-", Keep: time.Hour, Same: func(*journal.Receipt) (bool, error) { return true, nil }})
		assert.Equal(t, machine.Execute, result.Decision)
		return err
	}
	require.NoError(t, look())
	assert.Equal(t, 1, c.during(t, look), "it reads the receipt, and whether the journal may have a gap")
}
