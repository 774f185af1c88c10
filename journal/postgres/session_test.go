package postgres_test

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

const soon, tick = 20 * time.Second, 20 * time.Millisecond

// A process that is cut off from the database loses its session by its own clock, and other processes bury it then. Its
// later events about its operations are late, but its answers count.
func TestDisconnectedSessionExpires(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	p, url := proxied(t, server)
	cut := openAt(t, url, opts)
	other := open(t, server, opts)
	s, theirs := join(t, cut), join(t, other)
	held := make(map[string]journal.Operation)
	for _, id := range []string{"parked", "completed"} {
		begun, err := cut.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		held[id] = begun.Operation
	}
	waits, err := other.Apply(t.Context(), begin("parked", theirs))
	require.NoError(t, err)
	require.Equal(t, machine.Wait, waits.Decision)

	p.CutOff()
	require.Eventually(t, s.Lost, soon, tick)
	require.Eventually(t, func() bool {
		taken, err := other.Apply(t.Context(), begin("parked", theirs))
		return err == nil && taken.Operation.Holder == theirs.ID()
	}, soon, tick, "others take over what it held")
	assert.False(t, theirs.Lost())
	p.Heal()

	_, err = cut.Apply(t.Context(), begin("more", s))
	require.ErrorIs(t, err, journal.ErrSessionLost)
	park := machine.Event{Kind: machine.EventPark, Ref: held["parked"].Ref, Handle: held["parked"].Handle, At: time.Now(), Session: s.ID(), Claim: 1}
	require.Eventually(t, func() bool {
		stale, err := cut.Apply(t.Context(), park)
		return err == nil && stale.Decision == machine.Stale
	}, soon, tick)
	completed, err := cut.Apply(t.Context(), complete(held["completed"], s))
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, completed.Decision)
	again := join(t, cut)
	_, err = cut.Apply(t.Context(), begin("more", again))
	require.NoError(t, err)
}

