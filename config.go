package onceward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/delivery"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Config is what a Client is made of. Journal and Providers are required; the
// zero values of the other fields work. The fields come in four groups: what it needs, how
// it sends, what it tells, and its limits.
type Config struct {
	// What it needs.

	// Journal is where operations are recorded, such as one of journal/sqlite, or, where several
	// machines share it, of journal/postgres. A name is one effect within one journal. The
	// caller closes it, after Shutdown.
	Journal journal.Journal

	// Providers are the contracts of the APIs to be called. A request to a host that
	// none of them serves passes through untouched, unless it is named. Safe requests
	// pass through too: see RetrySafe.
	Providers []providers.Provider

	// HTTPClient is what attempts go through: its Transport. Callers of
	// Client.HTTPClient keep its Jar, CheckRedirect and Timeout. nil stands for
	// http.DefaultClient. It is not changed and must neither be another Client's nor repeat
	// requests by itself, as go-retryablehttp does: New refuses both, where it sees them.
	HTTPClient *http.Client

	// Authorize adds credentials to a request, in headers or query parameters. It is
	// called before every attempt, those of Resume included, where the journal has
	// only the names of what carried a credential; but only for hosts that a provider
	// serves. It is called once more before the operation is begun where the table asks
	// what credential it is: one that keys are scoped to, or that shows by its prefix
	// whether it is a test's; and with Reconcile wherever its operations can be looked for. It is called
	// for each request of a look, too: LookOf tells it which operation that is for. The request has its key and its body by then, so that Authorize may sign
	// them; it reads the body by Body or GetBody and must not change anything else. An
	// error stops the attempt before it is sent. It is called concurrently. The
	// request's context names no operation, so that Authorize may call through the
	// same client.
	Authorize func(*http.Request) error

	// Secret, of at least 16 bytes, derives the key of a named operation's first
	// generation from scope and name, so that it comes back after the loss of the
	// journal, inside the provider's retention. A reference that the client fills in (Reconcile.References) comes back with it. The same on every host; nil: keys
	// are random. The fingerprints of secret bodies are made under it, so that another
	// one makes another request of the same card: ErrKeyReused.
	Secret []byte

	// How it sends.

	// Backoff is the delay between attempts and their number within one call. What has
	// used them up rests for Max, and longer each time up to an hour, drawn from the
	// upper half of that.
	Backoff backoff.Policy

	// RetryBudget bounds the further attempts that all operations with one provider
	// make together, so that one which is down gets about the load it would have
	// without them. An operation that finds it used up rests as one that is out of
	// attempts.
	RetryBudget backoff.Budget

	// RetrySafe tells which safe requests (GET, HEAD, OPTIONS) are sent again by Backoff and
	// RetryBudget, after a 429, a 5xx but 501, or no answer, before their caller has a
	// response: those are no operations, and nothing of them is recorded. nil: those to
	// hosts that Providers serve. It is asked about each of them, whatever its host, and
	// called concurrently; one with an Upgrade or a body that can't be had again is never repeated.
	RetrySafe func(*http.Request) bool

	// NamedOnly keeps Resume and Run from sending unnamed operations of a process
	// that died: they become unknown. For programs whose work is redelivered after a
	// crash (a queue, a job runner) and would meet it under another key. What another
	// process without it has left pending is that one's to send, and in this one's report.
	NamedOnly bool

	// Strict refuses, as ErrUnprotected, what would else be logged as a warning, the
	// first time for each host: a request that may have an effect and passes through,
	// since it has no name and no table lists it, or it streams; one to a host that a
	// table has with another port, or to a path such as //v1/charges that matches no
	// endpoint and may be read as one that does; and one with a key in another header
	// than its table's. What needs no protection then goes through a client of its own,
	// or is marked NoEffect in a table.
	Strict bool

	// What it tells.

	// OnSettled gets the outcomes that no caller is known to have: those of
	// operations that Resume or Run finished, and of calls whose process died before
	// the response's body was closed. It gets what took effect though somebody did not want it
	// any more (Client.Unwanted) whoever has the answer, but for a flow's. Completed ones have an
	// answer; unknown and cancelled ones come too, but with Reconcile an unknown one only once
	// nothing is looked for any more (Operation.Attention). One that turns out to have taken effect twice,
	// or otherwise than was said, comes once more, with Operation.Attention. It is called at least once for
	// each, concurrently and in no order, until it returns nil; a failing one is tried again by Run,
	// later and later, and by the next process. Give it to every client of the journal: a client without it marks
	// outcomes as delivered, even if another client's OnSettled failed on them. For a rollout that adds it, docs/outcomes.md
	// has the order.
	OnSettled func(context.Context, Operation) error

	// OnSettledTx is OnSettled in a transaction of the database that the journal lies in: what
	// it writes by tx (tx.Driver() is the driver's own, such as a *sql.Tx), and that the outcome
	// was delivered, are one commit, so that each outcome has its local effect exactly once. It
	// neither commits nor rolls back, and makes no call of this client. It is called again, with
	// another transaction, after an error, or where it is not known whether the commit has landed; then
	// only if it has not. An operation that was unknown, and is completed later, has two
	// outcomes; and one that is found to have taken effect twice, or otherwise than was said, after
	// it was delivered comes once more, with Operation.Attention, so that a person looks at it. Book by Operation.Ref and
	// Operation.Generation, and you book it once.
	//
	// Nothing else delivers an outcome: OnSettledTx gets that of every operation, those whose
	// caller has the response included, but of a flow's only those that OnSettled would get.
	// It needs a journal that is a journal.Outbox, and no OnSettled. All clients of the journal have it
	// alike: one that has OnSettled, or neither, delivers outcomes by itself, those that its callers get
	// for one, and OnSettledTx never gets them.
	//
	// While it runs it may hold up whoever records anything: it is short, and asks nobody over a network.
	OnSettledTx func(ctx context.Context, tx journal.Tx, op Operation) error

	// Reconcile says how to find out what became of operations that are unknown. It needs
	// a journal that implements journal.Reconciler, as this module's do. nil: they stay
	// unknown until somebody resolves them, and nothing is asked or kept for that.
	Reconcile *Reconcile

	// SettleAll gives OnSettled the outcome of every named operation, those whose
	// caller has the response included. OnSettledTx then gets those of flows, too.
	SettleAll bool

	// Trace has hooks that are called on the way of an operation. nil: none.
	Trace *Trace

	// Logger gets what a person should know. nil: silent.
	Logger *slog.Logger

	// Limits.

	// MaxWait bounds a call whose context has no deadline, and each operation that
	// Resume sends. 2 minutes by default.
	MaxWait time.Duration

	// AttemptTimeout bounds one attempt, its response's body included, since another one
	// may fare better. Where another would not be allowed, and it has a connection, only
	// the call's own time bounds it: the context's deadline, or MaxWait. 30 seconds by
	// default.
	AttemptTimeout time.Duration

	// Concurrency is how many operations Resume and Run send at once to one provider, or
	// to one host that none serves, the calls of the flows that they run included; eight times as many to all of them, and one to each
	// provider in any case. It is also how many calls of OnSettled are made at once, and
	// how many flows are run at once. 8 by default.
	Concurrency int

	// FleetConcurrency bounds how many operations Resume and Run send at once to one provider in all
	// processes of the journal together, where its sessions know how many they are, as those of a
	// journal for several machines do: each process has an equal part, and some have none where they
	// are more. Nobody counts across processes, so that while their number changes there may be
	// more for a moment. A process counts from its first call on, even if it never runs Run, or has no
	// table of the provider; its part is then nobody's. So it is at least the number of processes, or
	// what is left to those without a part is not sent. A journal whose sessions don't know gives each
	// process all of it. Calls of one's own are not counted, but for those of flows that Run resumes. 0: Concurrency alone.
	FleetConcurrency int

	// MaxRequestBody is the largest request body, in bytes, that is journaled; a
	// larger one is ErrInvalidRequest. 8 MiB by default.
	MaxRequestBody int64

	// MaxResponseBody is the largest response body, in bytes, that is recorded. Of a
	// larger one the answer is recorded without it and the caller gets the stream.
	// 8 MiB by default; what an answer means is read in up to 16 MiB all the same. Of an answer's headers, and of its trailers, 64 KiB are recorded,
	// the shortest first, and a replay names in Onceward-Cut what is missing.
	MaxResponseBody int64

	// Keep is how long the journal keeps answers, 90 days by default, and never less
	// than the provider remembers the key. Run reaps what is past it.
	Keep time.Duration
}

