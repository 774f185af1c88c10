package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/fingerprint"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/keyheader"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// Outcome is the outcome of a request with a key.
type Outcome struct {
	Endpoint string // its name; the first one that it had, if it was renamed
	Tenant   string
	Kind     Kind
	Status   int    // of the answer; 0: the handler has panicked
	Problem  string // Problem.Name, if Kind is Refused or Failed
}

// Kind is the kind of an [Outcome].
type Kind string

// The outcomes.
const (
	Created   Kind = "created"             // the handler has run, and its answer is recorded
	Again     Kind = "reused_after_expiry" // likewise, under a key whose first life is over
	Replayed  Kind = "replayed"            // the recorded answer was given
	Untouched Kind = "untouched"           // Created, by a handler that never asked for the transaction
	Released  Kind = "released"            // the handler has run, nothing of it is kept, and the key is free
	Refused   Kind = "refused"             // a problem that is about the key, the caller or the request
	Failed    Kind = "failed"              // a problem that is the service's own
)

// Headers that the server sets.
const (
	replayedHeader = "Idempotent-Replayed"
	expiresHeader  = "Idempotency-Expires"
	recordedHeader = "Idempotency-Recorded"
)

type endpoint struct {
	*Server
	Endpoint
	name   string       // the first one that it had: calls, receipts, outcomes and logs have it, so that they survive a rename
	places []string     // all names that it had, the latest first
	next   http.Handler // names the calls below it, if there is Options.Client

	repeatable bool

	untouched sync.Once
}

// Atomic serves h with the request's transaction: see [Tx]. name is the endpoint's permanent name, such as
// "payments.create", and is recorded with each key. Atomic panics if the name is no name or was given before, or if e
// is contradictory.
//
// h alone serves a GET, HEAD, OPTIONS or TRACE. A PUT or DELETE without a key has a transaction, and no receipt.
//
// Atomic records a 2xx or 3xx answer. If the handler has asked for the transaction, Atomic also records a 4xx,
// because a decline is an effect, except 401, 408, 425 and 429. After any other answer, and after a panic, nothing is
// kept and the key is free.
//
// If the caller goes away, the handler runs on, at most for Endpoint.Limit. No part of the answer leaves before the
// answer is recorded: a Flush or Hijack returns http.ErrNotSupported.
func (s *Server) Atomic(name string, h http.Handler, e Endpoint) http.Handler {
	return s.endpoint(name, h, e, false)
}

// Repeatable serves a handler that may run more than once for a key, until an answer is recorded. Every request with
// the key gets the first recorded answer. Use Repeatable for handlers whose effects are calls through Options.Client
// under the request's context, or a flow: each call takes effect once, however often the handler runs. A Repeatable
// handler has no transaction.
//
// The handler must make the same calls in the same order each time. Repeatable records a 2xx or 3xx answer, and a 4xx
// from a flow that has ended ([Flow]). After any other answer the handler runs again, and gets the same answers from
// the calls. If a call has no outcome yet, the handler must answer by a 5xx, since a caller may take a 4xx for the
// outcome. Repeatable panics as Atomic does, and without Options.Client.
func (s *Server) Repeatable(name string, h http.Handler, e Endpoint) http.Handler {
	if s.inbound == nil {
		panic("server: endpoint " + name + ": Repeatable needs Options.Client, by which the calls of its handler take effect once")
	}
	return s.endpoint(name, h, e, true)
}

