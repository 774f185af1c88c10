package onceward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/delivery"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Config configures a Client. Journal and Providers are required. The zero value of every other field works.
type Config struct {
	// Journal records the operations: one by journal/sqlite, or for several machines one by journal/postgres or
	// journal/mysql. A name is one effect within one journal. The caller closes the journal after Shutdown.
	Journal journal.Journal

	// Providers are the contracts of the APIs to be called. A request to any other host passes through unchanged,
	// unless it is named.
	Providers []providers.Provider

	// HTTPClient sends the attempts through its Transport. Client.HTTPClient keeps its Jar, CheckRedirect and Timeout.
	// The Transport must not be another Client's, nor repeat requests by itself: see docs/sdks.md. The Transport's
	// default is the http.DefaultTransport at the time of New. Default: http.DefaultClient.
	HTTPClient *http.Client

	// Authorize adds credentials to a request, in headers or query parameters, since the journal holds none. The client
	// calls Authorize before every attempt at a host in Providers, in the background too, and before every look-up
	// request (LookOf). The calls are concurrent. After an error nothing is sent.
	//
	// The call for the first attempt precedes the recording, since the record has the credential's digest. The client
	// calls again if recording took a second, gave the operation another key, or filled in a reference.
	//
	// An operation that may have run is sent again only under the same credential, or under another credential with
	// the same account: see docs/adapters.md.
	//
	// The request has the key and the body, so Authorize may sign both. Authorize reads the body by Body or GetBody, and
	// must not change anything else. Authorize may call through the same client.
	Authorize func(*http.Request) error

	// Secret derives the keys and references for named operations, so both come back if the journal is lost.
	// Secret also salts the fingerprints for secret bodies: under another Secret, a repeated request with such a body is
	// ErrKeyReused. Give the same 16 bytes or more on every host. Nil means random keys.
	Secret []byte

	// Backoff sets the delay between attempts, and the attempts within one call. After the last attempt, an operation
	// rests for Max, then longer each time, up to an hour.
	Backoff backoff.Policy

	// RetryBudget limits the further attempts at one provider, over all operations. If the budget is used up, an
	// operation rests as after the last attempt.
	RetryBudget backoff.Budget

	// RetrySafe selects the safe requests (GET, HEAD, OPTIONS) to retry by Backoff and RetryBudget: see docs/sdks.md.
	// The client calls RetrySafe concurrently, for every safe request to any host. Nil selects the hosts in Providers.
	RetrySafe func(*http.Request) bool

	// NamedOnly makes a dead process's unnamed operations unknown: Resume and Run don't send them. Set NamedOnly if a
	// queue or job runner repeats work under another key after a crash.
	NamedOnly bool

	// Strict rejects unprotected requests with ErrUnprotected (docs/errors.md). Without Strict, the client logs a warning
	// once for each host. Send other traffic through a separate client, or mark the endpoint NoEffect.
	Strict bool

	// Outcomes receives the outcomes, for your own books. The journal remembers a program with this hook: a client
	// without the hook leaves the outcomes to the program. Nil means no hook.
	Outcomes *Outcomes

	// Reconcile configures the look-ups and events for unknown operations. Nil means that unknown operations wait for
	// Resolve.
	Reconcile *Reconcile

	Trace  *Trace       // hooks along an operation's way. Default: none
	Logger *slog.Logger // receives log records for operators. Default: silent

	// MaxWait limits a call whose context has no deadline, waits for the journal included, and each operation that
	// Resume sends. Default: 2 minutes.
	MaxWait time.Duration

	// AttemptTimeout limits one attempt, the response's body included, if another attempt may follow. Default: 30
	// seconds.
	AttemptTimeout time.Duration

	// Concurrency is how many operations Resume and Run send at once to one provider, or to one host without a
	// provider, calls in flows included. The total limit is eight times as many, but each provider always gets one.
	// Concurrency also limits concurrent Outcomes.Handle calls and concurrent flows. Default: 8.
	Concurrency int

	// FleetConcurrency limits the same over all processes with this journal. Each process gets an equal part, and no part
	// if there are more processes: see docs/outages.md. Zero means Concurrency alone.
	FleetConcurrency int

	// MaxRequestBody is the largest journaled request body, in bytes. A larger body is ErrInvalidRequest. Default: 8 MiB.
	MaxRequestBody int64

	// MaxResponseBody is the largest recorded response body, in bytes. The caller gets a larger body as a stream, and
	// later callers get ErrAnswerGone. Default: 8 MiB.
	MaxResponseBody int64

	// Keep is how long the journal keeps answers, at least as long as the provider remembers the key. Run reaps older
	// ones. Default: 90 days.
	Keep time.Duration
}

