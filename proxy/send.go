package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
)

// RoundTrip sends a request as it goes on. A request that may have an effect goes through the client by its name. Its
// caller waits for MaxWait. If the caller leaves, the operation goes on.
func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	message := tables.Message{Header: r.Header, Query: r.URL.RawQuery}
	route := p.core.Router.Route(r.Method, r.URL).For(message)
	if !route.Effect {
		return p.pass(r)
	}
	body, err := p.read(r)
	if err != nil {
		return nil, err
	}
	message.Body = core.AsRead(body)
	if route = route.For(message); !route.Effect {
		return p.pass(with(r, r.Context(), message))
	}
	name := r.Context().Value(askedKey{}).(asked)
	key := tables.Key(route.Endpoint.Key).OfAnyVersion()
	carried, isCarried, err := key.Carried(message)
	switch {
	case err != nil:
		return nil, &refusal{problem: malformed, cause: err}
	case isCarried && p.upstream.MadeUp(carried):
		isCarried = false
		if message, err = key.Without(message); err != nil {
			return nil, &refusal{problem: malformed, cause: err}
		}
	}
	if isRecorded := route.Listed && (isCarried || route.Endpoint.Idempotent); !name.named && !isRecorded {
		return nil, &refusal{problem: nameMissing}
	}
	ctx := onceward.WithScope(context.WithoutCancel(r.Context()), name.scope)
	if name.named {
		ctx = onceward.WithOperation(ctx, name.name)
	}
	return p.await(r.Context(), with(r, ctx, message))
}

// read takes a request's body into memory.
func (p *proxy) read(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	body, err := wire.ReadUpTo(r.Body, p.upstream.MaxRequest, r.ContentLength)
	switch {
	case int64(len(body)) > p.upstream.MaxRequest:
		return nil, &refusal{problem: tooLarge}
	case err != nil:
		return nil, &refusal{problem: broken, cause: err}
	}
	return body, nil
}

// with returns a request under ctx with the message's parts. Its body can be read again, and has no trailers.
func with(r *http.Request, ctx context.Context, m tables.Message) *http.Request {
	out := r.WithContext(ctx)
	target := *r.URL
	target.RawQuery = m.Query
	out.URL, out.Header, out.ContentLength, out.TransferEncoding, out.Trailer = &target, m.Header, int64(len(m.Body)), nil, nil
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(m.Body)), nil }
	out.Body, _ = out.GetBody()
	if len(m.Body) == 0 {
		out.Body = http.NoBody
	}
	return out
}

// pass sends a request that has no effect.
func (p *proxy) pass(r *http.Request) (*http.Response, error) {
	resp, err := p.sends.RoundTrip(r)
	if err != nil {
		return nil, &refusal{problem: unreachable, cause: err}
	}
	strip(resp.Header)
	return resp, nil
}

// answer is what a call came to.
type answer struct {
	resp *http.Response
	err  error
}

// await makes a call, and returns its answer, or after MaxWait that there is none yet.
func (p *proxy) await(caller context.Context, r *http.Request) (*http.Response, error) {
	answered := make(chan answer, 1)
	go func() {
		resp, err := p.sends.RoundTrip(r)
		answered <- answer{resp, err}
	}()
	limit := time.NewTimer(p.upstream.MaxWait)
	defer limit.Stop()
	select {
	case a := <-answered:
		if a.err != nil {
			return nil, a.err
		}
		return p.outcome(a.resp)
	case <-limit.C:
	case <-caller.Done():
	}
	go func() {
		if a := <-answered; a.resp != nil {
			a.resp.Body.Close()
		}
	}()
	return nil, &onceward.Error{Kind: onceward.ErrPending, Err: errors.New("the caller's time is up, and the operation goes on")}
}

// outcome marks an operation's answer for the caller.
func (p *proxy) outcome(resp *http.Response) (*http.Response, error) {
	op, is := onceward.OperationOf(resp)
	if !op.Replayed {
		strip(resp.Header) // the client's own marks are on a recorded answer
	}
	if status := resp.StatusCode; (status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect) && resp.Header.Get("Location") != "" {
		resp.Body.Close()
		return nil, &onceward.Error{Operation: op, Kind: onceward.ErrRedirected}
	}
	if is {
		resp.Header.Set(stateHeader, op.State.String())
	}
	if op.Replayed {
		resp.Header.Set(replayedHeader, "true")
	}
	return resp, nil
}