func (s *Server) endpoint(name string, h http.Handler, e Endpoint, repeatable bool) http.Handler {
	if h == nil {
		panic("server: endpoint " + name + ": the handler is nil")
	}
	e = s.checked(name, e)
	places := append([]string{name}, e.Formerly...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, place := range places {
		if s.names[place] {
			panic("server: there is an endpoint " + place + " already")
		}
		s.names[place] = true
	}
	s.endpoints = append(s.endpoints, first(places))
	if s.inbound != nil {
		h = s.inbound(h)
	}
	return &endpoint{Server: s, Endpoint: e, name: first(places), places: places, next: h, repeatable: repeatable}
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, malformed := keyheader.Parse(r.Header)
	has := len(r.Header[keyheader.Name]) > 0
	switch {
	case natural(r.Method):
		if has { // it asks for no effect, so the key says nothing
			r = r.Clone(r.Context())
			r.Header.Del(keyheader.Name)
		}
		e.next.ServeHTTP(w, r)
		return
	case seam.IsInTransaction(r.Context()):
		e.failed(r.Context(), "a handler serves another request in its open transaction; that was answered by 500", ErrInTransaction)
		e.refuseKey(w, r, "", handlerMisused)
		return
	case !has && !e.Optional && r.Method != http.MethodPut && r.Method != http.MethodDelete:
		e.refuseKey(w, r, "", keyMissing)
		return
	case has && malformed == "":
		malformed = reasonOf(onceward.Key(key).Validate())
	}
	if malformed != "" {
		e.refuseKey(w, r, "", malformedBy(malformed))
		return
	}
	caller, err := e.opts.Caller(r)
	if err == nil && (caller.Tenant == "" || len(caller.Tenant) > 512) {
		err = errors.New("the tenant has no name, or one of more than 512 bytes")
	}
	if err != nil {
		e.failed(r.Context(), "the caller of a request is not known; it was answered by 500", err)
		e.refuseKey(w, r, "", callerUnknown)
		return
	}
	if !e.enter(caller.Tenant) {
		e.refuseKey(w, r, caller.Tenant, tooMany)
		return
	}
	defer e.leave(caller.Tenant)
	body, unless, p := e.read(w, r, caller.Tenant, key)
	switch {
	case p != nil:
		e.refuseKey(w, r, caller.Tenant, *p)
	case has:
		e.serve(w, r, caller, key, body, unless)
	default:
		e.serveKeyless(w, r, caller, body)
	}
}

// enter counts a request of a tenant until leave, or returns false if too many are being served.
func (s *Server) enter(tenant string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served[tenant] >= s.opts.MaxInFlight {
		return false
	}
	s.served[tenant]++
	return true
}

func (s *Server) leave(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served[tenant]--; s.served[tenant] == 0 {
		delete(s.served, tenant)
	}
}

// natural reports whether a method has no effect.
func natural(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions || method == http.MethodTrace
}

// reasonOf returns a key's fault by the validation error, or "".
func reasonOf(err error) string {
	var malformed *onceward.KeyError
	if errors.As(err, &malformed) {
		return malformed.Reason
	}
	return ""
}

// malformed says what is wrong with a key that is valid elsewhere, or "".
func (e *Endpoint) malformed(key string) string {
	switch {
	case len(key) < e.KeyBytes[0]:
		return "is too short"
	case len(key) > e.KeyBytes[1]:
		return "is too long"
	}
	return ""
}

func malformedBy(reason string) Problem {
	p := keyMalformed
	p.Detail = "The key in the Idempotency-Key header " + reason + "."
	return p
}

// read reads the body, as a whole, before anything is locked. The key is empty if the request has none.
//
// This deploy may not begin a request with such a key or such a large body: unless says why. An earlier deploy of the
// program may have recorded an answer, and that wins. So read refuses the request by p only if the key has no receipt.
func (e *endpoint) read(w http.ResponseWriter, r *http.Request, tenant, key string) (body []byte, unless, p *Problem) {
	if reason := e.malformed(key); key != "" && reason != "" {
		problem := malformedBy(reason)
		unless = &problem
	}
	if r.ContentLength > e.MaxRequest {
		unless = &requestTooLarge
	}
	if unless != nil {
		if p = e.unknown(r, tenant, key, unless); p != nil {
			return nil, nil, p
		}
	}
	if unless != &requestTooLarge {
		if body, p = e.readUpTo(w, r, nil, e.MaxRequest); p != &requestTooLarge {
			return body, unless, p
		}
		if p = e.unknown(r, tenant, key, p); p != nil {
			return nil, nil, p
		}
	}
	select {
	case e.oversize <- struct{}{}:
		defer func() { <-e.oversize }()
	default:
		return nil, nil, &tooMany
	}
	body, p = e.readUpTo(w, r, body, oversize*max(e.MaxRequest, 1<<20))
	return body, &requestTooLarge, p
}

// unknown returns p if the key has no receipt, and the problem if the journal can't be read.
func (e *endpoint) unknown(r *http.Request, tenant, key string, p *Problem) *Problem {
	if key == "" {
		return p
	}
	looking, cancel := context.WithTimeout(r.Context(), e.Limit)
	defer cancel()
	switch _, err := e.receipts.GetReceipt(looking, e.receiptKey(tenant, e.name, key)); {
	case errors.Is(err, journal.ErrNotFound):
		return p
	case err != nil:
		e.storeFailed(r.Context(), "a receipt could not be read, so the request is refused", err)
		return problemOf(err)
	}
	return nil
}

// readUpTo appends the rest of the body, up to most bytes in all.
func (e *endpoint) readUpTo(w http.ResponseWriter, r *http.Request, body []byte, most int64) ([]byte, *Problem) {
	rest, err := e.inTime(w, r, io.LimitReader(r.Body, most+1-int64(len(body))))
	body = append(body, rest...)
	switch {
	case len(body) == 0 && (len(r.PostForm) > 0 || r.MultipartForm != nil):
		e.failed(r.Context(), "a request can't be compared", errors.New("a middleware around has read its form: it has to restore the body"))
		return nil, &handlerMisused
	case err == nil && int64(len(body)) > most:
		return body, &requestTooLarge
	case err != nil, r.ContentLength >= 0 && int64(len(body)) < r.ContentLength:
		return nil, &requestBroken
	}
	return body, nil
}

// inTime reads the rest of a body. If the HTTP server has no ReadTimeout, inTime waits at most for Endpoint.Limit.
func (e *endpoint) inTime(w http.ResponseWriter, r *http.Request, rest io.Reader) (body []byte, err error) {
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		return io.ReadAll(rest)
	}
	of := http.NewResponseController(w)
	if of.SetReadDeadline(time.Now().Add(e.Limit)) == nil {
		if body, err = io.ReadAll(rest); err == nil { // else the server reads no more of it
			_ = of.SetReadDeadline(time.Time{})
		}
		return body, err
	}
	// An outer middleware hides the connection, so only the connection's end ends the read.
	read := struct {
		body     []byte
		err      error
		panicked any
	}{err: errSlowBody}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { read.panicked = recover() }()
		read.body, read.err = io.ReadAll(rest)
	}()
	timer := time.NewTimer(e.Limit)
	defer timer.Stop()
	select {
	case <-ended:
		if read.panicked != nil {
			panic(read.panicked) // of the reader, for the HTTP server to recover
		}
		return read.body, read.err
	case <-timer.C:
	}
	w.Header().Set("Connection", "close") // else the HTTP server waits for the rest before it answers
	return nil, errSlowBody
}

