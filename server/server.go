package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/burst"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fingerprint"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/journal"
)

// Caller identifies a request's caller, as proven by the authentication. Never take a Caller from a body or an unproven
// header.
type Caller struct {
	// Tenant identifies the keys' owner: a tenant's key reaches nothing that belongs to another tenant. Tenant has 1 to 512
	// bytes. A service with one tenant gives a fixed name.
	Tenant string

	// Who identifies the caller, if a tenant has several callers who must not see each other's answers. Give a stable
	// identifier for a user or an API key, never a session or a token: a caller who logs in again has to find the answer.
	// Another caller with the same key is refused. Empty means that callers are not compared. An answer recorded for an
	// empty Who is for the tenant's every caller.
	Who string
}

// Options configure a Server. Journal, Caller and Secrets are required.
type Options struct {
	// Journal keeps the receipts, in the database with the handlers' own tables. The journal must keep receipts, as one by
	// journal/sqlite, journal/postgres or journal/mysql does. The caller closes the journal after the HTTP server has ended.
	Journal journal.Journal

	// Caller is called after authentication, concurrently, also for a request without a key if the request has an effect.
	// An error is logged, and the answer is 500.
	Caller func(*http.Request) (Caller, error)

	// Secrets are the keys for a request's recorded digests, so a reader of the table cannot guess a body. New requests use
	// the first secret, and comparisons use all. Each secret has at least 16 bytes. To rotate, add the new secret in second
	// place on all hosts, then move the new secret to first place. Remove the old secret once the longest Endpoint.Retain
	// and RefuseFor have passed.
	Secrets [][]byte

	// Begin starts a transaction on the journal's database in the application's own way, and no savepoint: the answer
	// leaves after Commit. Default: the journal's BeginTx.
	Begin func(context.Context) (journal.Tx, error)

	// Client makes a request's key the parent of the calls under the request's context, through this client or another, as
	// [Inbound] does. Don't wrap the endpoints in Inbound as well. The client needs Config.Secret. With a nil Client, calls
	// are named as elsewhere, and Repeatable panics.
	Client *onceward.Client

	// KeysPerEndpoint counts one key at two endpoints as two keys. The names of calls below then include the endpoint. The
	// journal records the setting, and refuses another value. Without KeysPerEndpoint, the server refuses a key that was
	// used at another endpoint.
	KeysPerEndpoint bool

	// MaxInFlight is how many requests from one tenant a process serves at once, with keys or without. Each request holds
	// body and answer in memory. Further requests get a 429. Default: 256.
	MaxInFlight int

	// Flavour words the refusals. Default: IETF("").
	Flavour Flavour

	// Observe receives the outcome of each request with a key, concurrently, and must not block. Default: none.
	Observe func(context.Context, Outcome)

	// Logger receives messages for the operator, never with keys, bodies or tenants. Default: slog.Default().
	Logger *slog.Logger
}

// Server serves endpoints with idempotency keys, and is safe for concurrent use.
type Server struct {
	opts     Options
	receipts machine.Receipts
	now      func() time.Time

	refuseFor time.Duration                   // by default
	inbound   func(http.Handler) http.Handler // of Options.Client; nil: there is none

	mu    sync.Mutex
	names map[string]bool // of endpoints, with those that they had before

	endpoints []string // their first names

	flights map[flightKey]*flight
	served  map[string]int // requests, by tenant

	comparing, oversize chan struct{} // bounds for large requests

	bursts burst.Lines // of failures of the journal, by the name of their problem
}

// Stats counts the requests that a Server is serving.
type Stats struct {
	Serving int       // requests with keys from all tenants, one for each key
	Oldest  time.Time // the start of the oldest such request; zero if there is none
}

// Stats returns the current counts.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Stats{Serving: len(s.flights)}
	for _, f := range s.flights {
		if now.Oldest.IsZero() || f.began.Before(now.Oldest) {
			now.Oldest = f.began
		}
	}
	return now
}

// Endpoints returns the names of the endpoints, as in [Outcome].
func (s *Server) Endpoints() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.endpoints)
}

// minSecret is the length of the shortest secret, in bytes.
const minSecret = 16

