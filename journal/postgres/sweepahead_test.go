package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// pausedSweeps calls between once, after that many pages of operations and before the next transaction.
type pausedSweeps struct {
	roundTrips
	pages   atomic.Int64
	due     atomic.Bool
	between func()
}

func (p *pausedSweeps) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "WHERE o.state <> 3 AND o.handle > $1 ORDER BY") && p.pages.Load() > 0 && p.pages.Add(-1) == 0 {
		p.due.Store(true)
	}
	return ctx
}

func (p *pausedSweeps) TraceBatchStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceBatchStartData) context.Context {
	if strings.HasPrefix(q.Batch.QueuedQueries[0].SQL, "BEGIN") && p.due.Swap(false) {
		p.between()
	}
	return ctx
}

// leapt is a journal with clocks of its own.
type leapt struct {
	j      *postgres.Journal
	s      journal.Session
	server *postgrestest.Cluster
	opts   postgres.Options // for other processes
	sweeps *pausedSweeps
	start  time.Time
}

var retained = journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true}

// leaping is a journal that sweeps two operations at a time.
func leaping(t *testing.T) *leapt {
	t.Helper()
	server := postgrestest.Shared(t)
	l := &leapt{server: server, opts: options(t, server), sweeps: new(pausedSweeps), start: time.Now().Truncate(time.Millisecond).UTC()}
	postgres.Still(&l.opts)
	opts := l.opts
	opts.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.Tracer = l.sweeps
		return nil
	}
	l.j = open(t, server, opts)
	postgres.SweepBy(l.j, 2, time.Minute)
	l.s = join(t, l.j)
	l.see(t, 0)
	return l
}

// at is the time by a clock that is that far ahead.
func (l *leapt) at(ahead time.Duration) time.Time { return time.Now().Add(ahead) }

// see shows the journal a clock.
func (l *leapt) see(t *testing.T, ahead time.Duration) {
	t.Helper()
	l.seeAt(t, l.at(ahead))
}

func (l *leapt) seeAt(t *testing.T, at time.Time) {
	t.Helper()
	_, err := l.j.Apply(t.Context(), journal.Event{Kind: journal.EventClock, At: at})
	require.NoError(t, err)
}

// begin begins an operation by a clock that is that far ahead.
func (l *leapt) begin(t *testing.T, j *postgres.Journal, s journal.Session, id string, ahead time.Duration) journal.Result {
	t.Helper()
	ev := begin(id, s)
	ev.At, ev.Intent.Terms = l.at(ahead), retained
	result, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	return result
}

// parked begins operations by such a clock. They may have run, and pause for that long.
func (l *leapt) parked(t *testing.T, n int, ahead, rest time.Duration) (ops []journal.Operation) {
	t.Helper()
	for i := range n {
		op := l.begin(t, l.j, l.s, fmt.Sprint("op-", i), ahead).Operation
		result, err := l.j.Apply(t.Context(), journal.Event{Kind: journal.EventPark, Ref: op.Ref, Handle: op.Handle, Claim: op.Claim, Session: l.s.ID(),
			At: l.at(ahead), Due: l.at(ahead + rest), Open: true, Attempts: 1})
		require.NoError(t, err)
		require.Equal(t, journal.Recorded, result.Decision)
		ops = append(ops, result.Operation)
	}
	return ops
}

// still waits until no sweep runs in the background.
func still(t *testing.T, j *postgres.Journal) {
	t.Helper()
	require.Eventually(t, func() bool { return !postgres.Sweeping(j) }, soon, time.Millisecond)
}

func (l *leapt) get(t *testing.T, ref journal.Ref) journal.Operation {
	t.Helper()
	op, err := l.j.Get(t.Context(), ref)
	require.NoError(t, err)
	return op
}

// aheadBy is how far ahead a clock has jumped.
const aheadBy = 30 * time.Hour

// farAhead is a journal, with operations, whose clock is far ahead and confirmed.
func farAhead(t *testing.T, n int) (*leapt, []journal.Operation) {
	t.Helper()
	l := leaping(t)
	l.seeAt(t, l.start.Add(aheadBy))
	l.seeAt(t, l.start.Add(aheadBy+journal.Confirmation))
	return l, l.parked(t, n, aheadBy+journal.Confirmation, time.Hour)
}