var errSlowBody = errors.New("server: the request's body did not come in time")

// refuseKey refuses a request with a key, and tells it.
func (e *endpoint) refuseKey(w http.ResponseWriter, r *http.Request, tenant string, p Problem) {
	e.refuse(w, p)
	what := Refused
	if p.Status >= 500 {
		what = Failed
	}
	e.opts.Observe(r.Context(), Outcome{Endpoint: e.name, Tenant: tenant, Kind: what, Status: p.Status, Problem: p.Name})
}

// run is one run of a handler.
type run struct {
	server   *Server
	ctx      context.Context // the handler's
	cancel   context.CancelFunc
	held     time.Duration // how long the transaction may be open
	base     machine.ReceiptEvent
	prints   prints
	places   []string
	tenant   string
	released atomic.Bool

	keyless    bool // there is no receipt
	repeatable bool // there is no transaction
	final      bool // a flow has ended: a 4xx is its outcome

	mu      sync.Mutex
	tx      journal.Tx
	timer   *time.Timer // calls cancel after held
	receipt journal.Receipt
	again   bool
	oldest  time.Time // when the oldest operation was made that the handler has met so far; zero: it has met none
	ended   bool
	failed  error            // why there is no transaction
	misused error            // why the handler asked for one in vain
	problem *Problem         // the answer to the request then, or if a flow can't go on
	replay  *journal.Receipt // or by which answer
}

