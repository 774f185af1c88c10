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

// Config configures a Client. Journal and Providers are required. The zero value of every other field works. The
// fields come in four groups: requirements, sending, hooks and limits.
type Config struct {
	// Requirements.

	// Journal records the operations, such as one of journal/sqlite, or of journal/postgres if several machines share
	// it. A name is one effect within one journal. The caller closes it after Shutdown.
	Journal journal.Journal

	// Providers are the contracts of the APIs to be called. A request to any other host passes through unchanged,
	// unless it is named. Safe requests pass through too: see RetrySafe.
	Providers []providers.Provider

	// HTTPClient sends the attempts through its Transport. Client.HTTPClient keeps its Jar, CheckRedirect and Timeout.
	// It is not changed. It must not be another Client's, nor repeat requests by itself, as go-retryablehttp does. New
	// refuses both if it can see them. Default: http.DefaultClient.
	HTTPClient *http.Client

	// Authorize adds credentials to a request, in headers or query parameters. It is called concurrently, before every
	// attempt at a host of Providers, in the background too, since the journal holds no credentials. An error stops
	// the attempt before it is sent.
	//
	// The request has its key and body, so Authorize may sign them. It reads the body by Body or GetBody, and must not
	// change anything else. The request's context names no operation, so Authorize may call through the same client.
	//
	// Onceward calls it once more before recording the operation if the table scopes keys to the credential or detects
	// test mode from the credential's prefix. With Reconcile it does so for every operation that it can look up.
	// Authorize is also called for each request of a look-up. LookOf then returns the operation.
	Authorize func(*http.Request) error

	// Secret derives the key of a named operation's first generation from scope and name. After the loss of the
	// journal the same key comes back, and protects as long as the provider retains it. References that the client
	// fills in (Reconcile.FillReferences) come back too. It has at least 16 bytes, and is the same on every host. It also
	// salts the fingerprints of secret bodies: under another Secret, a repeated request with such a body is
	// ErrKeyReused. Nil means that keys are random.
	Secret []byte

	// Sending.

	// Backoff sets the delay between attempts and their number within one call. An operation that has used them up
	// rests for Max, then longer each time, up to an hour. Each rest is drawn from the upper half of that.
	Backoff backoff.Policy

	// RetryBudget limits the further attempts at one provider over all its operations, so that a provider that is down
	// gets hardly more load than without retries. An operation that finds the budget used up rests like one that is
	// out of attempts.
	RetryBudget backoff.Budget

	// RetrySafe selects the safe requests (GET, HEAD, OPTIONS) to retry by Backoff and RetryBudget. They are retried
	// after a 429, a 5xx other than 501, or no answer, until the caller has a response. They are not recorded.
	// RetrySafe is called concurrently, for every safe request to any host. A request with an Upgrade, or with a body
	// that can't be read again, is never retried. Nil selects the hosts of Providers.
	RetrySafe func(*http.Request) bool

	// NamedOnly keeps Resume and Run from sending unnamed operations of a dead process: they become unknown. Use it if
	// a queue or job runner repeats work under another key after a crash. Pending operations of a process without
	// NamedOnly are sent and reported by that process.
	NamedOnly bool

	// Strict rejects unprotected requests with ErrUnprotected. Without it, the client logs a warning once for each
	// host. A request is unprotected if it may have an effect and has one of these faults:
	//
	//   - It has neither a name nor a table entry, or it is streamed.
	//   - It uses another port than its provider's table.
	//   - Its path, such as //v1/charges, matches no endpoint but may be read as one that does.
	//   - It carries a key in another header than the table expects.
	//
	// Send other traffic through a separate client, or mark the endpoint NoEffect.
	Strict bool

	// Hooks.

	// OnSettled receives outcomes that no caller is known to have: of operations that Resume or Run finished, and of
	// calls whose process died before the response's body was closed. It also receives operations that were withdrawn
	// (Client.Unwanted) and took effect anyway, even if the caller has the answer. The steps of a flow are excluded
	// from that.
	//
	// Completed operations have an answer. Unknown and cancelled ones come too, with Reconcile an unknown one only if
	// it needs attention. An operation that took effect twice, or otherwise than recorded, comes once more, with
	// Operation.Attention.
	//
	// OnSettled is called at least once for each outcome, concurrently and in no order, until it returns nil. Run
	// retries a failed call, later and later, and so does the next process. Every client of the journal needs it: a
	// client without it marks outcomes as delivered, even if another client's OnSettled failed on them. See
	// docs/outcomes.md.
	OnSettled func(context.Context, Operation) error

	// OnSettledTx is OnSettled in a transaction of the journal's database. Its writes and the mark that the outcome
	// was delivered are one commit. tx.Driver() is the driver's own transaction, such as a *sql.Tx. OnSettledTx
	// neither commits nor rolls back, and makes no call of this client. Keep it short, without calls over a network:
	// it may hold up all writers of the journal.
	//
	// It is called again, with another transaction, after an error. It is also called again after a commit with an
	// unknown result, but only if that commit was lost. An operation that was unknown and is completed later has two
	// outcomes. One that took effect twice, or otherwise than recorded, comes once more, with Operation.Attention. Use
	// (Ref, Generation) as the primary key of your booking to make it idempotent.
	//
	// It receives the outcome of every operation, even if the caller has the response. Of a flow's steps it receives
	// only those that OnSettled would. It needs a journal that is a journal.Outbox, and excludes OnSettled. Every
	// client of the journal needs it: outcomes that another client delivers never reach it.
	OnSettledTx func(ctx context.Context, tx journal.Tx, op Operation) error

	// Reconcile configures how to find out what became of unknown operations. It needs a journal.Reconciler, as this
	// module's journals are. Nil means that they stay unknown until Resolve settles them.
	Reconcile *Reconcile

	// SettleAll passes the outcome of every named operation to OnSettled, even if the caller has the response.
	// OnSettledTx then receives the steps of flows too.
	SettleAll bool

	// Trace has hooks that are called on the way of an operation. Default: none.
	Trace *Trace

	// Logger receives log records for operators. Default: silent.
	Logger *slog.Logger

	// Limits.

	// MaxWait limits a call whose context has no deadline, and each operation that Resume sends. Default: 2 minutes.
	MaxWait time.Duration

	// AttemptTimeout limits one attempt, with its response's body. It does not apply to an attempt that has a
	// connection and may not be followed by another. The context's deadline or MaxWait limits that one. Default: 30
	// seconds.
	AttemptTimeout time.Duration

	// Concurrency is how many operations Resume and Run send at once to one provider, or to one host without a
	// provider. The calls of the flows that they run count too. The total limit is eight times as many, but each
	// provider always gets one. It is also the limit of concurrent OnSettled calls and of concurrent flows. Default:
	// 8.
	Concurrency int

	// FleetConcurrency limits how many operations Resume and Run send at once to one provider over all processes of
	// the journal. Each process gets an equal part. If processes outnumber it, some get none, so set it to at least
	// their number. The limit is divided without coordination, and may be exceeded briefly while processes join or
	// leave. A process counts from its first call, even if it never calls Run or lacks the provider's table. Its part
	// then stays unused. Your own calls are not counted, except those of flows that Run resumes. A journal for one
	// machine gives each process all of it. Zero means Concurrency alone.
	FleetConcurrency int

	// MaxRequestBody is the largest journaled request body, in bytes. A larger one is ErrInvalidRequest. Default: 8
	// MiB.
	MaxRequestBody int64

	// MaxResponseBody is the largest recorded response body, in bytes. Of a larger one the journal records the answer
	// without its body, and the caller gets the stream. The verdict still reads up to 16 MiB. Of an answer's headers
	// and of its trailers, 64 KiB are recorded, the shortest first. A replay names the missing ones in Onceward-Cut.
	// Default: 8 MiB.
	MaxResponseBody int64

	// Keep is how long the journal keeps answers, and at least as long as the provider remembers the key. Run reaps
	// answers past it. Default: 90 days.
	Keep time.Duration
}

// checkSettling rejects hooks for outcomes that don't go together.
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

// hooks returns the hooks that receive outcomes.
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
