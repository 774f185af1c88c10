package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// Two journals ask for the same names side by side, in opposite orders. Each name executes once.
func TestNamesExecuteOnceAcrossJournals(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	journals := []*postgres.Journal{open(t, server, opts), open(t, server, opts)}
	const names, callers = 20, 16
	var executed [names]atomic.Int32
	var wg sync.WaitGroup
	for i := range callers {
		j := journals[i%2]
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		wg.Go(func() {
			for n := range names {
				if i%2 == 1 {
					n = names - 1 - n
				}
				result, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", n), s))
				if !assert.NoError(t, err) {
					return
				}
				if result.Decision != machine.Execute {
					continue
				}
				executed[n].Add(1)
				completed, err := j.Apply(t.Context(), complete(result.Operation, s))
				assert.NoError(t, err)
				assert.Equal(t, machine.Recorded, completed.Decision)
			}
		})
	}
	wg.Wait()
	for n := range names {
		assert.EqualValues(t, 1, executed[n].Load(), n)
	}
}

func BenchmarkTwoCommits(b *testing.B) {
	server := postgrestest.Start(b)
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			opts := options(b, server)
			opts.Unsafe = false
			j := open(b, server, opts)
			s := join(b, j)
			var n atomic.Int64
			server.Exec(b, "CHECKPOINT")
			var wg sync.WaitGroup
			started := time.Now()
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for {
						i := n.Add(1)
						if i > int64(b.N) {
							return
						}
						ev := begin(fmt.Sprint("order-", i), s)
						ev.At = j.Now()
						ev.Intent.Request.Body = make([]byte, 600)
						begun, err := j.Apply(b.Context(), ev)
						if err != nil {
							b.Error(err)
							return
						}
						ev = complete(begun.Operation, s)
						ev.At, ev.Answer.Body = j.Now(), make([]byte, 600)
						if _, err := j.Apply(b.Context(), ev); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/time.Since(started).Seconds(), "ops/s")
		})
	}
}

// isPoison is a condition on rows of operations with such an ID. The columns are those of a row of that name.
func isPoison(row string) string {
	return "position('poison'::bytea IN " + row + "facts) > 0"
}

// A row that a constraint refuses fails only its own event.
func TestRefusedRowFailsItsOwnEvent(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	server.Exec(t, `ALTER TABLE "`+opts.Schema+`".operations ADD CONSTRAINT no_poison CHECK (NOT `+isPoison("")+`)`)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			id := fmt.Sprint("order-", i)
			if i == 31 {
				id = "poison"
			}
			_, err := j.Apply(t.Context(), begin(id, s))
			var told *postgres.Error
			switch {
			case i != 31:
				assert.NoError(t, err)
			case assert.ErrorAs(t, err, &told):
				assert.Equal(t, "23514", told.Code)
				assert.Equal(t, "no_poison", told.Constraint)
			}
		})
	}
	wg.Wait()
}

// If a transaction of the application enqueues a name, a caller that asks for that name waits for it. No other caller
// waits for long.
func TestLockedNameBlocksNoOther(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	j := open(t, server, options(t, server))
	s := join(t, j)
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	enqueue := begin("held", s)
	enqueue.Kind, enqueue.Session = machine.EventEnqueue, ""
	_, err = j.EnqueueTx(t.Context(), tx, enqueue)
	require.NoError(t, err)
	asked := make(chan machine.Result, 1)
	go func() {
		result, err := j.Apply(t.Context(), begin("held", s))
		assert.NoError(t, err)
		asked <- result
	}()
	for i := range 50 {
		_, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
	}
	select {
	case <-asked:
		require.Fail(t, "who asks for the name waits for the end of the transaction")
	default:
	}
	require.NoError(t, tx.Commit(t.Context()))
	result := <-asked
	assert.Equal(t, "held", result.Operation.ID)
	assert.Equal(t, machine.Execute, result.Decision)
}

// A transaction of the application may hold many names. A caller in the same batch that asks for another name waits for some
// milliseconds for each name that is asked for beside it, and then goes on. Callers that ask for the held names wait.
func TestLockedNamesBlockNoOther(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	var timeouts atomic.Int64
	opts.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.Tracer = &lockTimeouts{of: &timeouts}
		return nil
	}
	j := open(t, server, opts)
	s := join(t, j)
	known, err := j.Apply(t.Context(), begin("known", s))
	require.NoError(t, err)
	const names = 50
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	for i := range names {
		enqueue := begin(fmt.Sprint("held-", i), s)
		enqueue.Kind, enqueue.Session = machine.EventEnqueue, ""
		_, err = j.EnqueueTx(t.Context(), tx, enqueue)
		require.NoError(t, err)
	}

	// All of them and as many others are in one batch.
	release := postgres.Hold(j)
	var asked, others sync.WaitGroup
	var told atomic.Int64
	for i := range names {
		asked.Go(func() {
			result, err := j.Apply(t.Context(), begin(fmt.Sprint("held-", i), s))
			assert.NoError(t, err)
			assert.Equal(t, machine.Execute, result.Decision)
			told.Add(1)
		})
		others.Go(func() {
			_, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
			assert.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return postgres.Waiting(j) == 2*names }, 10*time.Second, time.Millisecond)
	release()
	before, released := timeouts.Load(), time.Now()
	others.Wait()
	t.Logf("after %s, and %d tries that waited for a name", time.Since(released), timeouts.Load()-before)
	assert.LessOrEqual(t, timeouts.Load()-before, int64(4*names), "halves of the batch that met a lock, 5 ms each")
	for range 10 {
		replayed, err := j.Apply(t.Context(), begin("known", s))
		require.NoError(t, err)
		assert.Equal(t, known.Operation.Handle, replayed.Operation.Handle)
	}
	assert.Zero(t, told.Load(), "who asks for a held name waits for the end of the transaction")
	require.NoError(t, tx.Commit(t.Context()))
	asked.Wait()
}

