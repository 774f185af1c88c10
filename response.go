package onceward

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// Response is what a provider answered, where that is not the operation's outcome.
// Printed, logged or as JSON it is its status and no more: header and body may hold
// anything.
type Response struct {
	Status int
	Header http.Header
	Body   []byte // what was read of it, at most Config.MaxResponseBody
	Cut    bool   // Body is only its beginning
}

func (r Response) String() string { return fmt.Sprintf("status %d", r.Status) }

// Format writes String, whatever the verb.
func (r Response) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// LogValue is String.
func (r Response) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalJSON gives the status alone.
func (r Response) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct{ Status int }{r.Status})
}

// response is what was answered to the attempt; nil: nothing was.
func (r *run) response(a *attempt) *Response {
	if a.resp == nil {
		return nil
	}
	body := a.body
	if limit := r.client.cfg.MaxResponseBody; int64(len(body)) > limit {
		body = body[:limit:limit]
	}
	return &Response{Status: a.resp.StatusCode, Header: a.resp.Header, Body: body, Cut: a.partial || a.cut != nil}
}

// lastResponse is the last one that came in this run, if any did.
func (r *run) lastResponse() *Response {
	if last := r.response(&r.attempt); last != nil {
		return last
	}
	return r.answered
}

// discard closes the rest of an answer that nobody gets.
func (a *attempt) discard() {
	if a.partial && !a.closed {
		a.resp.Body.Close()
	}
}

// inBackground tells whether Run and Resume send a pending operation, as far as this
// client knows.
func (c *Client) inBackground(op *journal.Operation, frozen *journal.Request) bool {
	switch {
	case op.BodyWithheld, op.Naming != journal.Named && (op.Told || c.cfg.NamedOnly), c.isStranger(op, frozen), c.lacksCredential(op, frozen):
		return false
	case !op.MayHaveRun && !op.NotAfter.IsZero() && core.Later(c.now(), op.DueAt).After(op.NotAfter): // it is cancelled, then
		return false
	case c.cfg.Authorize != nil && op.Provider != "" && wire.Confidential(parsed(frozen.URL)):
		return true
	}
	return !wire.NeedsCredential(frozen)
}

// lacksCredential tells whether Run or Resume have found of late that they lack a credential
// that an operation needs, whose contract they know.
func (c *Client) lacksCredential(op *journal.Operation, frozen *journal.Request) bool {
	u := parsed(frozen.URL)
	asked := *op
	asked.Request = *frozen
	return c.throttle.Missing(targetOf(&asked, c.router.Route(frozen.Method, u), u.Host)) != ""
}

// isStranger tells whether this client knows no contract of the name that the operation
// has, and leaves it to those who do.
func (c *Client) isStranger(op *journal.Operation, frozen *journal.Request) bool {
	u := parsed(frozen.URL)
	if u == nil {
		return true
	}
	route := c.router.Route(frozen.Method, u)
	return !route.Undecided && !sameContract(op, route)
}