// checkSettling says what is wrong with the hooks that get outcomes.
func (cfg *Config) checkSettling() error {
	_, transactional := cfg.Journal.(journal.Outbox)
	switch {
	case cfg.OnSettled != nil && cfg.OnSettledTx != nil:
		return errors.New("onceward: Config has both OnSettled and OnSettledTx, and an outcome is delivered by one of them: leave one out")
	case cfg.OnSettledTx != nil && !transactional:
		return fmt.Errorf("onceward: Config.OnSettledTx needs a journal that records in a transaction of its database (journal.Outbox), and %T does not: "+
			"keep it in one that does, such as journal/sqlite, or use OnSettled", cfg.Journal)
	case cfg.SettleAll && cfg.OnSettled == nil && cfg.OnSettledTx == nil:
		return errors.New("onceward: Config.SettleAll needs OnSettled or OnSettledTx")
	}
	return nil
}

// settings are what the parts of a client ask of its configuration.
func (cfg *Config) settings() core.Settings {
	return core.Settings{
		Providers: cfg.Providers, HTTPClient: cfg.HTTPClient, Authorize: cfg.Authorize, Secret: cfg.Secret,
		Backoff: cfg.Backoff, RetrySafe: cfg.RetrySafe, NamedOnly: cfg.NamedOnly, Strict: cfg.Strict,
		MaxWait: cfg.MaxWait, AttemptTimeout: cfg.AttemptTimeout, Concurrency: cfg.Concurrency,
		MaxRequestBody: cfg.MaxRequestBody, MaxResponseBody: cfg.MaxResponseBody, Keep: cfg.Keep,
	}
}