// A job that ends by itself finds the operation of a process that died, though the job has not seen this process before.
func TestResumeTakesOverFromADeadProcess(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	silent := opts
	postgres.Hasten(&opts)
	postgres.Still(&silent)
	charged := make(chan struct{}, 8)
	box := providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charged <- struct{}{}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"ch_1","object":"charge"}`)
	}))
	t.Cleanup(box.Close)
	box.Script(providertest.DelayAfter(time.Hour))
	client := func(j *postgres.Journal) *onceward.Client {
		c, err := onceward.New(onceward.Config{
			Journal: j, Providers: []providers.Provider{box.Provider()}, HTTPClient: box.Client(),
			Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer sk_test_1"); return nil },
		})
		require.NoError(t, err)
		return c
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, box.URL+"/v1/charges", strings.NewReader("amount=2000&currency=eur"))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	dead := client(open(t, server, silent))
	gone := make(chan struct{})
	go func() { defer close(gone); _, _ = dead.Do(req, "order-1") }()
	defer func() { cancel(); <-gone }()
	<-charged
	server.Exec(t, `UPDATE "`+opts.Schema+`".sessions SET expires_at = clock_timestamp() - interval '1 s'`)

	report, err := client(open(t, server, opts)).Resume(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, report.Completed, report)
	assert.Len(t, box.Effects(), 1)
}

// The database's clock goes back by hours, as after a failover, right after a process has died. Other processes take
// over its operations as soon as ever. Live sessions do not count as dead.
func TestClockThatGoesBackLeavesNothingHeld(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	p, url := proxied(t, server)
	dead := openAt(t, url, opts)
	other := open(t, server, opts)
	s, theirs := join(t, dead), join(t, other)
	_, err := dead.Apply(t.Context(), begin("order", s))
	require.NoError(t, err)
	p.CutOff()
	require.Eventually(t, s.Lost, soon, tick)
	// As if the clock had been three hours ahead when the rows were written.
	server.Exec(t, `UPDATE "`+opts.Schema+`".sessions SET expires_at = expires_at + interval '3 hours'`)
	require.Eventually(t, func() bool {
		taken, err := other.Apply(t.Context(), begin("order", theirs))
		return err == nil && taken.Operation.Holder == theirs.ID()
	}, soon, tick)
	assert.False(t, theirs.Lost())
}

// An outage longer than any lease buries no session, and neither does a leap of the database's clock.
func TestOutageExpiresNoSession(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	a, b := open(t, server, opts), open(t, server, opts)
	s, theirs := join(t, a), join(t, b)
	begun, err := a.Apply(t.Context(), begin("held", s))
	require.NoError(t, err)
	server.Stop(t, postgrestest.Fast)
	require.Eventually(t, func() bool { return s.Lost() && theirs.Lost() }, soon, tick, "they stop by their own clocks all the same")
	server.Run(t)
	next := join(t, b)
	// As by a clock that is ahead: every lease has expired.
	server.Exec(t, `UPDATE "`+opts.Schema+`".sessions SET expires_at = clock_timestamp() - interval '20 s' WHERE buried_at IS NULL`)
	_, err = b.Apply(t.Context(), begin("another", next))
	require.NoError(t, err, "who is alive is heard of again")
	assert.False(t, next.Lost())
	assert.True(t, theirs.Lost())
	completed, err := a.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, completed.Decision)
}

// All connections of the application may be in use. The heart has its own, and makes another one after a break.
func TestHeartBeatsWhileReadersAreBusy(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	opts.Readers = 1
	postgres.Hasten(&opts)
	proxy, err := pgproxy.Start("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	j := openAt(t, server.URLThrough(proxy.Addr().String()), opts)
	s := join(t, j)
	conn := server.Conn(t)
	migration, err := server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = migration.Exec(t.Context(), `LOCK TABLE "`+opts.Schema+`".operations`)
	require.NoError(t, err)
	var before, after int64
	count := `SELECT beats FROM "` + opts.Schema + `".sessions WHERE id = $1`
	busy := make(chan error, 4)
	ctx, cancel := context.WithCancel(t.Context())
	for range cap(busy) { // readers wait for a migration's locks
		go func() {
			_, err := j.Get(ctx, journal.Ref{ID: "a"})
			busy <- err
		}()
	}
	t.Cleanup(cancel)
	proxy.CutAll()
	require.NoError(t, conn.QueryRow(t.Context(), count, s.ID()).Scan(&before))
	require.Eventually(t, func() bool {
		require.NoError(t, conn.QueryRow(t.Context(), count, s.ID()).Scan(&after))
		return after >= before+15
	}, 4*soon, tick)
	assert.False(t, s.Lost())
	require.NoError(t, migration.Rollback(t.Context()))
	for range cap(busy) {
		require.ErrorIs(t, <-busy, journal.ErrNotFound)
	}
}

// A session that ends is dead for other processes at once.
func TestEndedSessionReleasesItsOperations(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j, other := open(t, server, opts), open(t, server, opts)
	s, theirs := join(t, j), join(t, other)
	_, err := j.Apply(t.Context(), begin("order", s))
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	taken, err := other.Apply(t.Context(), begin("order", theirs))
	require.NoError(t, err)
	assert.Equal(t, theirs.ID(), taken.Operation.Holder)
}

// Each session of the fleet has a rank of its own, and knows the number of sessions.
func TestSessionsHaveRanks(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	a, b := open(t, server, opts), open(t, server, opts)
	sessions := []machine.Session{join(t, a), join(t, b), join(t, b)}
	ranked := func(want int) func() bool {
		return func() bool {
			seen := make(map[int]bool)
			for _, s := range sessions[:want] {
				rank, of := s.(interface{ Rank() (rank, of int) }).Rank()
				if of != want || rank >= of || seen[rank] {
					return false
				}
				seen[rank] = true
			}
			return true
		}
	}
	require.Eventually(t, ranked(3), soon, tick)
	require.NoError(t, sessions[2].End(t.Context()))
	require.Eventually(t, ranked(2), soon, tick)
}

// beats returns a function that reports whether each process of the journal has beaten n times since.
func beats(t *testing.T, server *postgrestest.Cluster, opts postgres.Options, n int64) func() bool {
	t.Helper()
	conn, deadline := server.Conn(t), time.Now().Add(4*soon)
	least := func() (least int64) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT min(beats) FROM "`+opts.Schema+`".sessions WHERE buried_at IS NULL AND id = process`).Scan(&least))
		return least
	}
	before := least()
	return func() bool {
		require.True(t, time.Now().Before(deadline), "they beat")
		return least() >= before+n
	}
}

// Once a process has reset the clock, no other process brings the earlier latest time back.
func TestResetIsForAllProcesses(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	j, other := open(t, server, opts), open(t, server, opts)
	s, theirs := join(t, j), join(t, other)
	ahead := begin("ahead", theirs)
	ahead.At = time.Now().Add(30 * time.Minute)
	_, err := other.Apply(t.Context(), ahead)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		r, err := j.Apply(t.Context(), begin("ahead", s))
		return err == nil && time.Until(r.Last) > 20*time.Minute
	}, soon, tick, "what one has seen, others learn of")
	now := time.Now()
	require.NoError(t, j.ResetClock(t.Context(), now))
	beaten := beats(t, server, opts, 3)
	for both := false; !both; { // while both beat
		both = beaten()
		for j, s := range map[*postgres.Journal]machine.Session{j: s, other: theirs} {
			r, err := j.Apply(t.Context(), begin("ahead", s))
			require.NoError(t, err)
			assert.Less(t, time.Until(r.Last), time.Minute)
		}
		_, err := other.Apply(t.Context(), begin(rand.Text(), theirs))
		require.NoError(t, err)
	}
	fresh := open(t, server, opts)
	r, err := fresh.Apply(t.Context(), begin("ahead", join(t, fresh)))
	require.NoError(t, err)
	assert.Less(t, time.Until(r.Last), time.Minute)
}