// lockTimeouts counts the statements of batches whose wait for a lock timed out.
type lockTimeouts struct {
	prepares
	of *atomic.Int64
}

func (l *lockTimeouts) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (l *lockTimeouts) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
func (l *lockTimeouts) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	var pg *pgconn.PgError
	if errors.As(data.Err, &pg) && pg.Code == "55P03" {
		l.of.Add(1)
	}
}

// Events that a trigger refuses fail alone, whatever it raises, however many there are, and whether it runs at once or
// at the commit. Each repeat fails in the same way, and no other event gets an error.
func TestRefusedEventsFailAlone(t *testing.T) {
	t.Parallel()
	for _, deferred := range []bool{false, true} {
		for _, code := range []string{"P0001", "XX000", "42501", "OW001"} {
			t.Run(fmt.Sprint(code, ", deferred: ", deferred), func(t *testing.T) { t.Parallel(); refusedEventsHarmNobody(t, code, deferred, 3) })
		}
	}
}

// A trigger may raise forever that another try may succeed, or that the statement's result is unknown. The journal
// tries a bounded number of times, and then returns the error.
func TestTriggerThatAsksForRetries(t *testing.T) {
	t.Parallel()
	for _, deferred := range []bool{false, true} {
		for _, code := range []string{"40001", "40003", "08006", "08P01"} {
			t.Run(fmt.Sprint(code, ", deferred: ", deferred), func(t *testing.T) { t.Parallel(); refusedEventsHarmNobody(t, code, deferred, 1) })
		}
	}
}

func refusedEventsHarmNobody(t *testing.T, code string, deferred bool, rounds int) {
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	schema := `"` + opts.Schema + `".`
	server.Exec(t, "CREATE FUNCTION "+schema+`refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF `+isPoison("NEW.")+` THEN RAISE EXCEPTION 'no' USING ERRCODE = '`+code+`'; END IF; RETURN NEW; END $$`)
	kind := "CREATE TRIGGER refuse BEFORE INSERT ON %soperations FOR EACH ROW EXECUTE FUNCTION %srefuse()"
	if deferred {
		kind = "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON %soperations DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION %srefuse()"
	}
	server.Exec(t, fmt.Sprintf(kind, schema, schema))
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for round := range rounds {
				id := fmt.Sprint("order-", i, "-", round)
				if i%8 == 3 {
					id = fmt.Sprint("poison-", i) // for ever
				}
				_, err := j.Apply(t.Context(), begin(id, s))
				var told *postgres.Error
				switch {
				case i%8 != 3:
					assert.NoError(t, err)
				case !assert.ErrorAs(t, err, &told):
				default:
					assert.Equal(t, code, told.Code)
				}
			}
		})
	}
	wg.Wait()
	for i := range 64 {
		_, err := j.Get(t.Context(), journal.Ref{ID: fmt.Sprint("poison-", i)})
		require.ErrorIs(t, err, journal.ErrNotFound)
	}
	assert.False(t, s.Lost())
}

// The journal does not use a default of serializable transactions, which would make lanes fail each other.
func TestSerializableDefaultIsNotOurs(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	server.Exec(t, "ALTER DATABASE postgres SET default_transaction_isolation = serializable")
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for n := range 10 {
				begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i, "-", n), s))
				if assert.NoError(t, err) {
					_, err = j.Apply(t.Context(), complete(begun.Operation, s))
					assert.NoError(t, err)
				}
			}
		})
	}
	wg.Wait()
}

// The journal works without prepared statements and settings: a pooler in transaction mode keeps neither for a client.
func TestWithoutStateOfAConnection(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	opts.Pooled = true
	prepared := new(prepares)
	opts.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.Tracer = prepared
		assert.Empty(t, cfg.RuntimeParams)
		return nil
	}
	j := open(t, server, opts)
	s := join(t, j)
	begun, err := j.Apply(t.Context(), begin("order", s))
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	replayed, err := j.Apply(t.Context(), begin("order", s))
	require.NoError(t, err)
	assert.Equal(t, machine.Replay, replayed.Decision)
	op, err := j.Get(t.Context(), journal.Ref{ID: "order"})
	require.NoError(t, err)
	assert.Equal(t, []byte("order"), op.Request.Body)
	assert.Zero(t, prepared.count.Load())

	opts.Pooled = false
	opts.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.Tracer = prepared
		return nil
	}
	j = open(t, server, opts)
	_, err = j.Apply(t.Context(), begin("another", join(t, j)))
	require.NoError(t, err)
	assert.NotZero(t, prepared.count.Load(), "else this shows nothing")
}

