package onceward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/background"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/delivery"
	"github.com/onceward/onceward/internal/engine"
	"github.com/onceward/onceward/internal/engine/call"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/journal"
)

// Client wraps an http.Client, so mutating requests take effect once. A Client is safe for concurrent use. Make one Client
// with New for each process and journal, and end the Client with Close or Shutdown.
type Client struct {
	handle

	cfg   Config
	core  *core.Core
	trace Trace

	finder     *reconcile.Finder
	deliveries *delivery.Deliveries
	engine     *engine.Engine
	worker     *background.Worker
}

// handle gives packages flow and server a Client's inner parts.
type handle = core.Handle[Operation]

// New makes a client. New does no I/O, and starts no goroutine. A *ConfigError names the faulty field, and says how to
// mend the field.
func New(cfg Config) (*Client, error) {
	if cfg.Journal == nil {
		return nil, &ConfigError{"Journal", errors.New("the journal is missing: open one by sqlite.Open, of package journal/sqlite")}
	}
	if len(cfg.Providers) == 0 {
		return nil, &ConfigError{"Providers", errors.New("it is empty, so no request would get a key: " +
			"add an adapter such as providers.Stripe(), or providers.Raw(24*time.Hour) for an API of your own")}
	}
	cfg.Providers = slices.Clone(cfg.Providers)
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		p.KeysUnder = cmp.Or(p.KeysUnder, p.Name)
	}
	router, err := tables.NewRouter(cfg.Providers)
	if err != nil {
		return nil, &ConfigError{"Providers", err}
	}
	if cfg.Secret != nil {
		if _, err := DeriveKey(cfg.Secret, "operation"); err != nil {
			return nil, &ConfigError{"Secret", err}
		}
	}
	if err := cfg.Backoff.Validate(); err != nil {
		return nil, &ConfigError{"Backoff", err}
	}
	if err := cfg.RetryBudget.Validate(); err != nil {
		return nil, &ConfigError{"RetryBudget", err}
	}
	if err := cfg.Outcomes.check(cfg.Journal); err != nil {
		return nil, &ConfigError{"Outcomes", err}
	}
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	store, ok := cfg.Journal.(machine.Store)
	if !ok {
		return nil, &ConfigError{"Journal", fmt.Errorf("it is a %T, which can't record operations: use one of journal/sqlite, journal/postgres, journal/mysql or journal/memory", cfg.Journal)}
	}
	c := &Client{cfg: cfg}
	if cfg.Trace != nil {
		c.trace = *cfg.Trace
	}
	c.core = &core.Core{
		Settings: cfg.settings(),
		Observer: c.trace.observer(cfg.Logger),

		Journal: store,
		Router:  router,
		Base:    cfg.HTTPClient.Transport,
		Clock:   time.Now,

		Lifecycle: core.NewLifecycle(),
		Flows:     core.NewFlows(),
		Wakes:     make(chan struct{}, 1),
	}
	c.handle = core.NewHandle(c.core, operationOf)
	if shared, ok := store.(machine.Clock); ok {
		c.core.Clock = shared.Now
	}
	hooks := c.cfg.hooks()
	c.core.Hook = core.NewHook(store, hooks.Settles(), c.core.HookFound)
	c.core.Session = core.NewSession(store, c.core.Hook.Keep, c.core.SessionLost)
	c.core.Backlog = core.NewBacklog(store, c.core.Lifecycle.Closing(), func(op *journal.Operation) { c.deliveries.Add(op) }, c.core.Wake)
	limits := throttle.Settings{Backoff: cfg.Backoff, Concurrency: cfg.Concurrency, Fleet: cfg.FleetConcurrency, Rank: c.core.Session.Rank}
	c.core.Budgets = map[string]*retry.Bucket{"": retry.NewBucket(cfg.RetryBudget, c.core.Now())}
	for i := range cfg.Providers {
		c.core.Budgets[cfg.Providers[i].KeysUnder] = retry.NewBucket(cfg.RetryBudget, c.core.Now())
		limits.Providers = append(limits.Providers, cfg.Providers[i].KeysUnder)
	}
	c.core.Throttle = throttle.New(limits)
	if err := c.reconciles(&hooks); err != nil {
		return nil, err
	}
	c.deliveries = delivery.New(c.core, c.finder, hooks)
	c.engine = engine.New(&exchange.Client{
		Core: c.core, Finder: c.finder, Deliveries: c.deliveries,
		ErrorOf: func(f *exchange.Failure) error { return errorOf(f) },
	}, call.Settings{
		FillsMissing: c.cfg.Reconcile != nil && c.cfg.Reconcile.FillReferences,
		CheckKey:     func(key string) error { return Key(key).Validate() },
	})
	c.worker = background.New(c.core, c.engine, c.finder, c.deliveries, c.trace.progress())
	if c.worker.Feeds, err = c.feeds(); err != nil {
		return nil, err
	}
	c.core.Base = cmp.Or(c.core.Base, http.DefaultTransport)
	if err := unsuitable(c.core.Base); err != nil {
		return nil, &ConfigError{"HTTPClient", err}
	}
	if _, plain := c.core.Base.(*http.Transport); !plain { // which leads to no other RoundTripper
		c.core.Base = below{c.core.Base}
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace.Period)
	defer cancel()
	_ = c.core.Hook.Keep(ctx) // a journal that fails is asked again before the client joins it
	return c, nil
}

