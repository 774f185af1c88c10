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

// Caller identifies the caller of a request, as the authentication has proven it. Never take it from a body or an
// unproven header.
type Caller struct {
	// Tenant identifies the owner of the keys: a tenant's key reaches nothing of another tenant. It has 1 to 512
	// bytes. If there is only one tenant, write its name.
	Tenant string

	// Who identifies the caller, if a tenant has several callers who must not see each other's answers. It is a
	// stable identifier of a user or an API key, never a session or a token: a caller who logs in again has to find
	// the answer. Another caller with the same key is refused. Empty: callers are not compared. An answer that was
	// recorded for an empty Who is for every caller of the tenant.
	Who string
}

// Options are the options of a Server. Journal, Caller and Secrets are required.
type Options struct {
	// Journal keeps the receipts, in the database of the handlers' own tables. It keeps receipts, as a
	// journal of journal/sqlite or journal/postgres does. The caller closes it, after the HTTP server has ended.
	Journal journal.Journal

	// Caller is called after authentication, concurrently. An error is logged, and the request is answered by 500. It is
	// called for a request without a key too, if the request has an effect.
	Caller func(*http.Request) (Caller, error)

	// Secrets are the keys of the digests that are kept of a request, so that a reader of the table cannot guess a
	// body. New requests use the first, and all are compared. Each has at least 16 bytes. To rotate a secret, add the
	// new one as the second on all hosts, then make it the first. Remove the old one once the longest Endpoint.Retain
	// and RefuseFor have passed.
	Secrets [][]byte

	// Begin starts a transaction of the journal's database in the application's own way, and no savepoint of one: the
	// answer leaves after its Commit. Default: the journal's BeginTx.
	Begin func(context.Context) (journal.Tx, error)

	// Client makes a request's key the parent of the calls under its context, through this client or another, as
	// [Inbound] does. Don't wrap the endpoints in Inbound as well. The client needs Config.Secret. If
	// it is nil, calls are named as elsewhere, and Repeatable panics.
	Client *onceward.Client

	// KeysPerEndpoint counts one key at two endpoints as two keys. The names of calls below then include the
	// endpoint. The journal records the setting, and refuses another value. Without it, a key that was used at
	// another endpoint is refused.
	KeysPerEndpoint bool

	// MaxInFlight is the largest number of requests of one tenant that a process serves at once, with keys or without.
	// Each holds its body and its answer in memory. Further ones are answered by 429. Default: 256.
	MaxInFlight int

	// Flavour words the refusals. Default: IETF("").
	Flavour Flavour

	// Observe receives the outcome of each request with a key. It is called concurrently, and must not block.
	// Default: none.
	Observe func(context.Context, Outcome)

	// Logger receives messages for the operator, never with keys, bodies or tenants. Default: slog.Default().
	Logger *slog.Logger
}

// Server serves endpoints with idempotency keys. It is safe for concurrent use.
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
	Serving int       // requests with keys of all tenants, one for each key
	Oldest  time.Time // since when the oldest of them is served; the zero time if there is none
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

// Endpoints returns the names of the endpoints that were made, as [Outcome] has them.
func (s *Server) Endpoints() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.endpoints)
}

// minSecret is the length of the shortest secret, in bytes.
const minSecret = 16

// New returns a Server, and makes the tables of receipts if they are missing. Its error says which option is missing or wrong,
// or wraps the journal's.
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

// Run removes expired receipts, in small transactions, until ctx ends or the journal is closed. It returns the error of ctx, or
// journal.ErrClosed. It may run in several processes. It logs any other error of the journal, and goes on.
func (s *Server) Run(ctx context.Context) error {
	return receipts.Run(ctx, s.receipts, s.now, s.opts.Logger)
}

// prints are the fingerprints of a request, one under each secret.
type prints []fingerprint.Print

const (
	// largeRequest is the largest size of a body and its query, in bytes, that is compared at once with any others. A
	// comparison may take a hundred times as much memory.
	largeRequest = 64 << 10

	// largeAtOnce is the number of large requests that are compared at once, and of those over Endpoint.MaxRequest that
	// are read at once.
	largeAtOnce = 4

	// oversize is how many times as large as Endpoint.MaxRequest, or 1 MiB if that is more, the body of a request with a
	// receipt may be.
	oversize = 8
)

// printsOf returns the request's fingerprints, one for each secret and then, if the caller has a name, one for each secret
// without it. The method stands beside the caller. The fixed value in its place tells a fingerprint that was made under
// another secret from the fingerprint of another request. The error is that of ctx.
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