// event returns an event of the request's receipt.
func (r *run) event(kind machine.ReceiptEventKind) machine.ReceiptEvent {
	ev := r.base
	ev.Kind, ev.At, ev.Same = kind, r.server.now(), r.same
	return ev
}

// same reports whether a receipt belongs to the request.
func (r *run) same(recorded *journal.Receipt) (bool, error) {
	if !slices.Contains(r.places, recorded.Place) {
		return false, nil
	}
	return r.prints.same(recorded.Fingerprint)
}

type flightKey struct{ scope, key string }

// flight is a request that is being served.
type flight struct {
	prints prints
	began  time.Time // by this process's clock
	done   chan struct{}
}

func (e *endpoint) serve(w http.ResponseWriter, req *http.Request, caller Caller, key string, body []byte, unless *Problem) {
	looking, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), e.Limit+e.Wait)
	defer cancel()
	target := *req.URL
	target.Scheme, target.Host = "", "" // a proxy sends a whole URL
	prints, err := e.printsOf(looking, fingerprint.Input{
		Method: req.Method, URL: &target, ContentType: req.Header.Get("Content-Type"), ContentEncoding: req.Header.Get("Content-Encoding"),
		Body: body, OmitFields: e.Omit,
	}, caller.Who)
	if err != nil {
		e.refuseKey(w, req, caller.Tenant, tooSlow)
		return
	}
	r := &run{server: e.Server, held: e.Held, prints: prints, places: e.places, tenant: caller.Tenant, repeatable: e.repeatable}
	r.base = machine.ReceiptEvent{ReceiptKey: e.receiptKey(caller.Tenant, e.name, key), Place: e.name, Fingerprint: prints[0].Fingerprint(), Keep: e.Retain, Refuse: e.RefuseFor}

	// A recorded answer is given, however many requests wait for the key. The request that runs the handler looks while
	// no other request in the process can.
	at := flightKey{r.base.Scope, r.base.Key}
	wait := time.NewTimer(e.Wait)
	defer wait.Stop()
	for {
		f, leads := e.board(at, prints)
		if leads {
			defer e.land(at, f)
		}
		if !e.isFree(looking, w, req, caller, r) {
			return
		}
		if unless != nil {
			e.refuseKey(w, req, caller.Tenant, *unless)
			return
		}
		if leads {
			break
		}
		if same, _ := prints.same(f.prints[0].Fingerprint()); !same {
			e.refuseKey(w, req, caller.Tenant, keyReused)
			return
		}
		select {
		case <-f.done:
			continue
		case <-wait.C:
		case <-req.Context().Done(): // the caller has gone, or a middleware around has a limit
		}
		e.refuseKey(w, req, caller.Tenant, inFlight)
		return
	}
	running, cancelRun := context.WithTimeout(context.WithoutCancel(req.Context()), e.Limit) // as long after a wait
	defer cancelRun()
	r.under(running, cancelRun)
	inner := withBody(req.WithContext(r.ctx), body)
	inner.Header = req.Header.Clone()
	inner.Header.Del("Accept-Encoding") // a recorded answer has no coding: the next caller may not read it
	answer := newRecorder(w, e.MaxAnswer)
	e.handle(e.next, r, answer, inner)
	e.conclude(w, req, caller, r, answer)
}

// withBody gives a request back the body that was read.
func withBody(r *http.Request, body []byte) *http.Request {
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return r
}