// During a reset, other processes go on by the clock as it was, without waiting. The operations that they write are
// corrected too.
func TestCallsDuringAReset(t *testing.T) {
	t.Parallel()
	l, ops := farAhead(t, 6)
	other := open(t, l.server, l.opts)
	s := join(t, other)
	l.sweeps.between = func() {
		assert.True(t, l.get(t, ops[0].Ref).WindowClosed, "its page was swept")
		assert.False(t, l.get(t, ops[5].Ref).WindowClosed, "its page was not")
		for _, id := range []string{"op-0", "op-4"} {
			asked := l.begin(t, other, s, id, 0)
			assert.NotEqual(t, journal.Execute, asked.Decision, "it is not sent again by a clock that stands behind")
		}
		fresh := l.begin(t, other, s, "fresh", 0)
		assert.Equal(t, journal.Execute, fresh.Decision)
		_, err := other.Apply(t.Context(), journal.Event{Kind: journal.EventComplete, Ref: ops[5].Ref, Handle: ops[5].Handle, Claim: ops[5].Claim, Session: s.ID(),
			At: l.at(0), Answer: &journal.Answer{Status: 200}})
		assert.NoError(t, err)
		wrong := l.begin(t, other, s, "wrong", aheadBy+journal.Confirmation)
		assert.Equal(t, journal.Execute, wrong.Decision, "by the clock that is ahead still")
		claimed, err := other.Claim(t.Context(), journal.Event{Kind: journal.EventClaim, Session: s.ID(), At: l.at(0)}, 10)
		assert.NoError(t, err)
		assert.Empty(t, claimed)
		_, err = other.Looks(t.Context(), journal.Event{Kind: journal.EventLook, At: l.at(0), Due: l.at(time.Minute)}, 10)
		assert.NoError(t, err)
	}
	l.sweeps.pages.Store(1)
	require.NoError(t, l.j.ResetClock(t.Context(), l.at(0)))
	for i := range 5 {
		op := l.get(t, ops[i].Ref)
		assert.True(t, op.WindowClosed, op.ID)
		assert.WithinDuration(t, time.Now(), op.UpdatedAt, time.Minute, op.ID)
		asked := l.begin(t, l.j, l.s, op.ID, 0)
		assert.Equal(t, journal.Stop, asked.Decision, "it is not known when it was sent")
	}
	assert.Equal(t, journal.StateCompleted, l.get(t, ops[5].Ref).State)
	assert.False(t, l.get(t, journal.Ref{ID: "fresh"}).WindowClosed, "it was sent by the clock that is right")
	assert.True(t, l.get(t, journal.Ref{ID: "wrong"}).WindowClosed)
	stats, err := other.ReadStats(t.Context())
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), stats.Last, time.Minute)
	verified(t, l.j)
}

// An interrupted reset has not moved the clock. The next one does all of it, also in another process.
func TestResetThatWasLeft(t *testing.T) {
	t.Parallel()
	l, ops := farAhead(t, 6)
	ctx, cancel := context.WithCancel(t.Context())
	l.sweeps.between = cancel
	l.sweeps.pages.Store(1)
	require.ErrorIs(t, l.j.ResetClock(ctx, l.at(0)), context.Canceled)
	other := open(t, l.server, l.opts)
	postgres.SweepBy(other, 2, time.Minute)
	stats, err := other.ReadStats(t.Context())
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now().Add(aheadBy), stats.Last, time.Hour)
	asked := l.begin(t, other, join(t, other), "op-5", 0)
	assert.NotEqual(t, journal.Execute, asked.Decision)
	require.NoError(t, other.ResetClock(t.Context(), l.at(0)))
	for _, op := range ops {
		assert.True(t, l.get(t, op.Ref).WindowClosed, op.ID)
		assert.Equal(t, journal.Stop, l.begin(t, l.j, l.s, op.ID, 0).Decision, op.ID)
	}
	verified(t, l.j)
}

// Two processes reset the clock at once. The later reset holds, and sweeps everything.
func TestTwoResetsAtOnce(t *testing.T) {
	t.Parallel()
	l, ops := farAhead(t, 6)
	other := open(t, l.server, l.opts)
	postgres.SweepBy(other, 2, time.Minute)
	l.sweeps.between = func() {
		assert.NoError(t, other.ResetClock(t.Context(), l.at(20*time.Hour)))
		later := l.begin(t, other, join(t, other), "later", 20*time.Hour)
		assert.Equal(t, journal.Execute, later.Decision)
	}
	l.sweeps.pages.Store(1)
	require.NoError(t, l.j.ResetClock(t.Context(), l.at(0)))
	for _, op := range ops {
		assert.True(t, l.get(t, op.Ref).WindowClosed, op.ID)
	}
	assert.True(t, l.get(t, journal.Ref{ID: "later"}).WindowClosed, "it was sent by a clock that was reset")
	stats, err := other.ReadStats(t.Context())
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), stats.Last, time.Minute)
	verified(t, l.j)
}

