package call

import (
	"net/http"

	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/tables"
)

// Identify finds a request's contract and operation. It returns nil for a request that passes straight
// through.
func (f *Factory) Identify(req *http.Request) (*Call, error) {
	if req.URL == nil || req.URL.Host == "" {
		return nil, nil
	}
	route := f.Router.Route(req.Method, req.URL).For(tables.Message{Header: req.Header, Query: req.URL.RawQuery})
	if !route.Effect {
		return nil, nil
	}
	k := &Call{factory: f, client: f.Client, ctx: req.Context(), req: req, route: route, name: naming.Of(req.Context())}
	var err error
	if k.name, err = k.name.BelowInbound(); err != nil {
		return nil, k.Fail(fault.ErrInvalidRequest, err)
	}
	if exchange.IsAnswer(req.Response) {
		return nil, k.Fail(fault.ErrRedirected, nil)
	}
	if !route.Listed && !k.name.IsNamed() {
		return nil, k.gap()
	}
	switch {
	case !Streams(req):
	case !k.name.IsNamed():
		return nil, k.gap()
	case !route.Undecided || connects(req):
		return nil, k.Fail(fault.ErrInvalidRequest, errStreams)
	}
	return k, nil
}

// Streams reports whether a request can't be repeated, since the body is known only during the send.
func Streams(req *http.Request) bool {
	return connects(req) || len(req.TransferEncoding) > 0 && req.TransferEncoding[0] == "chunked"
}

// connects reports whether a request is one whose body is not available before it is sent.
func connects(req *http.Request) bool {
	return req.Method == http.MethodConnect || req.Header.Get("Upgrade") != "" || len(req.Trailer) > 0
}