// first returns an endpoint's first name, which an earlier deploy's processes know too.
func first(places []string) string { return places[len(places)-1] }

// serveKeyless serves a request without a key. Its handler has a transaction too, and no receipt.
func (e *endpoint) serveKeyless(w http.ResponseWriter, req *http.Request, caller Caller, body []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), e.Limit)
	defer cancel()
	r := &run{server: e.Server, held: e.Held, places: e.places, tenant: caller.Tenant, keyless: true, repeatable: e.repeatable}
	r.under(ctx, cancel)
	answer := newRecorder(w, e.MaxAnswer)
	e.handle(e.next, r, answer, withBody(req.WithContext(r.ctx), body))
	e.conclude(w, req, caller, r, answer)
}

// under makes ctx the handler's context, which cancel ends.
func (r *run) under(ctx context.Context, cancel context.CancelFunc) {
	r.cancel = cancel
	r.ctx = seam.InTransactionWhile(seam.WithEarlier(context.WithValue(ctx, runKey{}, r), r.isEarlier), r.isOpen)
}

// board makes the request the served request under the request's key, unless there is another.
func (s *Server) board(key flightKey, p prints) (f *flight, leads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flights[key]; f != nil {
		return f, false
	}
	f = &flight{prints: p, began: time.Now(), done: make(chan struct{})}
	s.flights[key] = f
	return f, true
}

func (s *Server) land(key flightKey, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flights, key)
	close(f.done)
}

func (r *run) isOpen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tx != nil
}

// returned reports whether the handler has left a transaction open. A goroutine that outlives the handler begins none.
func (r *run) returned() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	return r.tx != nil
}

// handle runs the handler. After a panic, or runtime.Goexit, nothing is kept.
func (e *endpoint) handle(h http.Handler, r *run, w *recorder, req *http.Request) {
	returned := false
	defer func() {
		if !returned {
			r.end()
			e.opts.Observe(r.ctx, Outcome{Endpoint: e.name, Tenant: r.tenant, Kind: Released})
		}
	}()
	h.ServeHTTP(w, req)
	w.done()
	returned = true
}

// end keeps nothing from the run, if any part is still open.
func (r *run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rollback()
	r.ended = true
}

// conclude gives the answer, and records an answer that is kept.
func (e *endpoint) conclude(w http.ResponseWriter, req *http.Request, caller Caller, r *run, answer *recorder) {
	defer r.end()
	touched := r.returned()
	if r.replay != nil || r.problem != nil {
		r.end() // a caller that reads slowly holds no connection of the database
	}
	recorded, recordable := answer.recorded(&e.Endpoint, r.keyless)
	switch keeps := receipts.Kept(answer.status, touched || r.final) && !r.released.Load(); {
	case r.replay != nil:
		e.replay(w, req, caller, r.replay)
	case r.problem != nil:
		if r.problem.Status >= 500 && r.failed != nil {
			e.storeFailed(r.ctx, "a request could not be recorded, so it is refused", r.failed)
		}
		e.refuseKey(w, req, caller.Tenant, *r.problem)
	case r.ctx.Err() != nil:
		e.failed(r.ctx, "a handler was too slow, and nothing of it is kept", errTooSlow)
		e.refuseKey(w, req, caller.Tenant, tooSlow)
	case r.misused != nil && answer.silent:
		r.end()
		e.failed(r.ctx, "a handler got no transaction and gave no answer", r.misused)
		if r.keyless || e.isFree(r.ctx, w, req, caller, r) {
			e.refuseKey(w, req, caller.Tenant, handlerMisused)
		}
	case answer.over, keeps && !recordable:
		r.end()
		e.failed(r.ctx, "a handler's answer can't be recorded", errors.New("it is larger than Endpoint.MaxAnswer, is compressed, has trailers, or was taken over"))
		if r.keyless || e.isFree(r.ctx, w, req, caller, r) {
			e.refuseKey(w, req, caller.Tenant, notRecordable)
		}
	case !keeps:
		r.end()
		more := http.Header{}
		if answer.status < 500 && !r.keyless {
			if !e.isFree(r.ctx, w, req, caller, r) {
				return
			}
			more.Set(recordedHeader, "false")
		}
		answer.give(w, more)
		e.opts.Observe(r.ctx, Outcome{Endpoint: e.name, Tenant: caller.Tenant, Kind: Released, Status: answer.status})
	default:
		e.record(w, req, caller, r, answer, recorded, touched)
	}
}

