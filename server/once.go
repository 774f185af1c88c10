package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/fingerprint"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/keyheader"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// Key names what [Once] does.
type Key struct {
	Caller   Caller
	Name     string   // of what is done, as an endpoint's
	Formerly []string // names that it had in earlier deploys, as Endpoint.Formerly
	Key      string   // 1 to 255 bytes of visible ASCII
}

// RefusedError says why [Once] has not called its function.
type RefusedError struct{ Problem Problem }

// Error returns the problem's detail.
func (e *RefusedError) Error() string {
	return "server: " + e.Problem.Name + ": " + e.Problem.Detail
}

// Unwrap returns ErrRefused.
func (e *RefusedError) Unwrap() error { return ErrRefused }

// Once is [Server.Atomic] for work that is no endpoint: a GraphQL mutation, a gRPC method, one item in a batch, a job.
// Once calls do with a context whose transaction [Tx] begins, and commits do's writes together with the result, as JSON.
// If a result is recorded, Once returns the result without calling do. request identifies the request, as JSON: another
// request under the key is refused.
//
// Once returns do's error unchanged. Nothing is kept then, and the key is free. If another process has recorded a result
// meanwhile, Once returns this result instead of the error, since the result may be the cause. A [*RefusedError] says that
// the key is not served: the key was used for another request, is being served or has expired, or the outcome is unknown.
// do may take as long as the handler in an Endpoint without a Limit.
func Once[T any](ctx context.Context, s *Server, k Key, request any, do func(context.Context) (T, error)) (T, error) {
	var none T
	e := s.checked(k.Name, Endpoint{KeyBytes: [2]int{1, 255}, Formerly: k.Formerly})
	places := append([]string{k.Name}, k.Formerly...)
	at := &endpoint{Server: s, Endpoint: e, name: first(places), places: places}
	switch reason := cmp.Or(at.malformed(k.Key), reasonOf(onceward.Key(k.Key).Validate())); {
	case reason != "":
		return none, fmt.Errorf("server: once: the key %s", reason)
	case k.Caller.Tenant == "" || len(k.Caller.Tenant) > 512:
		return none, errors.New("server: once: Key.Caller.Tenant is empty, or has more than 512 bytes")
	}
	if seam.IsInTransaction(ctx) {
		return none, ErrInTransaction
	}
	body, err := json.Marshal(request)
	if err != nil {
		return none, fmt.Errorf("server: once: the request is not JSON: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Limit)
	defer cancel()
	prints, err := s.printsOf(ctx, fingerprint.Input{ContentType: "application/json", Body: body}, k.Caller.Who)
	if err != nil {
		return none, err
	}
	r := &run{server: s, held: e.Held, prints: prints, places: places, tenant: k.Caller.Tenant}
	r.base = machine.ReceiptEvent{ReceiptKey: s.receiptKey(k.Caller.Tenant, at.name, k.Key), Place: at.name, Fingerprint: prints[0].Fingerprint(), Keep: e.Retain, Refuse: e.RefuseFor}
	r.under(ctx, cancel)
	ctx = r.ctx
	if s.inbound != nil {
		if ctx = s.below(ctx, k.Key); ctx == nil {
			return none, errors.New("server: once: Key.Caller.Tenant can't be the scope of the calls below: it is no plain text")
		}
	}
	defer r.end()
	flying := flightKey{r.base.Scope, r.base.Key}
	f, leads := s.board(flying, prints)
	if leads {
		defer s.land(flying, f)
	}
	// look returns the error errKeyFree if the key has no receipt.
	look := func() (T, error) {
		looking, cancel := grace.After(ctx)
		defer cancel()
		looked, err := s.receipts.LookReceipt(looking, r.event(machine.ReceiptReserve))
		switch p := refusals[looked.Decision]; {
		case err != nil:
			return none, err
		case looked.Decision == machine.Replay:
			return resultOf[T](&looked.Receipt)
		case p != nil:
			return none, &RefusedError{*p}
		}
		return none, errKeyFree
	}
	switch result, err := look(); {
	case !errors.Is(err, errKeyFree):
		return result, err
	case !leads:
		return none, &RefusedError{inFlight}
	}
	result, err := do(ctx)
	switch {
	case r.replay != nil:
		return resultOf[T](r.replay)
	case errors.Is(r.failed, ErrRefused):
		return none, &RefusedError{*r.problem}
	case r.failed != nil:
		return none, r.failed
	case err != nil: // because of a result that another process has recorded meanwhile, perhaps
		r.end()
		if result, other := look(); !errors.Is(other, errKeyFree) {
			return result, other
		}
		return none, err
	case r.released.Load():
		return result, nil
	}
	if body, err = json.Marshal(result); err != nil {
		return none, fmt.Errorf("server: once: the result is not JSON: %w", err)
	}
	if int64(len(body)) > e.MaxAnswer {
		return none, errAnswerTooLarge
	}
	done, err := r.commit(&journal.Answer{Body: body}, r.returned())
	if err != nil || done.Decision != machine.Recorded {
		settled, p := at.settle(r)
		if p != nil {
			return none, errors.Join(&RefusedError{*p}, err)
		}
		return resultOf[T](settled)
	}
	return result, nil
}

// below returns ctx with the key as the parent of calls, or nil if the tenant cannot be their scope.
func (s *Server) below(ctx context.Context, key string) (under context.Context) {
	quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
	r := (&http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/"}, Header: http.Header{keyheader.Name: {quoted}}}).WithContext(ctx)
	s.inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { under = r.Context() })).ServeHTTP(&recorder{header: http.Header{}}, r)
	return under
}

// resultOf returns the recorded result.
func resultOf[T any](r *journal.Receipt) (result T, err error) {
	if err = json.Unmarshal(r.Answer.Body, &result); err != nil {
		return result, fmt.Errorf("server: once: the result recorded at %s can't be read as %T: %w", r.SettledAt.Format(time.RFC3339), result, err)
	}
	return result, nil
}