// Outcomes is the hook for outcomes. Set either Handle or HandleTx. The client calls the hook concurrently and in no
// order, and again until nil is returned. docs/outcomes.md says which outcomes come, and which come again.
type Outcomes struct {
	// Handle receives each outcome that no caller is known to have, at least once. A caller has the outcome after the
	// response, or after an error that says the outcome. A flow's step has 30 seconds to ask.
	Handle func(ctx context.Context, op Operation) error

	// HandleTx receives every outcome, even if the caller has the response, in a transaction on the journal's database.
	// The writes in tx and the delivery are one commit. tx.Driver() is the driver's own transaction, such as a *sql.Tx.
	// HandleTx neither commits nor rolls back, and makes no call through this client. Keep HandleTx short, since all
	// the journal's writers may have to wait. After an error, or a lost commit, the client calls HandleTx again.
	HandleTx func(ctx context.Context, tx journal.Tx, op Operation) error

	Heard bool // Handle also receives named operations whose caller has the response
	Steps bool // HandleTx also receives flows' steps that have the response
}

// ConfigError says which Config field New refuses, and why.
type ConfigError struct {
	Field string // such as "Outcomes"
	Err   error
}

// Error returns the field and the reason.
func (e *ConfigError) Error() string { return "onceward: Config." + e.Field + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *ConfigError) Unwrap() error { return e.Err }

// check returns an error for contradictory settings.
func (o *Outcomes) check(j journal.Journal) error {
	_, transactional := j.(machine.Outbox)
	switch {
	case o == nil:
		return nil
	case o.Handle == nil && o.HandleTx == nil:
		return errors.New("neither Handle nor HandleTx is set: set one, or leave Outcomes nil")
	case o.Handle != nil && o.HandleTx != nil:
		return errors.New("both Handle and HandleTx are set, and an outcome is delivered by one of them: leave one out")
	case o.HandleTx != nil && !transactional:
		return fmt.Errorf("the field HandleTx needs a journal that records in a transaction of its database, and %T does not: "+
			"keep it in one that does, such as journal/sqlite, or use Handle", j)
	case o.Heard && o.Handle == nil:
		return errors.New("the field Heard goes with Handle, and HandleTx receives such outcomes anyway: leave Heard out")
	case o.Steps && o.HandleTx == nil:
		return errors.New("the field Steps goes with HandleTx, and Heard is the setting for Handle")
	}
	return nil
}

// settings returns the part of the configuration that the client's parts use.
func (cfg *Config) settings() core.Settings {
	return core.Settings{
		Providers: cfg.Providers, HTTPClient: cfg.HTTPClient, Authorize: cfg.Authorize, Secret: cfg.Secret,
		Backoff: cfg.Backoff, RetrySafe: cfg.RetrySafe, NamedOnly: cfg.NamedOnly, Strict: cfg.Strict,
		MaxWait: cfg.MaxWait, AttemptTimeout: cfg.AttemptTimeout, Concurrency: cfg.Concurrency,
		MaxRequestBody: cfg.MaxRequestBody, MaxResponseBody: cfg.MaxResponseBody, Keep: cfg.Keep,
	}
}

func (cfg *Config) setDefaults() error {
	cfg.HTTPClient = cmp.Or(cfg.HTTPClient, http.DefaultClient)
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
			return &ConfigError{d.name, errors.New("it is negative")}
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	for name, value := range map[string]int64{
		"MaxRequestBody": cfg.MaxRequestBody, "MaxResponseBody": cfg.MaxResponseBody,
		"Concurrency": int64(cfg.Concurrency), "FleetConcurrency": int64(cfg.FleetConcurrency),
	} {
		if value < 0 {
			return &ConfigError{name, errors.New("it is negative")}
		}
	}
	cfg.MaxRequestBody = cmp.Or(cfg.MaxRequestBody, 8<<20)
	cfg.MaxResponseBody = cmp.Or(cfg.MaxResponseBody, 8<<20)
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 8)
	return nil
}

// hooks returns the hooks that receive outcomes.
func (cfg *Config) hooks() delivery.Hooks {
	h := delivery.Hooks{Printed: func(op *journal.Operation) string {
		printed := operationOf(op)
		return printed.printed()
	}}
	if o := cfg.Outcomes; o != nil {
		h.Heard, h.Steps = o.Heard, o.Steps
		if hook := o.Handle; hook != nil {
			h.Handle = func(ctx context.Context, op *journal.Operation) error { return hook(ctx, operationOf(op)) }
		}
		if hook := o.HandleTx; hook != nil {
			h.HandleTx = func(ctx context.Context, tx journal.Tx, op *journal.Operation) error {
				return hook(ctx, tx, operationOf(op))
			}
		}
	}
	if r := cfg.Reconcile; r != nil && r.OnUnknown != nil {
		h.OnUnknown = func(ctx context.Context, op *journal.Operation) error {
			return r.OnUnknown(ctx, operationOf(op), lookedOf(op))
		}
	}
	return h
}