// While a clock that has gone on for long enough sweeps the operations, no caller believes it yet, and none waits for
// it.
func TestCallsDuringAConfirmation(t *testing.T) {
	t.Parallel()
	l := leaping(t)
	l.see(t, aheadBy)
	ops := l.parked(t, 6, aheadBy, time.Minute)
	confirmed := aheadBy + journal.Confirmation + time.Minute
	l.sweeps.between = func() {
		asked := l.begin(t, l.j, l.s, "op-5", confirmed)
		assert.Equal(t, journal.Later, asked.Decision)
		assert.False(t, asked.Unconfirmed.IsZero())
		fresh := l.begin(t, l.j, l.s, "fresh", confirmed)
		assert.Equal(t, journal.Execute, fresh.Decision)
		assert.False(t, fresh.Operation.SentSince.IsZero())
		claimed, err := l.j.Claim(t.Context(), journal.Event{Kind: journal.EventClaim, Session: l.s.ID(), At: l.at(confirmed)}, 10)
		assert.NoError(t, err)
		for _, c := range claimed {
			assert.NotEqual(t, journal.Execute, c.Decision)
		}
	}
	l.sweeps.pages.Store(1)
	asked := l.begin(t, l.j, l.s, "op-0", confirmed)
	assert.Equal(t, journal.Later, asked.Decision)
	still(t, l.j)
	for _, op := range append(ops, journal.Operation{Ref: journal.Ref{ID: "fresh"}}) {
		assert.True(t, l.get(t, op.Ref).SentSince.IsZero(), op.ID)
	}
	asked = l.begin(t, l.j, l.s, "op-0", confirmed+2*time.Second)
	assert.Equal(t, journal.Execute, asked.Decision, "it is sent again, in the window of the clock that is confirmed")
	verified(t, l.j)
}

// An asker whose clock is right again finds each operation as the sweep will leave it, in this process and in another
// one that also sweeps.
func TestCallsWhileTheClockReturns(t *testing.T) {
	t.Parallel()
	l := leaping(t)
	l.see(t, aheadBy)
	ops := l.parked(t, 6, aheadBy, time.Hour)
	other := open(t, l.server, l.opts)
	postgres.SweepBy(other, 2, time.Minute)
	s := join(t, other)
	l.sweeps.between = func() {
		assert.WithinDuration(t, time.Now().Add(aheadBy+time.Hour), l.get(t, ops[5].Ref).DueAt, time.Minute)
		asked := l.begin(t, l.j, l.s, "op-5", 0)
		assert.Equal(t, journal.Later, asked.Decision)
		assert.WithinDuration(t, time.Now().Add(time.Hour), asked.Operation.DueAt, time.Minute)
		asked = l.begin(t, other, s, "op-4", 0)
		assert.Equal(t, journal.Later, asked.Decision)
		assert.WithinDuration(t, time.Now().Add(time.Hour), asked.Operation.DueAt, time.Minute)
	}
	l.sweeps.pages.Store(1)
	l.begin(t, l.j, l.s, "op-0", 0)
	still(t, l.j)
	for _, op := range ops {
		now := l.get(t, op.Ref)
		assert.WithinDuration(t, time.Now().Add(time.Hour), now.DueAt, time.Minute, op.ID)
		assert.Equal(t, journal.StatePending, now.State)
		assert.False(t, now.WindowClosed)
	}
	verified(t, l.j)
}

// A process that sweeps may end between two pages. The next process that asks sweeps what is left.
func TestReturnThatWasLeft(t *testing.T) {
	t.Parallel()
	l := leaping(t)
	l.see(t, aheadBy)
	ops := l.parked(t, 6, aheadBy, time.Hour)
	closed := make(chan error, 1)
	l.sweeps.between = func() {
		go func() { closed <- l.j.Close() }()
		<-postgres.Background(l.j)
	}
	l.sweeps.pages.Store(1)
	l.begin(t, l.j, l.s, "op-0", 0)
	require.NoError(t, <-closed)
	other := open(t, l.server, l.opts)
	l.j = other
	assert.WithinDuration(t, time.Now().Add(aheadBy+time.Hour), l.get(t, ops[5].Ref).DueAt, time.Minute)
	l.server.Exec(t, `DELETE FROM "`+l.opts.Schema+`".leases`) // a lease ends by itself after 30 seconds
	postgres.SweepBy(other, 2, time.Minute)
	l.begin(t, other, join(t, other), "fresh", 0)
	still(t, other)
	for _, op := range ops {
		assert.WithinDuration(t, time.Now().Add(time.Hour), l.get(t, op.Ref).DueAt, time.Minute, op.ID)
	}
	verified(t, other)
}

