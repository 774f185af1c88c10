package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// address is an address that clients keep, whichever server is behind it: a host name, a virtual address, a service.
type address struct {
	t     *testing.T
	proxy *pgproxy.Proxy
}

func newAddress(t *testing.T, server *postgrestest.Cluster) *address {
	p, _ := proxied(t, server)
	return &address{t, p}
}

func (a *address) url(server *postgrestest.Cluster) string {
	return server.URLThrough(a.proxy.Addr().String())
}

// withStandby starts a primary with a journal, a standby of it, and an address that leads to the primary for now.
func withStandby(t *testing.T, more ...postgrestest.Option) (primary, standby *postgrestest.Cluster, at *address, opts postgres.Options) {
	t.Helper()
	primary = postgrestest.Start(t)
	opts = durable(t, primary)
	require.NoError(t, postgres.Migrate(t.Context(), primary.URL(), opts.Schema))
	standby = postgrestest.Start(t, append(more, postgrestest.StandbyOf(primary))...)
	return primary, standby, newAddress(t, primary), opts
}

// goesTo directs new connections to another server, and cuts the old ones.
func (a *address) goesTo(server *postgrestest.Cluster) {
	a.proxy.Redirect(server.Addr())
	a.proxy.CutAll()
}

// streaming waits until the standby has all of the primary's commits, and receives later ones as they come.
func streaming(t *testing.T, primary *postgrestest.Cluster) {
	t.Helper()
	streamingTo(t, primary, "1")
}

func streamingTo(t *testing.T, primary *postgrestest.Cluster, standbys string) {
	t.Helper()
	conn := primary.Conn(t)
	written := setting(t, conn, "SELECT pg_current_wal_lsn()::text")
	require.Eventually(t, func() bool {
		return setting(t, conn, "SELECT count(*)::text FROM pg_stat_replication WHERE state = 'streaming' AND replay_lsn >= '"+written+"'") == standbys
	}, 20*time.Second, 10*time.Millisecond)
}

// leaveBehind stops one of the streaming standbys from receiving more. A promotion also replays what it has received.
func leaveBehind(t *testing.T, primary, standby *postgrestest.Cluster, othersLeft string) {
	t.Helper()
	standby.Exec(t, "ALTER SYSTEM SET primary_conninfo = ''")
	standby.Exec(t, "SELECT pg_reload_conf()")
	conn := primary.Conn(t)
	require.Eventually(t, func() bool {
		return setting(t, conn, "SELECT count(*)::text FROM pg_stat_replication") == othersLeft
	}, 20*time.Second, 10*time.Millisecond)
}

// answered asks for an operation until the journal answers or says that it was restored. It uses that session, or
// another one if there is none or it is lost.
func answered(t *testing.T, j *postgres.Journal, s machine.Session, name string) (r machine.Result, err error) {
	t.Helper()
	require.Eventually(t, func() bool {
		if err = nil; s == nil || s.Lost() {
			s, err = j.Join(t.Context())
		}
		if err == nil {
			r, err = j.Apply(t.Context(), now(j, begin(name, s)))
		}
		return err == nil || errors.Is(err, journal.ErrRestored)
	}, 40*time.Second, 10*time.Millisecond)
	return r, err
}

// A standby that is behind takes over. Acknowledged operations are missing, and the journal says so before it sends
// anything.
func TestFailoverThatLoses(t *testing.T) {
	t.Parallel()
	primary, standby, at, opts := withStandby(t)
	j := openAt(t, at.url(primary), opts)
	idle := openAt(t, at.url(primary), opts) // begins nothing meanwhile
	c := work(t.Context(), j, "op", 16)
	c.until(t.Context(), 200)
	streaming(t, primary)
	leaveBehind(t, primary, standby, "0")
	c.until(t.Context(), 500)
	primary.Stop(t, postgrestest.Immediate)
	standby.Promote(t)
	at.goesTo(standby)
	before := c.acknowledged()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.restored.IsZero()
	}, 30*time.Second, 10*time.Millisecond, "it is noticed")
	c.stop()
	assert.LessOrEqual(t, c.acknowledged()-before, 0, "nothing is begun after it went back")
	_, err := idle.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored, "for whoever has it open")
	fresh := openAt(t, standby.URL(), opts)
	_, err = fresh.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored, "and who opens it")

	require.NoError(t, fresh.Adopt(t.Context()))
	s := join(t, fresh)
	r, err := fresh.Apply(t.Context(), now(fresh, begin("after it", s)))
	require.NoError(t, err)
	assert.Equal(t, machine.Execute, r.Decision)
	c.end()
	is := c.verify(t, fresh)
	assert.Positive(t, is.missing, "the standby was behind, else this shows nothing")
}

// now sets an event's time to the journal's.
func now(j *postgres.Journal, ev machine.Event) machine.Event {
	ev.At = j.Now()
	return ev
}

