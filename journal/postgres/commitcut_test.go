package postgres_test

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
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// proxied starts a proxy before the server, and returns the URL through it.
func proxied(t testing.TB, server *postgrestest.Cluster) (*pgproxy.Proxy, string) {
	t.Helper()
	p, err := pgproxy.Start("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p, server.URLThrough(p.Addr().String())
}

// throughProxy opens a journal through a proxy, with a session, and the same journal directly.
func throughProxy(t testing.TB) (p *pgproxy.Proxy, j, direct *postgres.Journal, s machine.Session) {
	t.Helper()
	server := postgrestest.Shared(t)
	opts := durable(t, server)
	p, url := proxied(t, server)
	j = openAt(t, url, opts)
	return p, j, openAt(t, server.URL(), opts), join(t, j)
}

// isBatch reports whether an exchange makes a begin or a complete durable: a pipeline that is a transaction by itself.
// A COMMIT alone may belong to the heart, which tidies up from its first beat on.
func isBatch(ex pgproxy.Exchange) bool {
	return has(ex, "lanes set batch") && (has(ex, "insert into", ".operations") || has(ex, "update", ".operations"))
}

// has reports whether a statement of the exchange contains all these words.
func has(ex pgproxy.Exchange, words ...string) bool {
	return slices.ContainsFunc(ex.SQL, func(sql string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(strings.ToLower(sql), word) })
	})
}

// resolves reports whether an exchange asks for the result of a commit in doubt.
func resolves(ex pgproxy.Exchange) bool {
	return slices.ContainsFunc(ex.SQL, func(sql string) bool { return strings.Contains(sql, "tenure = tenure + 1") })
}

// beginOnce begins an operation while a connection is cut. The answer is definite. An acknowledged begin is recorded. A
// begin that returned an error is not, so that it can be begun again and executes once.
func beginOnce(t *testing.T, j, direct *postgres.Journal, s machine.Session, name string) journal.Operation {
	t.Helper()
	for range 3 {
		ev := begin(name, s)
		ev.At = j.Now()
		begun, failed := j.Apply(t.Context(), ev)
		op, err := direct.Get(t.Context(), ev.Ref)
		if failed != nil {
			require.ErrorIs(t, err, journal.ErrNotFound, "%s is there after %v", name, failed)
			continue
		}
		require.Equal(t, machine.Execute, begun.Decision, name)
		require.NoError(t, err, "%s was acknowledged", name)
		assert.Equal(t, begun.Operation.Handle, op.Handle, name)
		assert.Equal(t, journal.StateInFlight, op.State, name)
		return op
	}
	require.Fail(t, name+" can't be begun")
	return journal.Operation{}
}

// Wherever the connection is cut around a COMMIT, the caller gets the commit's result.
func TestCommitCutAtEachByte(t *testing.T) {
	t.Parallel()
	p, j, direct, s := throughProxy(t)
	for _, side := range []struct {
		name   string
		side   pgproxy.Side
		stride int
	}{{"answer", pgproxy.Answer, soak.Times(7, 1)}, {"request", pgproxy.Request, soak.Times(97, 1)}} {
		t.Run(side.name, func(t *testing.T) {
			cuts := 0
			for at := 0; ; at += side.stride {
				name := fmt.Sprintf("%s-%d", side.name, at)
				f := p.Arm(pgproxy.Fault{Match: isBatch, Side: side.side, Byte: at})
				begun := beginOnce(t, j, direct, s, name)
				select {
				case <-f.Done():
				case <-time.After(time.Minute): // the caller may have its answer before the proxy reports the cut
					require.Fail(t, "nothing was cut: does an exchange commit?")
				}
				cuts++
				done := complete(begun, s)
				done.At = j.Now()
				recorded, err := j.Apply(t.Context(), done)
				require.NoError(t, err)
				assert.Equal(t, machine.Recorded, recorded.Decision)
				if f.Passed() < at {
					break // that was the end of the answer
				}
			}
			t.Logf("%d cuts", cuts)
			assert.Greater(t, cuts, 1)
		})
	}
	assert.False(t, s.Lost())
}

// A server answers a COMMIT, or an earlier statement of the pipeline, with an error that leaves the result unknown. The
// journal looks the result up, as after a cut connection. Every commit of this test has landed.
func TestCommitAnsweredAsUnclear(t *testing.T) {
	t.Parallel()
	p, j, direct, s := throughProxy(t)
	for i, tag := range []string{"COMMIT", "INSERT", "SELECT", "COMMIT"} {
		f := p.Arm(pgproxy.Fault{Match: isBatch, Then: pgproxy.Doubt, Tag: tag})
		op := beginOnce(t, j, direct, s, fmt.Sprintf("unclear-%d", i))
		<-f.Done()
		f = p.Arm(pgproxy.Fault{Match: isBatch, Then: pgproxy.Doubt, Tag: tag})
		done := complete(op, s)
		done.At = j.Now()
		recorded, err := j.Apply(t.Context(), done)
		require.NoError(t, err)
		assert.Equal(t, machine.Recorded, recorded.Decision)
		<-f.Done()
	}
	assert.False(t, s.Lost())
}