// prepares counts the statements that are prepared.
type prepares struct{ count atomic.Int64 }

func (p *prepares) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (p *prepares) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (p *prepares) TracePrepareStart(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareStartData) context.Context {
	p.count.Add(1)
	return ctx
}
func (p *prepares) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {}

// Operations that complete with an object, or are sent with a reference, also share the lane. They are found by their
// marks.
func TestMarksGoWithTheLane(t *testing.T) {
	t.Parallel()
	for _, pooled := range []bool{false, true} {
		t.Run(fmt.Sprint("pooled: ", pooled), func(t *testing.T) { marksGoWithTheLane(t, pooled) })
	}
}

func marksGoWithTheLane(t *testing.T, pooled bool) {
	server := postgrestest.Shared(t)
	opts := options(t, server)
	opts.Pooled = pooled
	j := open(t, server, opts)
	s := join(t, j)
	ev := begin("order", s)
	ev.Intent.Reference, ev.Intent.ReferenceName = "ref-1", "metadata[ref]"
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	matches, err := j.FindBy(t.Context(), "ledger", machine.ByReference, "ref-1")
	require.NoError(t, err)
	require.Len(t, matches, 1)
	completed := complete(begun.Operation, s)
	completed.Object = "charge ch_1"
	result, err := j.Apply(t.Context(), completed)
	require.NoError(t, err)
	require.Equal(t, machine.Recorded, result.Decision)
	for by, value := range map[machine.By]string{machine.ByReference: "ref-1", machine.ByObject: "charge ch_1"} {
		matches, err := j.FindBy(t.Context(), "ledger", by, value)
		require.NoError(t, err)
		require.Len(t, matches, 1, value)
		assert.Equal(t, result.Operation.Handle, matches[0].Operation.Handle)
	}
	op, err := j.Get(t.Context(), journal.Ref{ID: "order"})
	require.NoError(t, err)
	assert.Equal(t, "charge ch_1", op.Object)
	assert.Equal(t, []byte("paid order"), op.Answer.Body)

	// Parked operations, too.
	other, err := j.Apply(t.Context(), begin("parked", s))
	require.NoError(t, err)
	park := machine.Event{Kind: machine.EventPark, Ref: other.Operation.Ref, Handle: other.Operation.Handle, At: time.Now(), Session: s.ID(), Claim: 1, Unsent: true}
	_, err = j.Apply(t.Context(), park)
	require.NoError(t, err)
	matches, err = j.FindBy(t.Context(), "ledger", machine.ByKey, "key-of-parked")
	require.NoError(t, err)
	require.Len(t, matches, 1)
}

// incompressible is a body that stays as large as it is.
var incompressible = func() (body []byte) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1 << 20 {
		body = append(body, byte(random.Uint32()))
	}
	return body
}()

// A batch that does not arrive in time is sent again in halves, instead of unchanged again and again.
func TestBatchThatIsLateIsHalved(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	proxy, err := pgproxy.Start("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	postgres.CommitIn(&opts, 5*time.Second)
	j := openAt(t, server.URLThrough(proxy.Addr().String()), opts)
	s := join(t, j)
	const writes, size = 8, 100 << 10
	var large atomic.Int64
	never := proxy.Arm(pgproxy.Fault{Match: func(e pgproxy.Exchange) bool {
		if e.Bytes > writes*size/2+size {
			large.Add(1)
		}
		return false
	}})
	t.Cleanup(never.Release)
	for range 2 { // so many attempts do not get through
		stuck := proxy.Arm(pgproxy.Fault{Match: func(e pgproxy.Exchange) bool { return e.Bytes > writes*size/2+size }, Side: pgproxy.Request, Then: pgproxy.Hold})
		t.Cleanup(stuck.Release)
	}
	first := proxy.Arm(pgproxy.Fault{Match: func(e pgproxy.Exchange) bool { return e.Bytes > size }, Side: pgproxy.Request, Then: pgproxy.Hold})
	var asked sync.WaitGroup
	ask := func(id string) {
		asked.Go(func() {
			ev := begin(id, s)
			ev.Intent.Request.Body = incompressible[:size]
			result, err := j.Apply(t.Context(), ev)
			assert.NoError(t, err)
			assert.Equal(t, machine.Execute, result.Decision)
		})
	}
	ask("first")
	<-first.Done()
	for i := range writes {
		ask(fmt.Sprint("order-", i))
	}
	require.Eventually(t, func() bool { return postgres.Waiting(j) == writes }, soon, tick)
	first.Release()
	asked.Wait()
	assert.EqualValues(t, 1, large.Load())
	assert.False(t, s.Lost())
}