// A synchronous standby takes over. Nothing is missing, and the journal raises no alarm.
func TestFailoverToSynchronousStandby(t *testing.T) {
	t.Parallel()
	primary, standby, at, opts := withStandby(t, postgrestest.Setting("synchronous_standby_names", ""))
	streaming(t, primary)
	primary.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	primary.Exec(t, "SELECT pg_reload_conf()")
	j := openAt(t, at.url(primary), opts)
	c := work(t.Context(), j, "op", 16)
	c.until(t.Context(), 500)
	at.proxy.CutOff()
	primary.Stop(t, postgrestest.Immediate)
	standby.Promote(t)
	at.proxy.Heal()
	at.goesTo(standby)
	assert.True(t, c.until(within(t, 40*time.Second), 300), "it goes on")
	c.end()
	c.assertKept(t, openAt(t, standby.URL(), opts))
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// A database that was copied, restored or started for another purpose is noticed at once.
func TestCopyOfTheDatabase(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	opts := durable(t, server)
	j := openAt(t, server.URL(), opts)
	s := join(t, j)
	_, err := j.Apply(t.Context(), now(j, begin("order", s)))
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	server.Exec(t, "CREATE DATABASE copied TEMPLATE postgres")
	copied := strings.Replace(server.URL(), "/postgres?", "/copied?", 1)

	_, err = postgres.Open(t.Context(), copied, postgres.Options{Schema: opts.Schema, Deployment: "staging"})
	require.ErrorIs(t, err, postgres.ErrDeployment)
	theirs := openAt(t, copied, opts)
	_, err = theirs.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, theirs.Confirm(t.Context()))
	next := join(t, theirs)
	r, err := theirs.Apply(t.Context(), now(theirs, begin("order", next)))
	require.NoError(t, err)
	assert.Contains(t, []machine.Decision{machine.Execute, machine.Stop, machine.Later}, r.Decision)
	again, err := theirs.Apply(t.Context(), now(theirs, begin("another", next)))
	require.NoError(t, err)
	original := openAt(t, server.URL(), opts)
	_, err = original.Get(t.Context(), again.Operation.Ref)
	require.True(t, errors.Is(err, journal.ErrNotFound))
}

// Behind a pooler no client connects anew. The journal checks a server that takes over all the same, before it begins
// anything there.
func TestFailoverBehindPgBouncer(t *testing.T) {
	t.Parallel()
	for name, loses := range map[string]bool{"what the dead were told of is lost": true, "nothing is lost": false} {
		t.Run(name, func(t *testing.T) {
			primary, standby, at, opts := withStandby(t)
			pool := behindPgBouncer(t, at.url(primary), 20)
			pooled := opts
			pooled.Pooled, pooled.Migrate = true, false
			live := openAt(t, pool.url, pooled)
			s := join(t, live)
			_, err := live.Apply(t.Context(), now(live, begin("before it", s)))
			require.NoError(t, err)
			var other *postgres.Journal
			if loses {
				other = openAt(t, primary.URL(), opts) // which ends with its server
				streaming(t, primary)
				leaveBehind(t, primary, standby, "0")
			} else {
				other = openAt(t, pool.url, pooled)
			}
			begun, err := other.Apply(t.Context(), now(other, begin("order", join(t, other))))
			require.NoError(t, err)
			require.Equal(t, machine.Execute, begun.Decision)
			if !loses {
				streaming(t, primary)
			}
			primary.Stop(t, postgrestest.Immediate)
			standby.Promote(t)
			at.goesTo(standby)
			r, err := answered(t, live, s, "order")
			if loses {
				require.ErrorIs(t, err, journal.ErrRestored)
				return
			}
			require.Eventually(t, func() bool {
				r, err = answered(t, live, s, "order")
				return err == nil
			}, soon, tick, "it goes on once both have found what they were told of")
			assert.Equal(t, begun.Operation.Handle, r.Operation.Handle)
		})
	}
}

// A standby takes over, and no live process got an acknowledgement of the commits that it lacks. It proves nothing that
// those commits had waited for a standby.
func TestFailoverWithoutALiveProcess(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"commits waited for another standby": true, "commits had waited, and do not any more": false} {
		t.Run(name, func(t *testing.T) {
			primary := postgrestest.Start(t)
			opts := durable(t, primary)
			require.NoError(t, postgres.Migrate(t.Context(), primary.URL(), opts.Schema))
			standbys, others := "1", "0"
			if waits {
				postgrestest.Start(t, postgrestest.StandbyOf(primary))
				standbys, others = "2", "1"
			}
			behind := postgrestest.Start(t, postgrestest.StandbyOf(primary))
			streamingTo(t, primary, standbys)
			primary.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
			primary.Exec(t, "SELECT pg_reload_conf()")
			require.NoError(t, openAt(t, primary.URL(), opts).Close())
			if !waits {
				primary.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = ''")
				primary.Exec(t, "SELECT pg_reload_conf()")
			}
			j := openAt(t, primary.URL(), opts)
			s := join(t, j)
			streamingTo(t, primary, standbys)
			leaveBehind(t, primary, behind, others)
			r, err := j.Apply(t.Context(), now(j, begin("order", s)))
			require.NoError(t, err)
			require.Equal(t, machine.Execute, r.Decision)
			primary.Stop(t, postgrestest.Immediate)
			behind.Promote(t)
			_, err = answered(t, openAt(t, behind.URL(), opts), nil, "order")
			require.ErrorIs(t, err, journal.ErrRestored)
		})
	}
}