// HTTPClient returns an http.Client for your code or a vendor's SDK: Transport, with Config.HTTPClient's Jar,
// CheckRedirect and Timeout.
func (c *Client) HTTPClient() *http.Client {
	hc := *c.core.HTTPClient
	hc.Transport = c.Transport()
	return &hc
}

// Do sends a request by HTTPClient, under the operation's name. Do is WithOperation and http.Client.Do: the name is for
// mutating requests, and the error's chain has an Error.
func (c *Client) Do(req *http.Request, name string) (*http.Response, error) {
	return c.HTTPClient().Do(req.WithContext(WithOperation(req.Context(), name)))
}

// Transport returns HTTPClient's http.RoundTripper. A program may set http.DefaultTransport to the result: see
// docs/sdks.md.
func (c *Client) Transport() http.RoundTripper { return &transport{client: c} }

// Shutdown ends the client and the client's session. New work gets ErrShutdown at once, and calls between two attempts
// park. Shutdown waits for running attempts, and for events that the journal failed to record, until ctx ends. Then
// Shutdown breaks the attempts off, and the resend rule decides. Close the journal afterwards. A second Shutdown is
// harmless. A hook that calls Shutdown waits for itself until ctx ends.
//
// The error is ctx's if attempts were broken off or events could not be recorded, and otherwise the journal's. If the
// journal was closed before, the error is ErrJournalClosed, and an operation without a recorded answer counts as sent.
func (c *Client) Shutdown(ctx context.Context) error {
	c.core.Lifecycle.Close()
	var errs []error
	select {
	case <-c.core.Lifecycle.Done():
	case <-ctx.Done():
		select {
		case <-c.core.Lifecycle.Done(): // nothing is left to break off
		default:
			errs = append(errs, ctx.Err())
			c.breakOff()
		}
	}
	errs = append(errs, c.core.Backlog.Flush(ctx))
	ending, cancel := grace.After(ctx)
	defer cancel()
	errs = append(errs, c.core.Session.End(ending))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("onceward: shut down: %w", err)
	}
	return nil
}

// closeWithin is the time for running attempts in Close.
const closeWithin = 10 * time.Second

// Close ends the client as Shutdown does, and breaks off attempts that still run after ten seconds. Close the journal
// afterwards.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	return c.Shutdown(ctx)
}

func (c *Client) breakOff() {
	c.core.Lifecycle.BreakOff()
	select {
	case <-c.core.Lifecycle.Done():
	case <-time.After(grace.Period):
		c.core.Say(context.Background(), slog.LevelWarn, core.LogAbandoned, "Shutdown does not wait any longer for a hook or transport that ignores its context")
	}
}

// reconciles prepares the finder for Config.Reconcile.
func (c *Client) reconciles(hooks *delivery.Hooks) (err error) {
	settings := reconcile.Settings{Tells: hooks.Tells()}
	if c.cfg.Reconcile == nil {
		c.finder = reconcile.New(c.core, settings, nil)
		return nil
	}
	if c.cfg.Reconcile, err = c.cfg.Reconcile.withDefaults(); err != nil {
		return err
	}
	store, ok := c.core.Journal.(machine.Reconciler)
	if !ok {
		return errors.New("onceward: Config.Reconcile needs a journal that keeps findings: " +
			"use one of journal/sqlite, journal/postgres, journal/mysql or journal/memory")
	}
	r := c.cfg.Reconcile
	settings.Enabled, settings.Schedule, settings.GiveUpAfter, settings.Budget = true, r.Schedule, r.GiveUpAfter, r.Budget
	if hook := r.Lookup; hook != nil {
		settings.Lookup = func(ctx context.Context, op *journal.Operation) (reconcile.Finding, error) {
			f, err := hook(ctx, operationOf(op))
			return reconcile.Finding(f), err
		}
	}
	c.finder = reconcile.New(c.core, settings, store)
	return nil
}

// Stats is one client's state at one moment. The journal's own Stats cover all clients with this journal.
type Stats struct {
	Running int // claims in progress, by calls, Run and Resume
	Backlog int // events in memory that the journal failed to record
	Offers  int // outcomes in memory for Config.Outcomes

	RetryBudget map[string]float64 // used part of Config.RetryBudget by provider, 0 to 1; "": hosts that no table serves
}

// Stats returns the client's state, without I/O.
func (c *Client) Stats() Stats {
	s := Stats{Running: c.core.Lifecycle.Running(), Backlog: c.core.Backlog.Len(), Offers: c.deliveries.Len(), RetryBudget: map[string]float64{}}
	now := c.core.Now()
	for name, b := range c.core.Budgets {
		s.RetryBudget[name] = b.Used(now)
	}
	return s
}
