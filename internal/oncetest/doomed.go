//go:build unix

package oncetest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"

	"github.com/onceward/onceward/internal/machine"
)

// DoomedJournal reaches the points around the journal's events.
type DoomedJournal struct {
	machine.Store
	Fate *Fate
}

func (j DoomedJournal) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	j.Fate.Reach(BeforeEvent(ev.Kind))
	res, err := j.Store.Apply(ctx, ev)
	j.Fate.Reach(AfterEvent(ev.Kind))
	return res, err
}

func (j DoomedJournal) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	j.Fate.Reach(BeforeEvent(ev.Kind))
	res, err := j.Store.Claim(ctx, ev, limit)
	j.Fate.Reach(AfterEvent(ev.Kind))
	return res, err
}

// DoomedReconciler is a DoomedJournal that also finds the outcomes of unknown operations.
type DoomedReconciler struct {
	DoomedJournal
	machine.Reconciler
}

// Looks reaches the points around EventLook.
func (j DoomedReconciler) Looks(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	j.Fate.Reach(BeforeEvent(ev.Kind))
	res, err := j.Reconciler.Looks(ctx, ev, limit)
	j.Fate.Reach(AfterEvent(ev.Kind))
	return res, err
}

// RecordEvent reaches the points around EventEvidence.
func (j DoomedReconciler) RecordEvent(ctx context.Context, heard machine.Heard, evs []machine.Event) ([]machine.Result, bool, error) {
	j.Fate.Reach(BeforeEvent(machine.EventEvidence))
	res, first, err := j.Reconciler.RecordEvent(ctx, heard, evs)
	j.Fate.Reach(AfterEvent(machine.EventEvidence))
	return res, first, err
}

type doomedTransport struct {
	http.RoundTripper
	fate *Fate
}

// NewDoomedTransport returns net/http's own transport, which reaches the points on the wire. Bodies have to be
// objects of JSON.
func NewDoomedTransport(mine *Fate) http.RoundTripper {
	wire := http.DefaultTransport.(*http.Transport).Clone()
	wire.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &doomedConn{Conn: conn, fate: mine}, nil
	}
	return doomedTransport{wire, mine}
}

func (t doomedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { t.fate.Reach(AfterConnect) },
	})))
	if err != nil {
		return nil, err
	}
	t.fate.Reach(AfterStatusLine)
	resp.Body = doomedBody{resp.Body, t.fate}
	return resp, nil
}

// doomedConn notices when a request's last byte was given to the kernel, by the brace that ends each body. That is
// after httptrace's WroteRequest.
type doomedConn struct {
	net.Conn
	fate    *Fate
	writing sync.Mutex
}

// Read returns no answer before the point after the request's last byte.
func (c *doomedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.writing.Lock()
	defer c.writing.Unlock()
	return n, err
}

func (c *doomedConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.Conn.Write(p)
	if err == nil && bytes.HasSuffix(p, []byte("}")) {
		c.fate.Reach(AfterLastByte)
	}
	return n, err
}

type doomedBody struct {
	io.ReadCloser
	fate *Fate
}

func (b doomedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), 8)])
	if n > 0 {
		b.fate.Reach(MidBody)
	}
	return n, err
}