// A clock that is behind may go further back while a sweep uses its first reading. Then all operations are swept by the
// later reading. An operation that was sent between the two has its window closed too.
func TestClockFallsFurtherWhileItReturns(t *testing.T) {
	t.Parallel()
	l := leaping(t)
	const sent, ahead = 2 * time.Hour, 12 * time.Hour
	l.seeAt(t, l.start.Add(sent))
	ops := l.parked(t, 6, sent, time.Hour)
	l.seeAt(t, l.start.Add(ahead))
	l.seeAt(t, l.start.Add(4*time.Hour)) // behind, and not confirmed yet
	other := open(t, l.server, l.opts)
	postgres.SweepBy(other, 2, time.Minute)
	l.sweeps.between = func() {
		_, err := other.Apply(t.Context(), journal.Event{Kind: journal.EventClock, At: l.start.Add(time.Hour)})
		assert.NoError(t, err)
	}
	l.sweeps.pages.Store(1)
	behind := l.start.Add(4*time.Hour + journal.Confirmation + time.Second)
	l.seeAt(t, behind)
	still(t, l.j)
	for _, op := range ops {
		assert.True(t, l.get(t, op.Ref).WindowClosed, op.ID)
	}
	verified(t, l.j)
}

// Waiting flows are swept like operations, also one that is parked during the sweep.
func TestFlowsDuringAReset(t *testing.T) {
	t.Parallel()
	l, _ := farAhead(t, 4)
	park := func(j *postgres.Journal, s journal.Session, id string, ahead time.Duration) {
		ev := journal.FlowEvent{Kind: journal.FlowEventBegin, Ref: journal.Ref{ID: id}, At: l.at(ahead), Session: s.ID(), InputDigest: "d"}
		begun, err := j.ApplyFlow(t.Context(), ev)
		require.NoError(t, err)
		ev.Kind, ev.Handle, ev.Claim, ev.Due = journal.FlowEventPark, begun.Flow.Handle, begun.Flow.Claim, l.at(ahead+time.Hour)
		_, err = j.ApplyFlow(t.Context(), ev)
		require.NoError(t, err)
	}
	for i := range 5 {
		park(l.j, l.s, fmt.Sprint("ride-", i), aheadBy+journal.Confirmation)
	}
	other := open(t, l.server, l.opts)
	s := join(t, other)
	l.sweeps.between = func() {
		park(other, s, "wrong", aheadBy+journal.Confirmation)
		park(other, s, "fresh", 0)
	}
	l.sweeps.pages.Store(1)
	require.NoError(t, l.j.ResetClock(t.Context(), l.at(0)))
	n := 0
	for flow, err := range l.j.ListFlows(t.Context(), journal.FlowFilter{}) {
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now().Add(time.Hour), flow.DueAt, time.Minute, flow.ID)
		n++
	}
	assert.Equal(t, 7, n)
	verified(t, l.j)
}