// New returns a Server, and makes missing tables for receipts. The error names the missing or wrong option, or wraps the
// journal's error.
func New(ctx context.Context, o Options) (*Server, error) {
	store, ok := o.Journal.(machine.Receipts)
	switch {
	case o.Journal == nil:
		return nil, errors.New("server: Options.Journal is nil: open one, such as journal/sqlite's, on the database of your own tables")
	case !ok:
		return nil, fmt.Errorf("server: Options.Journal, a %T, keeps no receipts: use one that does, such as journal/sqlite's", o.Journal)
	case o.Caller == nil:
		return nil, errors.New("server: Options.Caller is nil: set a function that returns the request's tenant, after authentication")
	case len(o.Secrets) == 0:
		return nil, errors.New("server: Options.Secrets is empty: give at least one of 16 random bytes or more, the same on all hosts")
	}
	for i, secret := range o.Secrets {
		if len(secret) < minSecret {
			return nil, fmt.Errorf("server: Options.Secrets[%d] has %d bytes: give at least %d random ones", i, len(secret), minSecret)
		}
	}
	if o.Flavour == nil {
		o.Flavour = IETF("")
	}
	if o.MaxInFlight < 0 {
		return nil, fmt.Errorf("server: Options.MaxInFlight is %d: give how many requests of a tenant are served at once", o.MaxInFlight)
	}
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 256)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Observe == nil {
		o.Observe = func(context.Context, Outcome) {}
	}
	if o.Begin == nil {
		o.Begin = store.BeginTx
	}
	naming := "keys"
	if o.KeysPerEndpoint {
		naming = "keys of each endpoint"
	}
	if err := store.MakeReceipts(ctx, naming); err != nil {
		return nil, fmt.Errorf("server: make the tables of receipts: %w", err)
	}
	s := &Server{opts: o, receipts: store, now: time.Now, refuseFor: refuseFor, names: map[string]bool{}, flights: map[flightKey]*flight{}, served: map[string]int{},
		comparing: make(chan struct{}, largeAtOnce), oversize: make(chan struct{}, largeAtOnce)}
	if clock, ok := o.Journal.(machine.Clock); ok {
		s.now = clock.Now
	}
	if o.Client != nil {
		s.refuseFor = max(refuseFor, core.Of(o.Client).Keep)
		var err error
		s.inbound, err = Inbound(o.Client, s.tenantOf, InboundOptions{
			AllowKeyless: true, // an endpoint has judged the key
			Endpoint: func(r *http.Request) string {
				if under := runUnder(r.Context()); under != nil {
					return first(under.places)
				}
				return ""
			},
			KeysPerEndpoint: o.KeysPerEndpoint,
		})
		if err != nil {
			return nil, fmt.Errorf("server: Options.Client: %w", err)
		}
	}
	return s, nil
}

// tenantOf returns the tenant of calls below a request.
func (s *Server) tenantOf(r *http.Request) (string, error) {
	if under := runUnder(r.Context()); under != nil {
		return under.tenant, nil
	}
	caller, err := s.opts.Caller(r)
	return caller.Tenant, err
}

// Run removes expired receipts, in small transactions, until ctx ends or the journal is closed. Run returns ctx's error, or
// journal.ErrClosed. Several processes may run Run. Run logs any other error from the journal, and goes on.
func (s *Server) Run(ctx context.Context) error {
	return receipts.Run(ctx, s.receipts, s.now, s.opts.Logger)
}

// prints are the fingerprints of a request, one under each secret.
type prints []fingerprint.Print

const (
	// largeRequest is the largest size, in bytes, of a body with the query that is compared at any time. A comparison may
	// take a hundred times as much memory.
	largeRequest = 64 << 10

	// largeAtOnce is the number of large requests compared at once, and of requests over Endpoint.MaxRequest read at
	// once.
	largeAtOnce = 4

	// oversize is how many times as large as Endpoint.MaxRequest, or 1 MiB if that is more, the body of a request with a
	// receipt may be.
	oversize = 8
)

// printsOf returns the request's fingerprints, one for each secret and then, if the caller has a name, one for each
// secret without it. The method stands beside the caller. The fixed value distinguishes a fingerprint under another
// secret from another request's fingerprint. The error is that of ctx.
func (s *Server) printsOf(ctx context.Context, in fingerprint.Input, who string) (prints, error) {
	size := len(in.Body)
	if in.URL != nil {
		size += len(in.URL.RawQuery)
	}
	if size > largeRequest {
		select {
		case s.comparing <- struct{}{}:
			defer func() { <-s.comparing }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	on := func(who string) http.Header {
		return http.Header{"Method": {in.Method}, "Who": {strconv.Quote(who)}} // spaces around a header's value don't count
	}
	account, anyone := on(who), on("")
	in.Account, in.Method, in.Secret, in.FoldNames = account, "RECEIVED", true, true
	print, err := fingerprint.New(ctx, in)
	if err != nil {
		return nil, err
	}
	var list prints
	for _, secret := range s.opts.Secrets {
		list = append(list, print.WithKey(secret))
	}
	if who != "" {
		for _, own := range list {
			list = append(list, own.WithAccount(anyone))
		}
	}
	return list, nil
}

// errIncomparable is the error for a receipt of a newer release, or under a secret that is not here.
var errIncomparable = errors.New("server: a receipt was made by a newer release, or under a secret that Options.Secrets lacks: its request can't be compared")

// same reports whether a fingerprint is of the request.
func (p prints) same(stored string) (bool, error) {
	comparable := false
	for i := range p {
		differs, err := p[i].Diff(stored)
		switch {
		case errors.Is(err, fingerprint.ErrKey):
			continue
		case err != nil:
			return false, fmt.Errorf("%w: %w", errIncomparable, err)
		case len(differs) == 0:
			return true, nil
		}
		comparable = true
	}
	if !comparable {
		return false, errIncomparable
	}
	return false, nil
}
