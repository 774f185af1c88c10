package rows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/rows"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// commits reports whether an exchange commits changes of a lane.
func commits(ex pgproxy.Exchange) bool {
	return slices.ContainsFunc(ex.SQL, func(sql string) bool { return strings.Contains(sql, "batch = batch + 1, seq") })
}

// The connection breaks within a commit, at any point of the request or of the answer. The caller learns what became of it:
// what was acknowledged is recorded, and what failed is not.
func TestACommitThatIsCutIsResolved(t *testing.T) {
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	direct := open(t, server, schema)
	proxy, err := pgproxy.Start("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	d, err := rows.Open(t.Context(), config(t, server.URLThrough(proxy.Addr().String())), options(schema))
	require.NoError(t, err)
	j, err := rowstore.Open(t.Context(), d, rowstore.Options{})
	require.NoError(t, err)
	defer j.Close()
	s, err := j.Join(t.Context())
	require.NoError(t, err)

	begin := func(id string) machine.Event {
		return machine.Event{
			Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: s.ID(),
			Intent: &machine.Intent{
				Provider: "ledger", Fingerprint: "v1:" + id, Key: "key-of-" + id,
				Terms:   journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
				Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(id)},
			},
		}
	}
	landed := 0
	for i, fault := range []pgproxy.Fault{
		{Side: pgproxy.Request, Byte: 0}, {Side: pgproxy.Request, Byte: 700}, {Side: pgproxy.Request, Byte: pgproxy.End},
		{Side: pgproxy.Answer, Byte: 0}, {Side: pgproxy.Answer, Byte: 60}, {Side: pgproxy.Answer, Byte: pgproxy.End},
		{Then: pgproxy.Doubt},
	} {
		fault.Match = commits
		proxy.Arm(fault)
		id := fmt.Sprint("cut-", i)
		result, failed := j.Apply(t.Context(), begin(id))
		_, err := direct.Get(t.Context(), journal.Ref{ID: id})
		if failed != nil {
			assert.NotErrorIs(t, failed, rowstore.ErrUndecided, id)
			assert.ErrorIs(t, err, journal.ErrNotFound, "%s is there after %v", id, failed)
			result, failed = j.Apply(t.Context(), begin(id))
			require.NoError(t, failed)
		} else {
			assert.NoError(t, err)
			landed++
		}
		assert.Equal(t, machine.Execute, result.Decision, id)
	}
	assert.GreaterOrEqual(t, landed, 3, "the answer was lost, and the commit was not")
}

// A network that drops packets holds up no caller, and not the journal once it is healed.
func TestNetworkThatDropsPackets(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Schema(t)
	direct := open(t, server, name)
	proxy, err := pgproxy.Start("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	opts := options(name)
	opts.Time = 300 * time.Millisecond
	d, err := rows.Open(t.Context(), config(t, server.URLThrough(proxy.Addr().String())), opts)
	require.NoError(t, err)
	j, err := rowstore.Open(t.Context(), d, rowstore.Options{})
	require.NoError(t, err)
	defer j.Close()
	for i := range 3 {
		id := fmt.Sprint("enqueued-", i)
		proxy.CutOff()
		for n := range 4 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, err := j.Apply(ctx, enqueue(fmt.Sprint(id, "-", n)))
			cancel()
			require.Error(t, err)
		}
		proxy.Heal()
		for err = errors.New("not yet"); err != nil; {
			_, err = j.Apply(t.Context(), enqueue(id))
		}
		_, err = direct.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
	}
}