// The connection that resolves a commit in doubt is cut at each byte of its answer, and so is the next one.
func TestResolverCutAtEachByte(t *testing.T) {
	t.Parallel()
	p, j, direct, s := throughProxy(t)
	ended, twice := false, 0
	for at := 0; !ended; at += soak.Times(11, 3) {
		for _, landed := range []bool{true, false} {
			name := fmt.Sprintf("resolved-%d-%v", at, landed)
			commit := pgproxy.Fault{Match: isBatch, Side: pgproxy.Answer, Byte: 0}
			if !landed {
				commit.Side = pgproxy.Request
			}
			p.Arm(commit)
			first := p.Arm(pgproxy.Fault{Match: resolves, Side: pgproxy.Answer, Byte: at})
			second := p.Arm(pgproxy.Fault{Match: resolves, Side: pgproxy.Answer, Byte: at / 2})
			beginOnce(t, j, direct, s, name)
			select {
			case <-first.Done():
			case <-time.After(time.Minute): // at the end of the answer the client may be faster than the proxy
				require.Fail(t, "the resolver was not cut", name)
			}
			select {
			case <-second.Done():
				twice++
			default: // the resolver had its whole answer when it was cut
				second.Release()
			}
			ended = ended || first.Passed() < at
		}
	}
	assert.Greater(t, twice, 5)
}

// A pipeline that is held on its way, and arrives after another took over its lane, changes nothing.
func TestPipelineThatArrivesLate(t *testing.T) {
	t.Parallel()
	p, j, direct, s := throughProxy(t)
	for i := range 5 {
		name := fmt.Sprintf("late-%d", i)
		// The proxy holds the request, and then cuts the client off. The client has to find out by another connection.
		held := p.Arm(pgproxy.Fault{Match: isBatch, Side: pgproxy.Request, Byte: 0, Then: pgproxy.Drop})
		begun := beginOnce(t, j, direct, s, name)
		<-held.Done()
		held.Release()
		assert.Eventually(t, func() bool { return p.Links() > 0 }, 5*time.Second, time.Millisecond)
		op, err := direct.Get(t.Context(), journal.Ref{ID: name})
		require.NoError(t, err)
		assert.Equal(t, begun.Handle, op.Handle, "it was recorded once")
	}
}

// A client that stops in the middle of a pipeline, with rows locked, does not delay other clients for long.
func TestClientStoppedInAPipeline(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := durable(t, server)
	p, url := proxied(t, server)
	stopped, other := openAt(t, url, opts), openAt(t, server.URL(), opts)
	mine, s := join(t, stopped), join(t, other)
	// Stop after each part of a pipeline, its Sync excepted.
	for _, part := range []float64{0.5, 0.8, 0.95, 0.999} {
		name := fmt.Sprintf("amid-%v", part)
		held := p.Arm(pgproxy.Fault{Match: isBatch, Side: pgproxy.Request, Byte: int(part * 2000), Then: pgproxy.Hold})
		ended := make(chan error, 1)
		go func() {
			ev := begin(name, mine)
			ev.At = stopped.Now()
			_, err := stopped.Apply(t.Context(), ev)
			ended <- err
		}()
		<-held.Done()
		deadline := time.Now().Add(10 * time.Second)
		for {
			ev := begin(name, s)
			ev.At = other.Now()
			r, err := other.Apply(t.Context(), ev)
			if err == nil {
				assert.Contains(t, []machine.Decision{machine.Execute, machine.Wait}, r.Decision)
				break
			}
			require.True(t, time.Now().Before(deadline), "others are held up: %v", err)
		}
		held.Release()
		if err := <-ended; err != nil {
			t.Logf("who was stopped is told: %v", err)
		}
	}
}