// isFree looks for the key's receipt. If there is a receipt, isFree answers the request by the receipt, and reports
// false: another process has answered meanwhile, or a handler has committed the transaction.
func (e *endpoint) isFree(ctx context.Context, w http.ResponseWriter, req *http.Request, caller Caller, r *run) bool {
	looking, cancel := grace.After(ctx)
	defer cancel()
	looked, err := e.receipts.LookReceipt(looking, r.event(machine.ReceiptReserve))
	switch p := refusals[looked.Decision]; {
	case err != nil:
		e.storeFailed(ctx, "a receipt could not be read, so the request is refused", err)
		e.refuseKey(w, req, caller.Tenant, *problemOf(err))
	case looked.Decision == machine.Replay:
		e.replay(w, req, caller, &looked.Receipt)
	case p != nil:
		e.refuseKey(w, req, caller.Tenant, *p)
	default:
		return true
	}
	return false
}

func (e *endpoint) record(w http.ResponseWriter, req *http.Request, caller Caller, r *run, answer *recorder, recorded *journal.Answer, touched bool) {
	result, err := r.commit(recorded, touched)
	if errors.Is(err, journal.ErrTxAborted) && answer.status >= 400 {
		// The handler has seen a statement fail, and declines: the transaction has nothing to keep.
		r.end()
		result, err = r.commit(recorded, false)
	}
	switch {
	case err == nil && result.Decision == machine.Replay:
		e.replay(w, req, caller, &result.Receipt)
		return
	case err == nil && refusals[result.Decision] != nil:
		e.refuseKey(w, req, caller.Tenant, *refusals[result.Decision])
		return
	case err == nil && result.Decision != machine.Recorded:
		e.opts.Logger.ErrorContext(r.ctx, "onceward server: the handler rolled the request's transaction back itself: its writes before that are not kept, and PostgreSQL may have committed those after it", "endpoint", e.name)
		e.refuseKey(w, req, caller.Tenant, handlerMisused)
		return
	case err != nil:
		settled, p := e.settle(r)
		if p == &outcomeUnknown {
			e.failed(r.ctx, "a handler committed the request's transaction itself, so an operator has to resolve the key", err)
		} else {
			e.storeFailed(r.ctx, "an answer could not be recorded; the receipt was read again", err)
		}
		if p == nil {
			e.replay(w, req, caller, settled)
		} else {
			e.refuseKey(w, req, caller.Tenant, *p)
		}
		return
	}
	what := Created
	switch {
	case r.again:
		what = Again
	case !touched && !r.repeatable:
		what = Untouched
		e.untouched.Do(func() {
			e.opts.Logger.WarnContext(r.ctx, "onceward server: a handler has succeeded without the request's transaction, so its writes are not in one commit with its answer", "endpoint", e.name)
		})
	}
	answer.give(w, expiring(&result.Receipt))
	e.opts.Observe(r.ctx, Outcome{Endpoint: e.name, Tenant: caller.Tenant, Kind: what, Status: answer.status})
}

