package otelonceward

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// statsEvery is the shortest time between two reads of a journal's Stats. Their cost grows with the number of
// operations without an answer.
const statsEvery = 10 * time.Second

// Committed returns the hook for Options.Committed of the journal with this name. Use few names: the name is an
// attribute of metrics.
func (t *Telemetry) Committed(name string) func(requests int, took time.Duration) {
	with := t.with(place{}, keyJournal.String(name)).record
	return func(requests int, took time.Duration) {
		ctx := context.Background()
		t.m.commit.Record(ctx, took.Seconds(), with...)
		t.m.requests.Record(ctx, int64(requests), with...)
	}
}

// Observe registers a journal's metrics. Each collection reads them from the journal's Stats, at most every ten
// seconds. They cover all processes that share the journal. A journal that can't be read fails the collection, and
// counts in journal.errors with the event "stats". Unregister the Registration before you close the journal.
func (t *Telemetry) Observe(name string, j journal.StatsReader) (metric.Registration, error) {
	g := gauges{meter: t.meter}
	operations := g.counts("onceward.journal.operation.count", "{operation}", "Operations without an answer, by state.")
	due := g.gauge("onceward.journal.due.count", "{operation}", "Pending operations that are due to be sent by Run.")
	undelivered := g.gauge("onceward.journal.undelivered.count", "{operation}", "Outcomes that are not delivered.")
	attention := g.gauge("onceward.journal.attention.count", "{item}", "Operations, flows and listed events that need attention.")
	unread := g.gauge("onceward.journal.unread.count", "{item}", "Times whose listed events were not read. The attention count includes these.")
	flows := g.counts("onceward.journal.flow.count", "{flow}", "Flows that have not ended, by state.")
	sessions := g.gauge("onceward.journal.session.count", "{session}", "Sessions that have begun and not ended.")
	restored := g.gauge("onceward.journal.restored", "", "1 while the journal waits to be adopted, and nothing is sent.")
	file := g.gauge("onceward.journal.file.size", "By", "Size of the journal.")
	wal := g.gauge("onceward.journal.wal.size", "By", "Size of the write-ahead log.")
	pendingAge := g.seconds("onceward.journal.pending.age", "Age of the oldest pending operation. 0 means none.")
	unknownAge := g.seconds("onceward.journal.unknown.age", "Time since the oldest unknown operation became unknown. 0 means none.")
	undeliveredAge := g.seconds("onceward.journal.undelivered.age", "Age of the oldest undelivered outcome. 0 means none.")
	asideAge := g.seconds("onceward.journal.set_aside.age", "Time since the oldest set-aside flow was set aside. 0 means none.")
	clock := g.seconds("onceward.journal.clock.ahead", "Lead of the journal's latest time over this process's clock. 0 means none.")
	if g.err != nil {
		return nil, g.err
	}
	cached := &cached[shown.Stats]{read: func(ctx context.Context) (shown.Stats, error) { return shown.ReadStats(ctx, j, time.Now()) }, every: statsEvery}
	named := keyJournal.String(name)
	return t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		s, now, err := cached.get(ctx)
		if err != nil {
			t.m.journalErrors.Add(ctx, 1, t.with(place{}, keyEvent.String("stats")).add...)
			return err
		}
		at := t.with(place{}, named).option
		for state, n := range map[journal.State]int64{journal.StatePending: s.Pending, journal.StateInFlight: s.InFlight,
			journal.StateUnknown: s.Unknown, journal.StateCancelled: s.Cancelled} {
			o.ObserveInt64(operations, n, t.with(place{}, named, keyState.String(state.String())).option)
		}
		for state, n := range map[journal.FlowState]int64{journal.FlowStateRunning: s.FlowsRunning, journal.FlowStateWaiting: s.FlowsWaiting,
			journal.FlowStateSetAside: s.FlowsSetAside} {
			o.ObserveInt64(flows, n, t.with(place{}, named, keyFlowState.String(state.String())).option)
		}
		for gauge, n := range map[metric.Int64Observable]int64{due: s.Due, undelivered: s.Undelivered, attention: s.NeedsAttention, unread: s.Unread, sessions: s.Sessions,
			file: s.FileBytes, wal: s.WALBytes, restored: oneIf(s.Restored != "")} {
			o.ObserveInt64(gauge, n, at)
		}
		for gauge, since := range map[metric.Float64Observable]time.Time{pendingAge: s.OldestPending, unknownAge: s.OldestUnknown,
			undeliveredAge: s.OldestUndelivered, asideAge: s.OldestSetAside} {
			o.ObserveFloat64(gauge, age(since, now), at)
		}
		ahead := 0.0
		if !s.Last.IsZero() {
			ahead = max(s.Last.Sub(now).Seconds(), 0)
		}
		o.ObserveFloat64(clock, ahead, at)
		return nil
	}, g.all...)
}

// ObserveClient registers the client's own metrics.
func (t *Telemetry) ObserveClient(c *onceward.Client) (metric.Registration, error) {
	g := gauges{meter: t.meter}
	running := g.counts("onceward.claim.active", "{operation}", "Claims under way in this process.")
	backlog := g.counts("onceward.backlog.count", "{event}", "Events that the journal failed to record and only this process's memory holds.")
	offers := g.counts("onceward.offer.count", "{operation}", "Outcomes that wait for Outcomes.Handle in this process.")
	budget, err := t.meter.Float64ObservableGauge("onceward.retry_budget.utilization", metric.WithUnit("1"),
		metric.WithDescription("Used part of the retry budget of a provider."))
	g.keep(budget, err)
	if g.err != nil {
		return nil, g.err
	}
	return t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := c.Stats()
		o.ObserveInt64(running, int64(s.Running))
		o.ObserveInt64(backlog, int64(s.Backlog))
		o.ObserveInt64(offers, int64(s.Offers))
		for provider, used := range s.RetryBudget {
			o.ObserveFloat64(budget, used, t.with(place{provider: t.places.of(provider, "").provider}).option)
		}
		return nil
	}, g.all...)
}

func oneIf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func age(since, now time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since).Seconds(), 0)
}

// gauges makes observable instruments, until one fails.
type gauges struct {
	meter metric.Meter
	all   []metric.Observable
	err   error
}

func (g *gauges) keep(made metric.Observable, err error) {
	if err != nil {
		otel.Handle(err)
		g.err = err
		return
	}
	g.all = append(g.all, made)
}

func (g *gauges) counts(name, unit, what string) metric.Int64Observable {
	made, err := g.meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
	g.keep(made, err)
	return made
}

func (g *gauges) gauge(name, unit, what string) metric.Int64Observable {
	made, err := g.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
	g.keep(made, err)
	return made
}

func (g *gauges) seconds(name, what string) metric.Float64Observable {
	made, err := g.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(what))
	g.keep(made, err)
	return made
}

// cached is read at most once in that time, by any number of collectors.
type cached[T any] struct {
	read  func(context.Context) (T, error)
	every time.Duration

	mu   sync.Mutex
	last T
	at   time.Time
}

func (c *cached[T]) get(ctx context.Context) (T, time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.at.IsZero() && now.Sub(c.at) < c.every {
		return c.last, now, nil
	}
	s, err := c.read(ctx)
	if err != nil {
		return s, now, err
	}
	c.last, c.at = s, now
	return s, now, nil
}
