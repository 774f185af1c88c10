package onceward

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
)

// Install routes requests through c that are sent by http.DefaultTransport to a host that Config.Providers lists. It
// serves http.DefaultClient, and each http.Client or SDK without a transport of its own. All other requests take the way
// that they took before, also under another port of such a host. A redirect to another host fails with ErrRedirected,
// as it does with Client.HTTPClient. docs/sdks.md says what Install misses.
//
// The returned function undoes it, and is harmless if called again. Call it before Shutdown, or requests to listed hosts
// fail with ErrShutdown. Until then a second Install fails. Install also fails if no table of c lists a host.
//
// Install and the returned function write http.DefaultTransport, so no other goroutine may use it meanwhile. Call them
// at the start and end of main, in TestMain, or in a test that is not parallel.
func Install(c *Client) (uninstall func(), err error) {
	if !c.core.Router.ListsHosts() {
		return nil, errors.New("onceward: Install: no table of Config.Providers lists a host, so no request would be routed: " +
			"set Hosts, or pass Client.HTTPClient to your code")
	}
	if !installed.CompareAndSwap(false, true) {
		return nil, errors.New("onceward: a client is installed already: undo that first")
	}
	d := &defaultTransport{client: c, replaced: http.DefaultTransport}
	http.DefaultTransport = d
	return sync.OnceFunc(func() {
		d.removed.Store(true)
		if http.DefaultTransport == http.RoundTripper(d) {
			http.DefaultTransport = d.replaced
		}
		installed.Store(false)
	}), nil
}

// installed says whether a client is installed.
var installed atomic.Bool

// defaultTransport takes the place of http.DefaultTransport.
type defaultTransport struct {
	client   *Client
	replaced http.RoundTripper
	removed  atomic.Bool
}

func (d *defaultTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil || d.removed.Load() || req.Context().Value(belowKey{}) != nil || !d.client.core.Router.Lists(req.URL) && !isRedirected(req) {
		return d.replaced.RoundTrip(req)
	}
	return d.client.Transport().RoundTrip(req)
}

// isRedirected reports whether an http.Client follows an operation's answer. If that leads to an unlisted host, a request
// with an effect would be made again each time the answer is given again. The client refuses it.
func isRedirected(req *http.Request) bool {
	if req.Response == nil {
		return false
	}
	_, is := OperationOf(req.Response)
	return is
}

// CloseIdleConnections makes http.Client.CloseIdleConnections work as before.
func (d *defaultTransport) CloseIdleConnections() {
	if closer, ok := d.replaced.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// below marks the requests that a client sends. Its transport may be, hold or look up an installed one, which would
// send them through a client once more.
type below struct{ http.RoundTripper }

type belowKey struct{}

func (b below) RoundTrip(req *http.Request) (*http.Response, error) {
	if !installed.Load() {
		return b.RoundTripper.RoundTrip(req)
	}
	sent := req.WithContext(context.WithValue(req.Context(), belowKey{}, true))
	resp, err := b.RoundTripper.RoundTrip(sent)
	if resp != nil && resp.Request == sent {
		resp.Request = req
	}
	return resp, err
}