// Adopt runs while a commit is under way. If the caller gets a success, the operation is recorded and counts as sent.
func TestAdoptBetweenGuardAndCommit(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := durable(t, server)
	p, url := proxied(t, server)
	for i := range 3 {
		j := openAt(t, url, opts)
		s := join(t, j)
		name := fmt.Sprintf("adopted-%d", i)
		held := p.Arm(pgproxy.Fault{Match: isBatch, Side: pgproxy.Request, Byte: []int{0, 600, pgproxy.End}[i], Then: pgproxy.Hold})
		type told struct {
			r   machine.Result
			err error
		}
		ended := make(chan told, 1)
		go func() {
			ev := begin(name, s)
			ev.At = j.Now()
			r, err := j.Apply(t.Context(), ev)
			ended <- told{r, err}
		}()
		<-held.Done()
		server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET restored = 'a test says so'`)
		adopter := openAt(t, server.URL(), opts)
		_, err := adopter.Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		for deadline := time.Now().Add(20 * time.Second); ; {
			if err = adopter.Adopt(t.Context()); err == nil {
				break
			}
			require.True(t, time.Now().Before(deadline), "Adopt does not get through: %v", err)
		}
		held.Release()
		is := <-ended
		op, err := adopter.Get(t.Context(), journal.Ref{ID: name})
		if is.err == nil && is.r.Decision == machine.Execute {
			require.NoError(t, err, "it was acknowledged")
			assert.NotEqual(t, journal.StateInFlight, op.State, "and counts as sent, as Adopt saw it")
		}
		if err == nil {
			assert.NotEqual(t, s.ID(), op.Holder, "its session was cut off")
		}
		assert.Eventually(t, func() bool {
			ev := begin(name+"-after", s)
			ev.At = j.Now()
			_, err := j.Apply(t.Context(), ev)
			return errors.Is(err, journal.ErrSessionLost)
		}, 10*time.Second, 10*time.Millisecond, "a session from before it begins nothing")
		require.NoError(t, j.Close())
	}
}

// Close does not wait for a server that is gone while a commit is in doubt.
func TestCloseWhileACommitIsInDoubt(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	p, url := proxied(t, server)
	opts := options(t, server)
	postgres.Hasten(&opts)
	j := openAt(t, url, opts)
	s := join(t, j)
	cut := p.Arm(pgproxy.Fault{Match: isBatch, Side: pgproxy.Answer, Byte: 0})
	told := make(chan error, 1)
	go func() {
		_, err := j.Apply(t.Context(), begin("order", s))
		told <- err
	}()
	<-cut.Done()
	p.CutOff()
	closed := make(chan error, 1)
	go func() { closed <- j.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(soon):
		p.Heal()
		require.Fail(t, "Close hangs")
	}
	<-told // it returns, with any result
}

// Close does not wait for a server that took a request and is gone before it answers: a batch, or a transaction by
// itself.
func TestCloseWithoutAServer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	guard := func(ex pgproxy.Exchange) bool { return has(ex, "lanes set batch") }
	for name, asks := range map[string]func(j *postgres.Journal, s machine.Session) error{
		"a batch": func(j *postgres.Journal, s machine.Session) error {
			ev := begin("order", s)
			ev.At = j.Now()
			_, err := j.Apply(context.Background(), ev)
			return err
		},
		"a claim": func(j *postgres.Journal, s machine.Session) error {
			_, err := j.Claim(context.Background(), machine.Event{Kind: machine.EventClaim, At: j.Now(), Session: s.ID()}, 1)
			return err
		},
		"its own end": func(*postgres.Journal, machine.Session) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, url := proxied(t, server)
			opts := durable(t, server)
			postgres.Still(&opts) // the transaction in which a heart tidies up contains the guard
			j := openAt(t, url, opts)
			s := join(t, j)
			taken := p.Arm(pgproxy.Fault{Match: guard, Side: pgproxy.Request, Then: pgproxy.Hold})
			told, closed := make(chan error, 1), make(chan error, 1)
			go func() { told <- asks(j, s) }()
			if name == "its own end" {
				require.NoError(t, <-told)
				go func() { closed <- j.Close() }()
				<-taken.Done()
			} else {
				<-taken.Done()
				go func() { closed <- j.Close() }()
			}
			p.CutOff()
			select {
			case err := <-closed:
				require.NoError(t, err)
			case <-time.After(soon):
				p.Heal()
				require.Fail(t, "Close hangs")
			}
			if name != "its own end" {
				require.ErrorIs(t, <-told, journal.ErrClosed)
			}
		})
	}
}

// Several callers begin one name in the same millisecond, with equal rows. One executes it, though the answers of the
// commit are lost: in one batch, and if the row is there from an earlier batch.
func TestEqualBeginsWithAnInterruptedCommit(t *testing.T) {
	t.Parallel()
	const twins = 20
	server := postgrestest.Shared(t)
	p, url := proxied(t, server)
	for _, before := range []string{"another", "a twin"} {
		t.Run(before, func(t *testing.T) {
			j := openAt(t, url, durable(t, server))
			s := join(t, j)
			twin := begin("twin", s)
			twin.At = j.Now()
			first := twin
			if before == "another" {
				first = begin("another", s)
				first.At = twin.At
			}
			told := make(chan outcome, twins+1)
			apply := func(ev machine.Event) {
				r, err := j.Apply(t.Context(), ev)
				told <- outcome{r, err}
			}
			held := p.Arm(pgproxy.Fault{Match: isBatch, Side: pgproxy.Answer, Byte: 0, Then: pgproxy.Hold})
			go apply(first)
			<-held.Done()
			for range twins {
				go apply(twin)
			}
			require.Eventually(t, func() bool { return postgres.Waiting(j) == twins }, soon, time.Millisecond)
			cut := p.Arm(pgproxy.Fault{Match: isBatch, Side: pgproxy.Answer, Byte: 0})
			held.Release()
			executed := 0
			for range twins + 1 {
				is := <-told
				require.NoError(t, is.err)
				if is.r.Operation.ID == "twin" && is.r.Decision == machine.Execute {
					executed++
				}
			}
			assert.Equal(t, 1, executed)
			if before == "another" { // else they find its row, and commit nothing
				<-cut.Done()
			}
		})
	}
}

// A caller leaves while the commit of its begin waits for a standby. Another transaction had held the name, so the begin
// has a transaction of its own. A cancel does not overtake that commit. Else no process would work on the operation.
func TestCancelWaitsForTheCommitOfItsBegin(t *testing.T) {
	t.Parallel()
	primary, standby, _, opts := withStandby(t, postgrestest.Setting("synchronous_standby_names", ""))
	streaming(t, primary)
	primary.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	primary.Exec(t, "SELECT pg_reload_conf()")
	conn := primary.Conn(t)
	require.Eventually(t, func() bool { return setting(t, conn, "SELECT sync_state FROM pg_stat_replication") != "async" }, soon, tick)
	postgres.Still(&opts)
	j := openAt(t, primary.URL(), opts)
	s := join(t, j)
	schema := `"` + opts.Schema + `"`
	wait := func(sql string) {
		t.Helper()
		require.Eventually(t, func() bool { return setting(t, conn, "SELECT ("+sql+")::text") == "true" }, soon, tick)
	}
	// The cancel finds a connection that has a lane already.
	begun, err := j.Apply(t.Context(), now(j, begin("order", s)))
	require.NoError(t, err)
	holder, err := primary.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "SELECT 1 FROM "+schema+".operations FOR UPDATE")
	require.NoError(t, err)
	completed := make(chan error, 1)
	go func() {
		_, err := j.Apply(t.Context(), now(j, complete(begun.Operation, s)))
		completed <- err
	}()
	wait("EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)")
	_, err = j.Apply(t.Context(), now(j, begin("another", s)))
	require.NoError(t, err)
	require.NoError(t, holder.Rollback(t.Context()))
	require.NoError(t, <-completed)
	// The name is held by a transaction that does not land.
	primary.Exec(t, "DELETE FROM "+schema+".names WHERE handle <> "+fmt.Sprint(begun.Operation.Handle))
	primary.Exec(t, "CREATE TABLE "+schema+".held AS SELECT * FROM "+schema+".names; TRUNCATE "+schema+".operations, "+schema+".names, "+schema+".requests, "+schema+".marks")
	other, err := primary.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = other.Exec(t.Context(), "INSERT INTO "+schema+".names SELECT * FROM "+schema+".held")
	require.NoError(t, err)

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ev := now(j, begin("order", s))
	ev.Asker = 7
	left := make(chan error, 1)
	go func() {
		_, err := j.Apply(ctx, ev)
		left <- err
	}()
	inserts := "pid IN (SELECT pid FROM pg_locks WHERE relation = '" + schema + ".names'::regclass AND pid <> " + setting(t, conn, "SELECT pg_backend_pid()::text") + ")"
	wait("EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event = 'transactionid' AND " + inserts + ")")
	standby.Stop(t, postgrestest.Fast)
	require.NoError(t, other.Rollback(t.Context()))
	wait("EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND " + inserts + ")")
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	cancelled := make(chan error, 1)
	go func() {
		r, err := j.Apply(t.Context(), machine.Event{
			Kind: machine.EventCancel, Ref: ev.Ref, At: ev.At, Session: s.ID(), Asker: ev.Asker, Unsent: true, Told: true, Delivered: true,
		})
		if err == nil && r.Decision != machine.Recorded {
			err = fmt.Errorf("it is %v", r.Decision)
		}
		cancelled <- err
	}()
	select {
	case err := <-cancelled:
		require.NoError(t, err, "the cancel has overtaken the begin")
	case <-time.After(2 * time.Second):
	}
	standby.Run(t)
	select {
	case err := <-cancelled:
		require.NoError(t, err)
	case <-time.After(soon):
		require.Fail(t, "the cancel hangs")
	}
	op, err := j.Get(t.Context(), ev.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.StateCancelled, op.State)
}