// commit records the answer in the request's transaction, or in a separate one, and commits.
func (r *run) commit(answer *journal.Answer, touched bool) (result machine.ReceiptResult, err error) {
	if r.keyless {
		result.Decision = machine.Recorded
		if touched {
			err = r.tx.Commit(r.ctx)
		}
		return result, err
	}
	ev := r.event(machine.ReceiptRecord)
	if touched {
		ev = r.event(machine.ReceiptComplete)
		ev.Claim, ev.Reserved = r.receipt.Claim, &r.receipt
	} else if err = r.beginToRecord(); err != nil {
		return result, err
	}
	ev.Answer = answer
	if result, err = r.server.receipts.ReceiveTx(r.ctx, r.tx, ev); err != nil || result.Decision != machine.Recorded {
		return result, err
	}
	return result, r.tx.Commit(r.ctx)
}

// beginToRecord begins a transaction for the answer of a handler that had none.
func (r *run) beginToRecord() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tx, err = r.server.opts.Begin(r.ctx)
	return err
}

// settling is how long the server tries to find the result of a commit in doubt.
const settling = 5 * time.Second

// settle finds the result of a failed commit: the receipt, or the problem that answers the request. settle asks in a
// separate transaction. If the commit may still be under way, the decision is Wait.
func (e *endpoint) settle(r *run) (*journal.Receipt, *Problem) {
	r.end()
	if r.keyless {
		return nil, &inDoubt
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), settling)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		is, err := e.standing(ctx, r)
		switch {
		case seam.Certain(err): // the journal is closed, say: it tells nothing any more
			return nil, &askAgain
		case err != nil || is.Decision == machine.Wait:
		case is.Decision == machine.Replay:
			return &is.Receipt, nil
		case is.Decision == machine.Execute:
			return nil, &notDone
		default:
			return nil, refusals[is.Decision]
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, &askAgain
		case <-timer.C:
		}
	}
}

// standing returns the decision that a request like r's would meet.
func (e *endpoint) standing(ctx context.Context, r *run) (machine.ReceiptResult, error) {
	tx, err := e.opts.Begin(ctx)
	if err != nil {
		return machine.ReceiptResult{}, err
	}
	defer grace.Rollback(ctx, tx)
	return e.receipts.ReceiveTx(ctx, tx, r.event(machine.ReceiptReserve))
}

// replay gives the recorded answer.
func (e *endpoint) replay(w http.ResponseWriter, req *http.Request, caller Caller, recorded *journal.Receipt) {
	if e.MayReplay != nil && e.MayReplay(req, *recorded) != nil {
		e.refuseKey(w, req, caller.Tenant, replayForbidden)
		return
	}
	a := recorded.Answer
	maps.Copy(w.Header(), a.Header)
	maps.Copy(w.Header(), expiring(recorded))
	w.Header().Set(replayedHeader, "true")
	status := cmp.Or(a.Status, http.StatusOK) // a person may have given none
	w.WriteHeader(status)
	_, _ = w.Write(a.Body)
	e.opts.Observe(req.Context(), Outcome{Endpoint: e.name, Tenant: caller.Tenant, Kind: Replayed, Status: status})
}

func expiring(r *journal.Receipt) http.Header {
	if r.ExpiresAt.IsZero() {
		return nil // the request had no key
	}
	return http.Header{expiresHeader: {r.ExpiresAt.UTC().Format(http.TimeFormat)}}
}

func (e *endpoint) failed(ctx context.Context, what string, err error) {
	e.opts.Logger.ErrorContext(ctx, "onceward server: "+what, "endpoint", e.name, "error", secret.Text(err.Error()))
}

// storeFailed logs a failure of the journal. While the database is away each request fails, and the log has a line a minute.
func (e *endpoint) storeFailed(ctx context.Context, what string, err error) {
	if omitted, logs := e.bursts.Logs(problemOf(err).Name, time.Now()); logs {
		e.opts.Logger.ErrorContext(ctx, "onceward server: "+what, "endpoint", e.name, "error", secret.Text(err.Error()), "omitted", omitted)
	}
}

// errTooSlow has advice for the operator.
var errTooSlow = errors.New("it ran for longer than Endpoint.Limit, or its transaction was open for longer than Endpoint.Held; on SQLite, a request to the service itself, or a write by another connection, waits for the end of the transaction")