func (cfg *Config) setDefaults() error {
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = http.DefaultClient
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"MaxWait", &cfg.MaxWait, 2 * time.Minute},
		{"AttemptTimeout", &cfg.AttemptTimeout, 30 * time.Second},
		{"Keep", &cfg.Keep, 90 * 24 * time.Hour},
	} {
		if *d.value < 0 {
			return fmt.Errorf("onceward: Config.%s is negative", d.name)
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if cfg.MaxRequestBody < 0 || cfg.MaxResponseBody < 0 || cfg.Concurrency < 0 || cfg.FleetConcurrency < 0 {
		return errors.New("onceward: Config.MaxRequestBody, MaxResponseBody, Concurrency or FleetConcurrency is negative")
	}
	if cfg.MaxRequestBody == 0 {
		cfg.MaxRequestBody = 8 << 20
	}
	if cfg.MaxResponseBody == 0 {
		cfg.MaxResponseBody = 8 << 20
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 8
	}
	return nil
}

// hooks are those of the configuration that get outcomes.
func (cfg *Config) hooks() delivery.Hooks {
	h := delivery.Hooks{SettleAll: cfg.SettleAll, Printed: func(op *journal.Operation) string {
		printed := operationOf(op)
		return printed.printed()
	}}
	if hook := cfg.OnSettled; hook != nil {
		h.OnSettled = func(ctx context.Context, op *journal.Operation) error { return hook(ctx, operationOf(op)) }
	}
	if hook := cfg.OnSettledTx; hook != nil {
		h.OnSettledTx = func(ctx context.Context, tx journal.Tx, op *journal.Operation) error {
			return hook(ctx, tx, operationOf(op))
		}
	}
	if r := cfg.Reconcile; r != nil && r.OnUnknown != nil {
		h.OnUnknown = func(ctx context.Context, op *journal.Operation) error {
			return r.OnUnknown(ctx, operationOf(op), lookedOf(op))
		}
	}
	return h
}
