package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryEngineMakesOneEffectAStep(t *testing.T) {
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			_, err := with(t.Context(), c, t.TempDir(), 1, func(l *load) (f figures, err error) {
				before, err := l.commits.count()
				require.NoError(t, err)
				for range 5 {
					_, err := l.run(t.Context(), 0)
					require.NoError(t, err)
				}
				after, err := l.commits.count()
				if c.name == nameNone {
					assert.Equal(t, before, after)
				} else {
					// One before each request at least, so that its flow would be known after a crash.
					assert.GreaterOrEqual(t, after-before, uint32(5*len(steps)))
				}
				return figures{}, err
			})
			require.NoError(t, err, "the ledger has one effect for each step of the flows that were begun")
		})
	}
}

func TestALoadOfEveryEngineIsMeasured(t *testing.T) {
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			f, err := measure(t.Context(), c, t.TempDir(), 4, 20*time.Millisecond)
			require.NoError(t, err)
			assert.Positive(t, f.FlowsPerSecond)
			assert.Positive(t, f.P50)
			assert.GreaterOrEqual(t, f.P99, f.P50)
			assert.Positive(t, f.CPU)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := measure(ctx, contenders[0], t.TempDir(), 1, time.Minute)
	require.ErrorIs(t, err, context.Canceled)
}

// The provider remembers keys and counts effects.
func TestProviderRemembersKeys(t *testing.T) {
	p := newProvider()
	server := httptest.NewServer(p)
	defer server.Close()
	at := place{provider: server.URL, client: server.Client()}
	call := func(step, key string) receipt {
		r, err := at.call(t.Context(), "order-1", step, receipt{ID: "earlier"}, key)
		require.NoError(t, err)
		return r
	}
	first := call("charge", "key-1")
	assert.Equal(t, receipt{ID: "charge_1", Object: "charge", Amount: 2000}, first)
	assert.Equal(t, first, call("charge", "key-1"))
	require.ErrorContains(t, p.check(1), "1 steps took effect, of 4")
	for _, step := range []string{"reserve", "book", "notify"} {
		call(step, step)
	}
	require.NoError(t, p.check(1))
	call("charge", "key-2")
	require.ErrorContains(t, p.check(1), "step charge of flow order-1 took effect 2 times")

	_, err := at.call(t.Context(), "order-1", "charge", receipt{}, "")
	require.ErrorContains(t, err, "400", "a call without a key")
	resp, err := server.Client().PostForm(server.URL, url.Values{})
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}

// Every transaction that writes is counted once.
func TestTransactionsThatWriteAreCountedOnce(t *testing.T) {
	folder := t.TempDir()
	db, err := openDatabase(folder, 2)
	require.NoError(t, err)
	_, err = db.Exec("CREATE TABLE t (n INTEGER)")
	require.NoError(t, err)
	c, err := countCommits(folder)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, db.Close())
		assert.NoError(t, c.close())
	})
	before, err := c.count()
	require.NoError(t, err)
	for n := range 10 {
		_, err := db.Exec("INSERT INTO t VALUES (?)", n)
		require.NoError(t, err)
	}
	tx, err := db.Begin()
	require.NoError(t, err)
	for n := range 10 {
		_, err := tx.Exec("INSERT INTO t VALUES (?)", n)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
	tx, err = db.Begin() // writes nothing
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	var sum int
	require.NoError(t, db.QueryRow("SELECT sum(n) FROM t").Scan(&sum))
	_, err = db.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	require.NoError(t, err)
	after, err := c.count()
	require.NoError(t, err)
	assert.EqualValues(t, 11, after-before)
}

// A connection that would lose commits with the power is refused.
func TestConnectionThatLosesCommitsIsRefused(t *testing.T) {
	folder := t.TempDir()
	db, err := openDatabase(folder, 1)
	require.NoError(t, err)
	var synchronous int
	require.NoError(t, db.QueryRow("PRAGMA synchronous").Scan(&synchronous))
	assert.Equal(t, 2, synchronous)
	require.NoError(t, db.Close())

	weak, err := openSQLite(filepath.Join(folder, databaseName), url.Values{"_pragma": {"synchronous(NORMAL)"}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, weak.Close()) })
	require.ErrorContains(t, weak.Ping(), "not FULL")
}

func TestMediansAreTakenOfEachFigureByItself(t *testing.T) {
	m := medians([]figures{{FlowsPerSecond: 3, P99: 1}, {FlowsPerSecond: 1, P99: 5}, {FlowsPerSecond: 2, P99: 3}})
	assert.Equal(t, figures{FlowsPerSecond: 2, P99: 3}, m)
	assert.Zero(t, medians(nil))
}

func TestTheAimIsAboutTheFastestPeer(t *testing.T) {
	for us, want := range map[float64]string{
		60: `\(river/flow\): 3 \(aim ≥ 3: reached\)`,
		58: `\(river/flow\): 2.9 \(aim ≥ 3: missed\)`,
	} {
		r := results{nameOnceward: {FlowsPerSecond: us}, nameRiverFlow: {FlowsPerSecond: 20}, nameDBOS: {FlowsPerSecond: 10}, nameNone: {FlowsPerSecond: 1000}}
		var out bytes.Buffer
		require.NoError(t, r.printAim(&out))
		assert.Regexp(t, want, out.String())
	}
	var out bytes.Buffer
	require.NoError(t, results{nameOnceward: {FlowsPerSecond: 1}}.printAim(&out))
	assert.Empty(t, out.String(), "no peer was measured")
}

func TestARunPrintsItsFigures(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-repetitions", "1", "-duration", "10ms", "-flows", "2", "-only", "onceward, dbos"}
	require.NoError(t, run(t.Context(), args, &out))
	assert.Contains(t, out.String(), "2 flows at once")
	assert.Regexp(t, `(?m)^onceward +\d`, out.String())
	assert.Regexp(t, `(?m)^dbos +\d`, out.String())
	assert.Regexp(t, `the best of the others \(dbos\): [0-9.]+ \(aim ≥ 3: `, out.String())
	assert.NotContains(t, out.String(), "river")
}

func TestTheGuaranteesOfEveryEngineArePrinted(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-guarantees"}, &out))
	for _, g := range guarantees {
		whose := ""
		for _, a := range g.answers {
			whose += a.who + " "
			assert.Contains(t, out.String(), a.what)
		}
		for _, engine := range []string{"onceward", "river", "dbos"} {
			assert.True(t, strings.Contains(whose, engine), fmt.Sprintf("%s says nothing of %s", g.event, engine))
		}
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	for name, args := range map[string][]string{
		"an engine":            {"-only", "temporal"},
		"a number of flows":    {"-flows", "0"},
		"a number of runs":     {"-repetitions", "0"},
		"a positive duration":  {"-duration", "0s"},
		"a folder":             {"-dir", "no/such/folder"},
		"a flag that is known": {"-callers", "1"},
	} {
		t.Run(name, func(t *testing.T) { require.Error(t, run(t.Context(), args, &bytes.Buffer{})) })
	}
}