// If the clock is reset before a lane makes a write that was decided by it, the write is decided anew.
func TestDecidedBeforeAReset(t *testing.T) {
	t.Parallel()
	l, _ := farAhead(t, 1)
	proxy, err := pgproxy.Start("tcp", l.server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	slow := openAt(t, l.server.URLThrough(proxy.Addr().String()), l.opts)
	s := join(t, slow)
	var reset atomic.Bool
	proxy.Arm(pgproxy.Fault{Match: func(e pgproxy.Exchange) bool {
		if batch := strings.Join(e.SQL, ""); strings.HasPrefix(batch, "BEGIN") && strings.Contains(batch, "INSERT INTO \""+l.opts.Schema+"\".operations") && !reset.Swap(true) {
			assert.NoError(t, l.j.ResetClock(t.Context(), l.at(0)))
		}
		return false
	}})
	begun := l.begin(t, slow, s, "late", aheadBy+journal.Confirmation)
	require.True(t, reset.Load())
	assert.False(t, begun.Operation.SentSince.IsZero(), "its window does not begin when a clock said that was reset")
	assert.WithinDuration(t, time.Now(), begun.Operation.SentSince, time.Minute)
	verified(t, l.j)
}

// A journal that sweeps two operations at a time answers every event like one that sweeps all in one transaction,
// whatever the clock does. Two processes do too, if one of them sweeps at once, as earlier releases do.
func TestSweepsInPagesOrAtOnce(t *testing.T) {
	t.Parallel()
	for n := range soak.Times(1, 20) {
		seed := soak.Seed(t, 1) + uint64(n)
		server := postgrestest.Shared(t)
		for pages, beside := range map[[2]int][2]int{{2}: {10_000}, {2, 10_000}: {10_000, 10_000}} {
			answers := history(t, server, pages, rand.New(rand.NewPCG(seed, 1)))
			atOnce := history(t, server, beside, rand.New(rand.NewPCG(seed, 1)))
			require.Len(t, answers, len(atOnce))
			for i, want := range atOnce {
				is := answers[i]
				for k, at := range want.times {
					require.WithinDuration(t, at, is.times[k], 30*time.Second, "pages %v, seed %d, event %d: time %d of %v, %v", pages, seed, i, k, want, is)
				}
				want.times, is.times = nil, nil
				require.Equal(t, want, is, "pages %v, seed %d, event %d", pages, seed, i)
			}
		}
	}
}

// answerTo is the result of an event. Its times may differ by the time that the server took.
type answerTo struct {
	decision journal.Decision
	state    journal.State
	closed   bool
	times    []time.Time
}

func of(decision journal.Decision, op journal.Operation) answerTo {
	return answerTo{decision, op.State, op.WindowClosed, []time.Time{op.CreatedAt, op.UpdatedAt, op.FirstSentAt, op.SentSince, op.DueAt, op.WakeAt, op.LastEndedAt, op.SettledAt}}
}

// history runs a random history of one journal in one process or two. It returns the results, and then the operations.
// pages is the number of operations that each process sweeps at a time.
func history(t *testing.T, server *postgrestest.Cluster, pages [2]int, random *rand.Rand) (answers []answerTo) {
	opts := options(t, server)
	postgres.Still(&opts)
	var js [2]*postgres.Journal
	var ss [2]journal.Session
	var opened []*postgres.Journal
	defer func() { // the soak has many histories, and the server few connections
		for _, j := range opened {
			_ = j.Close()
		}
	}()
	start := func(i int) {
		js[i] = open(t, server, opts)
		opened = append(opened, js[i])
		postgres.SweepBy(js[i], pages[i], time.Minute)
		ss[i] = join(t, js[i])
	}
	processes := 1
	if start(0); pages[1] > 0 {
		processes = 2
		start(1)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	known := make(map[string]journal.Operation)
	for step := range 300 {
		now = now.Add(time.Duration(1+random.IntN(60)) * time.Minute / 60)
		id := fmt.Sprint("op-", random.IntN(30))
		op := known[id]
		which := random.IntN(processes)
		j, s := js[which], ss[which]
		var ev journal.Event
		switch random.IntN(12) {
		case 0:
			now = now.Add(time.Duration(random.IntN(80)-20) * time.Hour)
			continue
		case 1:
			now = now.Add(journal.Confirmation + time.Minute)
			continue
		case 2:
			require.NoError(t, j.ResetClock(t.Context(), now))
			continue
		case 3, 4, 5:
			ev = journal.Event{Kind: journal.EventPark, Ref: op.Ref, Handle: op.Handle, Claim: op.Claim, Session: s.ID(), Open: true, Attempts: 1,
				Due: now.Add(time.Duration(random.IntN(48)) * time.Hour)}
		case 6:
			ev = journal.Event{Kind: journal.EventCancel, Ref: op.Ref, Handle: op.Handle, Claim: op.Claim, Session: s.ID(), Unsent: true}
		case 7:
			ev = journal.Event{Kind: journal.EventClock}
		default:
			ev = begin(id, s)
			ev.Intent.Terms = retained
		}
		if ev.Kind != journal.EventBegin && ev.Kind != journal.EventClock && op.Handle == 0 {
			continue
		}
		if step%100 == 99 { // the next process goes on
			require.NoError(t, s.End(t.Context()))
			require.NoError(t, j.Close())
			start(which)
			continue
		}
		// A jump is confirmed when the sweep in the background has ended.
		_, err := j.Apply(t.Context(), journal.Event{Kind: journal.EventClock, At: now})
		require.NoError(t, err)
		still(t, j)
		ev.At = now
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		if result.Operation.Handle != 0 {
			known[id] = result.Operation
		}
		answers = append(answers, of(result.Decision, result.Operation))
	}
	for op, err := range js[0].List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		answers = append(answers, of(0, op))
	}
	verified(t, js[0])
	return answers
}
