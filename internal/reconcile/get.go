package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// purpose is what requests that read from a provider are for.
type purpose struct {
	route  tables.Route
	frozen *journal.Request // whose headers, host and withheld credentials they have
	mode   string           // of the credential, if it is known
	tells  func(context.Context) context.Context
}

// lookFor returns a look-up's purpose.
func lookFor(op *journal.Operation, route tables.Route) purpose {
	return purpose{route, &op.Request, op.Mode, func(ctx context.Context) context.Context {
		return context.WithValue(ctx, lookKey{}, op.Ref)
	}}
}

// read sends a sweep's requests, and returns a digest of their answers.
func (l *Pass) read(ctx context.Context, op *journal.Operation, route tables.Route, s *lookup.Sweep, w *listing, whose identity) string {
	sum := sha256.New()
	for req := s.Next(); req != nil; req = s.Next() {
		got := l.get(ctx, lookFor(op, route), req, w, whose.bound())
		if got.err != nil {
			s.Fail(describeLook(got.err))
			break
		}
		sum.Write(got.body)
		s.Read(got.status, got.header, got.body)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// got is the answer to one request of a look-up.
type got struct {
	status int
	header http.Header
	body   []byte
	proven bool // TLS proves that it comes from the host
	err    error
}

// get sends one request within the provider's budget. If a credential is named, the request must have it.
func (l *Pass) get(ctx context.Context, to purpose, planned *http.Request, w *listing, credential string) got {
	finder := l.finder
	pace := l.pace
	if pace == nil {
		pace = finder.paces[to.route.Provider.KeysUnder]
	}
	if err := l.wait(ctx, pace); err != nil {
		return got{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, finder.AttemptTimeout)
	defer cancel()
	req, err := l.compose(ctx, to, planned)
	if err == nil && credential != "" && finder.identities.credentialOf(req, to.route.Provider, planned.URL) != credential {
		err = errAnotherCredential
	}
	if err != nil {
		return got{err: err}
	}
	resp, err := finder.Base.RoundTrip(req)
	if err != nil {
		return got{err: errors.Join(errNoAnswer, err)}
	}
	defer resp.Body.Close()
	now := finder.Now()
	if asked, ok := retry.After(resp.Header, now, finder.Backoff.WithDefaults().MaxRetryAfter); ok && resp.StatusCode >= 400 {
		pace.rest(now.Add(asked))
	} else if resp.StatusCode == http.StatusTooManyRequests {
		pace.rest(now.Add(time.Minute))
	}
	body, err := wire.ReadUpTo(resp.Body, lookup.MaxBody, resp.ContentLength)
	if err != nil {
		return got{err: errors.Join(errNoAnswer, err)}
	}
	if resp.StatusCode/100 == 2 {
		pace.bucket.Success(now)
	}
	if w != nil {
		w.status = resp.StatusCode
	}
	return got{status: resp.StatusCode, header: resp.Header, body: body, proven: provenBy(resp.TLS, planned.URL.Host)}
}

// compose makes a request as planned, with the credential for the request's purpose.
func (l *Pass) compose(ctx context.Context, to purpose, planned *http.Request) (*http.Request, error) {
	frozen := *to.frozen
	frozen.Header = planned.Header
	requests := l.finder.Composer(l.Caller, l.Query, &to.route, &frozen)
	var body []byte
	if planned.Body != nil {
		body, _ = io.ReadAll(planned.Body) // it is in memory
	}
	req, err := requests.AddCredentials(to.tells(naming.Without(ctx)), requests.Frame(ctx, planned.Method, planned.URL), body)
	if err != nil {
		return nil, err
	}
	if was, is := to.mode, tables.Mode(to.route.Provider, req.Header); was != "" && is != "" && was != is {
		return nil, wire.ErrModeChanged
	}
	if req.Body = http.NoBody; len(body) > 0 {
		wire.SetBody(req, body)
	}
	return req, nil
}

var errAnotherCredential = errors.New("Config.Authorize gave another credential than for the look-up's first request, which identified the account")

var errNoAnswer = errors.New("the provider gave no usable answer")

const errWithheld = "the credential that it was sent with is withheld from the journal, and nothing here adds it: " +
	"give Config.Authorize, or ask for the operation with it"

// describeLook returns the recordable part of an error, never the error's text, which may hold a secret.
func describeLook(err error) string {
	switch {
	case errors.Is(err, errLookBudget), errors.Is(err, wire.ErrModeChanged), errors.Is(err, errAnotherCredential):
		return err.Error()
	case errors.Is(err, fault.ErrCredentialMissing):
		return errWithheld
	case errors.Is(err, wire.ErrUnauthorized):
		return "Config.Authorize failed"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "the look-up did not end in time"
	}
	return errNoAnswer.Error()
}

type lookKey struct{}

// LookOf reports whether a request with this context only looks for an operation, and for which one.
func LookOf(ctx context.Context) (ref journal.Ref, looks bool) {
	ref, looks = ctx.Value(lookKey{}).(journal.Ref)
	return ref, looks
}
