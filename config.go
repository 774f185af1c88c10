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
	// Journal records the operations, such as one of journal/sqlite, or of journal/postgres if several machines share
	// it. A name is one effect within one journal. The caller closes it after Shutdown.
	Journal journal.Journal

	// Providers are the contracts of the APIs to be called. A request to any other host passes through unchanged,
	// unless it is named.
	Providers []providers.Provider

	// HTTPClient sends the attempts through its Transport. Client.HTTPClient keeps its Jar, CheckRedirect and Timeout.
	// The Transport must not be another Client's, nor repeat requests by itself: see docs/sdks.md. The Transport's
	// default is the http.DefaultTransport at the time of New. Default: http.DefaultClient.
	HTTPClient *http.Client

	// Authorize adds credentials to a request, in headers or query parameters, since the journal holds none. It is
	// called concurrently, before every attempt at a host of Providers, in the background too, and before every request
	// of a look-up (LookOf). An error stops the attempt before it is sent.
	//
	// The call for the first attempt comes before the operation is recorded, since the record has a digest of the
	// credential. It is repeated if recording took a second, gave the operation another key, or filled in a reference.
	//
	// An operation that may have run is sent again only under the same credential, or under another one of the same
	// account: see docs/adapters.md.
	//
	// The request has its key and body, so Authorize may sign them. It reads the body by Body or GetBody, and must not
	// change anything else. It may call through the same client.
	Authorize func(*http.Request) error

	// Secret derives the keys and references of named operations, so that both come back after the loss of the journal.
	// It also salts the fingerprints of secret bodies: under another Secret, a repeated request with such a body is
	// ErrKeyReused. It has at least 16 bytes, and is the same on every host. Nil means that keys are random.
	Secret []byte

	// Backoff sets the delay between attempts and their number within one call. An operation that has used them up
	// rests for Max, then longer each time, up to an hour.
	Backoff backoff.Policy

	// RetryBudget limits the further attempts at one provider over all its operations. An operation that finds it used
	// up rests like one that is out of attempts.
	RetryBudget backoff.Budget

	// RetrySafe selects the safe requests (GET, HEAD, OPTIONS) to retry by Backoff and RetryBudget: see docs/sdks.md.
	// It is called concurrently, for every safe request to any host. Nil selects the hosts of Providers.
	RetrySafe func(*http.Request) bool

	// NamedOnly keeps Resume and Run from sending unnamed operations of a dead process: they become unknown. Use it if
	// a queue or job runner repeats work under another key after a crash.
	NamedOnly bool

	// Strict rejects unprotected requests with ErrUnprotected (docs/errors.md). Without it, the client logs a warning
	// once for each host. Send other traffic through a separate client, or mark the endpoint NoEffect.
	Strict bool

	// Outcomes receives the outcomes of operations, for your own books. The journal remembers that a program has this
	// hook: a client without one leaves the outcomes to that program. Nil means that this program has none.
	Outcomes *Outcomes

	// Reconcile configures how to find out what became of unknown operations. Nil means that they stay unknown until Resolve settles them.
	Reconcile *Reconcile

	Trace  *Trace       // hooks on the way of an operation. Default: none
	Logger *slog.Logger // receives log records for operators. Default: silent

	// MaxWait limits a call whose context has no deadline, waits for the journal included, and each operation that
	// Resume sends. Default: 2 minutes.
	MaxWait time.Duration

	// AttemptTimeout limits one attempt, with its response's body, if another may follow it. Default: 30 seconds.
	AttemptTimeout time.Duration

	// Concurrency is how many operations Resume and Run send at once to one provider, or to one host without a
	// provider, calls of flows included. The total limit is eight times as many, but each provider always gets one. It
	// is also the limit of concurrent Outcomes.Handle calls and of concurrent flows. Default: 8.
	Concurrency int

	// FleetConcurrency limits the same over all processes of the journal. Each gets an equal part, and none if there
	// are more processes: see docs/outages.md. Zero means Concurrency alone.
	FleetConcurrency int

	// MaxRequestBody is the largest journaled request body, in bytes. A larger one is ErrInvalidRequest. Default: 8
	// MiB.
	MaxRequestBody int64

	// MaxResponseBody is the largest recorded response body, in bytes. The caller gets a larger one as a stream, and
	// later callers ErrAnswerGone. Default: 8 MiB.
	MaxResponseBody int64

	// Keep is how long the journal keeps answers, at least as long as the provider remembers the key. Run reaps older
	// ones. Default: 90 days.
	Keep time.Duration
}

// Outcomes is the hook that receives outcomes. Set either Handle or HandleTx. Both are called concurrently and in no
// order, and again until they return nil. docs/outcomes.md says which outcomes come, and which of them come again.
type Outcomes struct {
	// Handle receives outcomes that no caller is known to have, at least once each. A caller has the outcome if it got
	// the response, or an error that says it. A flow's step has 30 seconds to ask for it.
	Handle func(ctx context.Context, op Operation) error

	// HandleTx receives every outcome, even if the caller has the response, in a transaction of the journal's database.
	// Its writes and the delivery are one commit. tx.Driver() is the driver's own transaction, such as a *sql.Tx.
	// HandleTx neither commits nor rolls back, and makes no call of this client. Keep it short: it may hold up all
	// writers of the journal. After an error, or a lost commit, it is called again.
	HandleTx func(ctx context.Context, tx journal.Tx, op Operation) error

	Heard bool // Handle also receives named operations whose caller has the response
	Steps bool // HandleTx also receives the steps of flows that have the response
}

// ConfigError says which field of Config New refuses, and why.
type ConfigError struct {
	Field string // such as "Outcomes"
	Err   error
}

// Error returns the field and the reason.
func (e *ConfigError) Error() string { return "onceward: Config." + e.Field + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *ConfigError) Unwrap() error { return e.Err }

// check returns an error for settings that don't go together.
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
